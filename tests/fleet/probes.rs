//! A throttle of the application: one cooldown and one probe, however many processes there are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::Lane;
use mailweir::engine::{Scope, Timestamp};
use mailweir::upstream::{Block, Model, RetryAfterPolicy, ScopeHeader, Upstream};

use crate::support::*;

const MEMBERS: usize = 3;
/// What a change may take to reach every process.
const SOON: Duration = Duration::from_millis(200);

fn mailbox(number: usize) -> String {
    format!("mailbox-{number}@contoso.example")
}

/// Members with a mailbox each, over an upstream that refuses the whole application for a while.
async fn blocked(from: Timestamp, until: Timestamp) -> Bench {
    let mut bench = Bench::start(0).await;
    let mut model = Model::new([]);
    model.scope_header = ScopeHeader::Word;
    model.retry_after = RetryAfterPolicy::Constant(30);
    model.blocks = vec![Block { scope: Scope::Application, from, until }];
    bench.upstream = Arc::new(Mutex::new(Upstream::new(model, 7)));
    for number in 0..MEMBERS {
        bench.join(&config(), START).await;
        let first = submission(&mailbox(number), &format!("first-{number}"), Lane::Foreground);
        let ticket = bench.members[number].handle.submit(first).await.expect("it is stored");
        ticket.outcome().await.expect("it is sent");
    }
    bench
}

#[test]
fn a_throttle_of_the_application_is_one_cooldown_and_one_probe_over_all_processes() {
    paused(|| async {
        let (from, until) = (START.after(seconds(10)), START.after(seconds(400)));
        let bench = blocked(from, until).await;
        // One of them meets it, the others have something to send from then on.
        pass(from.since(bench.now())).await;
        bench.fill(&mailbox(0), "zero", 1, Lane::Foreground).await;
        pass(SOON).await;
        let rested = bench.now();
        for number in 0..MEMBERS {
            bench.fill(&mailbox(number), &format!("late-{number}"), 20, Lane::Foreground).await;
        }
        pass(MINUTE * 30).await;
        let log: Vec<_> = bench.upstream().log().iter().cloned().collect();
        let refused: Vec<Timestamp> = log.iter().filter(|one| one.status == 429).map(|one| one.at).collect();
        assert!(refused.len() >= 3, "{refused:?}");
        assert!(refused.iter().all(|at| *at < rested || at.since(rested) > seconds(5)), "nobody sent in the cooldown");
        let apart = refused.windows(2).map(|pair| pair[1].since(pair[0]));
        assert!(apart.clone().all(|apart| apart > seconds(5)), "two at once: {:?}", apart.collect::<Vec<_>>());
        let probes: Vec<Timestamp> =
            log.iter().filter(|one| one.executed && one.at >= until).map(|one| one.at).take(2).collect();
        assert!(probes[1] > probes[0], "the second when the first was answered");
        assert_eq!(bench.taken(START, bench.now()), MEMBERS + 1 + MEMBERS * 20);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
    });
}

#[test]
fn the_next_process_probes_when_the_first_is_done_and_not_when_its_token_ends() {
    paused(|| async {
        let (from, until) = (START.after(seconds(10)), START.after(seconds(20)));
        let bench = blocked(from, until).await;
        pass(from.since(bench.now())).await;
        for number in 0..MEMBERS {
            bench.fill(&mailbox(number), &format!("late-{number}"), 4, Lane::Foreground).await;
        }
        pass(MINUTE * 10).await;
        let log: Vec<_> = bench.upstream().log().iter().cloned().collect();
        let sent: Vec<Timestamp> = log.iter().filter(|one| one.executed && one.at >= until).map(|one| one.at).collect();
        assert_eq!(sent.len(), MEMBERS * 4);
        let took = sent[sent.len() - 1].since(sent[0]);
        assert!(took < seconds(50), "{took:?} from the first probe to the last email");
    });
}
