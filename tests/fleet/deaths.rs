//! Owners that end: in peace, without a word, or in their sleep.

use mailweir::scheduler::StartError;
use mailweir::store::hub::Link;
use mailweir::{Lane, Outcome};

use crate::support::*;

async fn owned_by(bench: &Bench) -> usize {
    for _ in 0..60 {
        if let Some(owner) = bench.owner(MAILBOX).await {
            return owner;
        }
        pass(seconds(1)).await;
    }
    panic!("nobody owns it");
}

#[test]
fn a_clean_hand_over_goes_on_at_the_full_rate() {
    paused(|| async {
        let mut bench = Bench::start(2).await;
        bench.fill(MAILBOX, "bulk", 400, Lane::Background).await;
        pass(MINUTE * 3).await;
        let owner = owned_by(&bench).await;
        bench.members[owner].shut_down().await;
        let from = bench.now();
        pass(MINUTE * 5).await;
        let taken = bench.taken(from, bench.now());
        assert!(taken >= 5 * 26, "{taken} in five minutes: the successor is at once at the full rate");
        assert_eq!(bench.refused(), 0);
        assert!(bench.twice().is_empty());
    });
}

#[test]
fn a_dead_owners_successor_is_at_half_until_nobody_else_can_be_at_work_and_loses_nothing() {
    paused(|| async {
        let mut bench = Bench::start(2).await;
        bench.fill(MAILBOX, "bulk", 500, Lane::Background).await;
        pass(MINUTE * 3).await;
        let owner = owned_by(&bench).await;
        bench.members[owner].die();
        let died = bench.now();
        pass(seconds(60)).await;
        assert_eq!(owned_by(&bench).await, 1 - owner, "taken over when the lease has run out");
        let half = (bench.now(), bench.now().after(MINUTE * 9));
        pass(MINUTE * 9).await;
        let taken = bench.taken(half.0, half.1);
        assert!((9 * 12..=9 * 15).contains(&taken), "{taken} in nine minutes is no half of 30 a minute");
        pass(MINUTE * 4).await;
        let full = bench.now();
        pass(MINUTE * 5).await;
        let taken = bench.taken(full, bench.now());
        assert!(taken >= 5 * 26, "{taken} in five minutes: full again {:?} after the death", full.since(died));
        pass(MINUTE * 20).await;
        assert_eq!(bench.taken(START, bench.now()), 500);
        assert_eq!(bench.refused(), 0);
        assert!(bench.twice().is_empty());
    });
}

/// When everything else has been sent nothing happens but renewals, and whatever the phase between them and the timer
/// that frees what the dead owner might have been sending, it is freed.
#[test]
fn what_is_left_to_a_dead_owner_is_sent_when_it_cannot_be_at_work_any_more_and_its_tickets_are_answered() {
    for phase in 0..7 {
        paused(|| async move {
            let mut bench = Bench::start(2).await;
            bench.fill(MAILBOX, "first", 40, Lane::Foreground).await;
            pass(seconds(2 + phase)).await;
            let owner = owned_by(&bench).await;
            let mut tickets = Vec::new();
            for number in 0..10 {
                let next = submission(MAILBOX, &format!("next-{number}"), Lane::Foreground);
                tickets.push(bench.members[1 - owner].handle.submit(next).await.expect("it is stored"));
            }
            bench.members[owner].die();
            let died = bench.now();
            for ticket in tickets {
                let outcome = tokio::time::timeout(MINUTE * 20, ticket.outcome()).await;
                assert!(matches!(outcome, Ok(Ok(Outcome::Accepted { .. }))), "phase {phase}: {outcome:?}");
            }
            // The lease, the look for orphans, then grace, the longest request and what clocks may err.
            let (took, due) = (bench.now().since(died), seconds(15 + 5 + 600 + 65 + 2));
            assert!(took < due + seconds(5), "phase {phase}: {took:?} instead of {due:?}");
            assert_eq!(bench.refused(), 0);
            assert!(bench.twice().is_empty(), "{:?}", bench.twice());
        });
    }
}

#[test]
fn an_owner_that_hears_nothing_any_more_is_fenced_and_sends_nothing_more() {
    paused(|| async {
        let mut config = config();
        config.fleet.foreground = mailweir::engine::policy::CutOff::Pause;
        let bench = Bench::start_with(2, &config).await;
        bench.fill(MAILBOX, "one", 200, Lane::Foreground).await;
        pass(seconds(30)).await;
        let owner = owned_by(&bench).await;
        bench.members[owner].link.set_link(Link::Down);
        pass(MINUTE * 2).await;
        assert!(bench.members[1 - owner].owns(MAILBOX).await, "it was taken over");
        bench.members[owner].link.set_link(Link::Up);
        pass(MINUTE).await;
        assert!(!bench.members[owner].owns(MAILBOX).await, "it has heard that it lost it");
        pass(MINUTE * 30).await;
        assert_eq!(bench.refused(), 0);
        assert_eq!(bench.taken(START, bench.now()), 200);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
    });
}

/// What the owner had asked of the store before it was paused is asked when it wakes: too late.
#[test]
fn a_claim_of_an_owner_that_slept_past_its_lease_is_fenced_and_nothing_is_sent_on_it() {
    paused(|| async {
        let mut config = config();
        config.fleet.foreground = mailweir::engine::policy::CutOff::Pause;
        let bench = Bench::start_with(2, &config).await;
        bench.fill(MAILBOX, "one", 120, Lane::Foreground).await;
        pass(seconds(30)).await;
        let owner = owned_by(&bench).await;
        // Asleep with claims on their way: at the turn of the window the next ones start.
        pass(seconds(29)).await;
        bench.members[owner].link.set_link(Link::Frozen);
        pass(seconds(40)).await;
        assert!(bench.members[1 - owner].owns(MAILBOX).await, "it was taken over");
        bench.members[owner].link.set_link(Link::Up);
        pass(MINUTE).await;
        assert!(!bench.members[owner].owns(MAILBOX).await, "it has heard that it lost it");
        pass(MINUTE * 30).await;
        assert_eq!(bench.refused(), 0);
        assert_eq!(bench.taken(START, bench.now()), 120);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
    });
}

#[test]
fn one_process_too_many_does_not_start_and_a_shared_limit_without_a_part_for_each_is_refused() {
    paused(|| async {
        let mut config = config();
        config.fleet.processes_max = std::num::NonZeroU32::new(2).expect("not zero");
        let bench = Bench::start_with(2, &config).await;
        let start = |config| {
            let scheduler = mailweir::Scheduler::builder(config, bench.transport());
            scheduler.store(bench.hub.connect()).clock(bench.clock.clone()).start_on_current_thread()
        };
        let third = start(config.clone()).await;
        assert!(matches!(third, Err(StartError::TooManyProcesses { members: 3, processes_max: 2 })), "{third:?}");
        let config = config.application_limits(["1 request / 1m".parse().expect("a limit")]);
        let undivided = start(config).await.expect_err("one request has no halves");
        assert!(matches!(undivided, StartError::SharedLimit(_)), "{undivided:?}");
    });
}
