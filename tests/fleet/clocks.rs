//! The store's time comes late, drifts and steps; windows run as before.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mailweir::Lane;
use mailweir::clock::Clock;
use mailweir::engine::Timestamp;
use mailweir::store::hub::MemoryHub;
use mailweir::upstream::{Latency, Model, Refusals, UpstreamLimit};

use crate::support::*;

/// An upstream that leaves nothing to the luck of latencies: each request is there at once.
fn strict() -> Model {
    let mut model = Model::new([UpstreamLimit::requests(30, MINUTE)]);
    (model.refusals, model.latency) = (Refusals::Counted, Latency::ZERO);
    model
}

#[test]
fn renewals_that_are_answered_late_free_no_slot_early() {
    paused(|| async {
        let bench = Bench::start_over(1, &config(), strict()).await;
        let link = &bench.members[0].link;
        bench.fill(MAILBOX, "first", 1, Lane::Foreground).await;
        pass(MINUTE * 2).await;
        // Thirty go at once while renewals are answered late, and thirty wait until the first of these are free.
        for round in 0..6 {
            link.set_latency(Duration::from_millis(250));
            pass(seconds(12)).await;
            bench.fill(MAILBOX, &format!("burst-{round}"), 60, Lane::Foreground).await;
            pass(seconds(20)).await;
            link.set_latency(Duration::from_millis(1));
            pass(seconds(150)).await;
            assert_eq!(bench.refused(), 0, "round {round}");
        }
        assert_eq!(bench.taken(Timestamp::EPOCH, Timestamp::NEVER), 361);
    });
}

/// A bench whose hub has a clock of its own: real time and what the number says, in microseconds.
async fn with_a_clock_that_steps(members: usize) -> (Bench, Arc<AtomicI64>) {
    let mut bench = Bench::start_over(0, &config(), strict()).await;
    let (time, step) = (Arc::clone(&bench.clock), Arc::new(AtomicI64::new(0)));
    let by = Arc::clone(&step);
    bench.hub = MemoryHub::new(Arc::new(move || {
        Timestamp::from_micros(time.now().as_micros().saturating_add_signed(by.load(Ordering::Acquire)))
    }));
    for _ in 0..members {
        bench.join(&config(), START).await;
    }
    (bench, step)
}

#[test]
fn a_step_of_the_stores_clock_moves_no_window_of_an_owner() {
    for step in [60_000_000, 7_000_000, -7_000_000, -60_000_000] {
        paused(|| async {
            let (bench, clock) = with_a_clock_that_steps(1).await;
            bench.fill(MAILBOX, "bulk", 120, Lane::Foreground).await;
            pass(seconds(70)).await;
            let from = bench.now();
            clock.store(step, Ordering::Release);
            pass(MINUTE * 4).await;
            assert_eq!(bench.refused(), 0, "{step}");
            let taken = bench.taken(from, bench.now());
            assert!(taken >= 59, "{step}: it goes on as before, {taken}");
        });
    }
}

#[test]
fn a_mailbox_that_changes_hands_while_clocks_differ_is_in_doubt() {
    for step in [60_000_000, 1_500_000, -60_000_000] {
        paused(|| async {
            let (mut bench, clock) = with_a_clock_that_steps(1).await;
            pass(seconds(30)).await;
            clock.store(step, Ordering::Release);
            // Long after the step: what was said of it then is over.
            pass(MINUTE * 40).await;
            bench.fill(MAILBOX, "bulk", 90, Lane::Foreground).await;
            pass(seconds(20)).await;
            let own = bench.now();
            bench.join(&config(), own).await;
            bench.members[0].shut_down().await;
            pass(MINUTE * 30).await;
            assert!(bench.members[1].owns(MAILBOX).await);
            assert_eq!(bench.refused(), 0, "{step}");
            assert_eq!(bench.taken(Timestamp::EPOCH, Timestamp::NEVER), 90, "{step}");
            assert!(bench.twice().is_empty());
        });
    }
}
