//! Permits of which nobody knows how they ended: a restart counts them at least as long as the process would have.

use std::sync::Arc;
use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::Timestamp;
use mailweir::scheduler::{AskError, Scheduler, SchedulerHandle, StartError, TryAcquire};
use mailweir::store::{SqliteOptions, SqliteStore};
use mailweir::transport::Verdict;
use mailweir::{Cost, Lane};

use crate::lives::Lives;
use crate::support::*;

const ONE: Cost = Cost::ONE_REQUEST;
const HOUR: Duration = Duration::from_secs(3_600);

/// One send an hour, from the mailbox and of everything.
fn config() -> Config {
    let mut config = limited("1 requests / 1h");
    config.application.limits = vec!["1 requests / 1h".parse().expect("a limit")];
    config
}

async fn deferred_until(handle: &SchedulerHandle) -> Timestamp {
    match handle.try_acquire(MAILBOX, ONE, Lane::Foreground).await.expect("an answer") {
        TryAcquire::Deferred { until, .. } => until,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_that_ended_unknown_counts_after_a_restart_until_it_would_have() {
    // Its note kept the instant of the grant alone, so that one held for longer than a request takes came free too early.
    paused(|| async {
        for held in [Duration::ZERO, Duration::from_secs(7), Duration::from_secs(200)] {
            for is_dropped in [true, false] {
                let mut lives = Lives::new();
                let handle = lives.begin(config(), &Scripted::accepting()).await;
                let permit = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
                tokio::time::sleep(held).await;
                if is_dropped {
                    drop(permit);
                } else {
                    permit.settle(Verdict::Unknown);
                }
                let until = deferred_until(&handle).await;
                let handle = lives.begin(config(), &Scripted::accepting()).await;
                assert_eq!(deferred_until(&handle).await, until, "held {held:?}, restarted at once");
                tokio::time::sleep(Duration::from_secs(100)).await;
                let handle = lives.begin(config(), &Scripted::accepting()).await;
                assert_eq!(deferred_until(&handle).await, until, "held {held:?}, restarted later");
            }
        }
    });
}

#[test]
fn one_that_was_out_at_a_kill_may_have_been_used_until_then_and_further_restarts_prolong_nothing() {
    paused(|| async {
        let clock = TokioClock::starting_at(START);
        let mut lives = Lives::new();
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        let out = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        tokio::time::sleep(Duration::from_secs(200)).await;
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        let until = deferred_until(&handle).await;
        assert!(until >= clock.now().after(HOUR), "{until}");
        assert!(until < clock.now().after(HOUR + Duration::from_secs(60)), "{until}");
        tokio::time::sleep(Duration::from_secs(100)).await;
        let handle = lives.begin(config(), &Scripted::accepting()).await;
        assert_eq!(deferred_until(&handle).await, until);
        drop(out);
    });
}

#[test]
fn one_that_was_out_for_longer_than_its_charge_could_count_is_counted_all_the_same() {
    // Its note ended two windows and a request after the grant, out or not.
    paused(|| async {
        let clock = TokioClock::starting_at(START);
        let mut lives = Lives::new();
        let handle = lives.begin(limited("1 requests / 1m"), &Scripted::accepting()).await;
        let out = handle.acquire(MAILBOX, ONE, Lane::Foreground).await.expect("room");
        tokio::time::sleep(Duration::from_secs(1_000)).await;
        let handle = lives.begin(limited("1 requests / 1m"), &Scripted::accepting()).await;
        let until = deferred_until(&handle).await;
        assert!(until >= clock.now().after(Duration::from_secs(60)), "{until}");
        drop(out);
    });
}

#[test]
fn a_limit_that_counts_for_longer_than_the_store_keeps_attempts_is_refused() {
    paused(|| async {
        let place = tempfile::tempdir().expect("a place");
        let options = SqliteOptions::new().attempts_for(HOUR * 30);
        let store = Arc::new(SqliteStore::open_with(place.path().join("outbox.db"), options).expect("a store"));
        let start = |limit: &str| {
            let builder = Scheduler::builder(limited(limit), Scripted::accepting());
            builder.store(Arc::clone(&store)).start_on_current_thread()
        };
        let refused = start("100 requests / 7d").await;
        let Err(StartError::Retention(forgets)) = &refused else { panic!("{refused:?}") };
        let said = forgets.to_string();
        assert!(["100 requests / 7d", "30h", "attempts_for"].iter().all(|part| said.contains(part)), "{said}");
        let scheduler = start("100 requests / 1d").await.expect("a day and its margin are kept");
        let refused = scheduler.handle().reconfigure(limited("100 requests / 7d")).await;
        assert!(matches!(refused, Err(AskError::Retention(_))), "{refused:?}");
    });
}
