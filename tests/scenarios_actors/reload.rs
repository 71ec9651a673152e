//! New limits under load: the upstream's log shows no window above the limit that was in force.

use std::time::Duration;

use mailweir::Lane;
use mailweir::clock::Clock;
use mailweir::config::Config;
use mailweir::engine::{Ratio, ScopeKind, Timestamp};
use mailweir::upstream::{Arrival, Model, Refusals, Schedule, UpstreamLimit, check};

use crate::support::*;

/// The provider announces: a quarter of today's rate in 70 s, all of it back later. We follow at once.
const LOWERED: Duration = Duration::from_secs(90);
const RAISED: Duration = Duration::from_secs(400);

fn provider(scope: ScopeKind) -> Model {
    let scale = Schedule::always(Ratio::percent(75))
        .then(START.after(LOWERED + seconds(70)), Ratio::percent(25))
        .then(START.after(RAISED), Ratio::ONE);
    let mut model = Model::new([UpstreamLimit::requests(40, MINUTE).at_scope(scope).scaled(scale)]);
    model.refusals = Refusals::Counted;
    model
}

fn config(scope: ScopeKind, amount: u32) -> Config {
    let limits = limits(&[&format!("{amount} requests / 1m")]);
    let config = unlimited();
    match scope {
        ScopeKind::Mailbox => config.mailbox_limits(limits),
        _ => config.application_limits(limits),
    }
}

#[test]
fn limits_that_are_lowered_and_raised_under_load_are_never_exceeded() {
    for (scope, mailboxes) in [(ScopeKind::Mailbox, 1), (ScopeKind::Application, 20)] {
        paused(|| follow(scope, mailboxes));
    }
}

async fn follow(scope: ScopeKind, mailboxes: usize) {
    let bench = Bench::start(config(scope, 30), provider(scope), 11).await;
    let batch = (0..240).map(|n| {
        let lane = if n % 3 == 0 { Lane::Background } else { Lane::Foreground };
        submission(&format!("m{}@contoso.example", n % mailboxes), &format!("op-{n}"), lane)
    });
    let tickets = bench.handle.submit_many(batch).await;
    tokio::time::sleep(LOWERED).await;
    bench.handle.reconfigure(config(scope, 10)).await.expect("in force");
    tokio::time::sleep(RAISED - LOWERED).await;
    assert_eq!(bench.clock.now(), START.after(RAISED));
    bench.handle.reconfigure(config(scope, 40)).await.expect("in force");
    for ticket in tickets {
        accepted(ticket.expect("taken in")).await;
    }

    let upstream = bench.upstream();
    let counts = check::counts(upstream.log().client());
    assert_eq!((counts.refused, counts.executed, counts.duplicates), (0, 240, 0), "{scope:?}");
    let limit = UpstreamLimit::requests(40, MINUTE).at_scope(scope);
    let most = |from: Timestamp, until: Timestamp| {
        let within = |arrival: &&Arrival| from <= arrival.at && arrival.at < until;
        check::max_in_window(upstream.log().client().filter(within), &limit)
    };
    // What had started when the limit was lowered may arrive a little later.
    let (lowered, raised) = (START.after(LOWERED + seconds(2)), START.after(RAISED));
    let spans = [most(START, lowered), most(lowered, raised), most(START, Timestamp::NEVER)];
    println!(
        "{scope:?}: at most {spans:?} per minute of [30, 10, 40], done after {:?}",
        bench.clock.now().since(START)
    );
    assert_eq!(spans[0], 30, "the first limit was used");
    assert_eq!(spans[1], 10, "the lowered limit was used, and not exceeded");
    assert!(spans[2] <= 40, "a raised limit grants no free window");
    assert!(most(raised, raised.after(MINUTE)) > 30, "and the raised limit is used at once");
}
