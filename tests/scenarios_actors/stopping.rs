//! A stop in the middle of everything: whatever was handed over is accounted for, and a second life ends it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use mailweir::clock::Clock;
use mailweir::config::Config;
use mailweir::engine::{OperationState, Ratio};
use mailweir::scheduler::{SchedulerHandle, ShutdownReport, TicketError};
use mailweir::store::MemoryStore;
use mailweir::upstream::{Model, Schedule, UpstreamLimit, check};
use mailweir::{Lane, Outcome, SubmitError, Ticket};

use crate::support::*;

const MAILBOXES: usize = 20;

/// How one submission fared.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Unknown,
    /// It is in the store.
    Interrupted,
    /// It came back from a queue.
    HandedBack,
    /// It came after the close.
    Refused,
}

fn config() -> Config {
    let mut config = Config::default().mailbox_limits(limits(&["30 requests / 1m"]));
    config.shutdown.drain_deadline = seconds(5);
    config
}

fn model() -> Model {
    let mut model = Model::new([UpstreamLimit::requests(30, MINUTE)]);
    // Both are taken by the provider: one answer never comes, the other connection breaks at once.
    model.faults.response_lost = Schedule::always(Ratio::percent(4));
    model.faults.cut_after_body = Schedule::always(Ratio::percent(4));
    model
}

async fn live(handle: &SchedulerHandle) -> u64 {
    let counts = handle.counts().await.expect("a store");
    OperationState::ALL.iter().zip(counts).filter(|(state, _)| !state.is_final()).map(|(_, count)| count).sum()
}

async fn fate(answer: Result<Ticket, SubmitError>, began_after_close: bool) -> Fate {
    let ticket = match answer {
        Ok(ticket) => ticket,
        Err(error) => {
            assert!(matches!(error, SubmitError::ShuttingDown { .. }), "{error}");
            assert!(error.into_submission().is_some(), "it comes back");
            return if began_after_close { Fate::Refused } else { Fate::HandedBack };
        }
    };
    match ticket.outcome().await {
        Ok(Outcome::Accepted { .. }) => Fate::Accepted,
        Ok(Outcome::Unknown) => Fate::Unknown,
        Ok(outcome) => panic!("{outcome:?}"),
        Err(TicketError::Interrupted { .. }) => Fate::Interrupted,
        Err(error) => panic!("{error}"),
    }
}

/// Submits all the while, stops after four seconds, and tells how each submission fared.
async fn first_life(store: &MemoryStore, seed: u64) -> (Bench, ShutdownReport, u64, BTreeMap<String, Fate>) {
    let bench = Bench::start_with(config(), model(), seed, |builder| builder.store(store.clone())).await;
    let closed = Rc::new(Cell::new(false));
    let fates = Rc::new(RefCell::new(BTreeMap::new()));
    for mailbox in 0..MAILBOXES {
        let (handle, closed, fates) = (bench.handle.clone(), Rc::clone(&closed), Rc::clone(&fates));
        tokio::task::spawn_local(async move {
            for n in 0..60 {
                let (id, began_after_close) = (format!("op-{mailbox}-{n}"), closed.get());
                let lane = Lane::ALL[n % 2];
                let answer = handle.submit(submission(&format!("m{mailbox}@contoso.example"), &id, lane)).await;
                let fates = Rc::clone(&fates);
                tokio::task::spawn_local(async move {
                    let fate = fate(answer, began_after_close).await;
                    fates.borrow_mut().insert(id, fate);
                });
                tokio::time::sleep(millis(100)).await;
            }
        });
    }
    tokio::time::sleep(millis(4_000)).await;
    let front = bench.handle.clone();
    // These lie in their queues, unseen, when the close comes.
    let mut caught: Vec<_> = (0..MAILBOXES)
        .map(|mailbox| {
            let late =
                submission(&format!("m{mailbox}@contoso.example"), &format!("caught-{mailbox}"), Lane::Foreground);
            Box::pin(front.submit(late))
        })
        .collect();
    let before = live(&bench.handle).await;
    for submit in &mut caught {
        assert!(futures::poll!(submit).is_pending());
    }
    closed.set(true);
    let Bench { scheduler, handle, clock, upstream, record } = bench;
    let (report, caught) = tokio::join!(scheduler.shutdown(), futures::future::join_all(caught));
    for (mailbox, answer) in caught.into_iter().enumerate() {
        let fate = fate(answer, false).await;
        fates.borrow_mut().insert(format!("caught-{mailbox}"), fate);
    }
    tokio::time::sleep(MINUTE).await;
    let fates = fates.take();
    // A fresh bench for the second life: same upstream, same clock, same store.
    let builder =
        mailweir::Scheduler::builder(config(), record.clone()).clock(clock.clone() as std::sync::Arc<dyn Clock>);
    let again = builder.store(store.clone()).seeds([seed, 3]).start_on_current_thread().await.expect("starts again");
    drop(handle);
    let handle = again.handle();
    (Bench { scheduler: again, handle, clock, upstream, record }, report, before, fates)
}

#[test]
fn a_stop_under_load_loses_nothing_and_a_second_life_ends_the_rest() {
    for seed in 0..3 {
        paused(|| async move {
            let store = MemoryStore::new();
            let (bench, report, before, fates) = first_life(&store, seed).await;
            let count = |of: Fate| fates.values().filter(|fate| **fate == of).count() as u64;
            assert_eq!(fates.len(), MAILBOXES * 61, "every submission has its answer");
            assert!(count(Fate::HandedBack) > 0 && count(Fate::Refused) > 0 && count(Fate::Interrupted) > 0);
            println!("seed {seed}: {report:?}, {before} live at the close, {} handed back", count(Fate::HandedBack));
            let total = report.accepted + report.returned + report.unknown;
            assert_eq!(total, before + count(Fate::HandedBack), "seed {seed}: {report:?}");

            for (id, fate) in &fates {
                let known = bench.handle.operation(id).await.expect("a store");
                if matches!(fate, Fate::HandedBack | Fate::Refused) {
                    assert_eq!(known, None, "{id} came back and is not stored");
                    continue;
                }
                let ticket = bench.handle.ticket(id).await.expect("stored");
                let mut ended = ticket.outcome().await.expect("an outcome");
                while ended == Outcome::Unknown {
                    tokio::time::sleep(MINUTE).await;
                    ended = bench.handle.ticket(id).await.expect("stored").outcome().await.expect("an outcome");
                }
                assert!(matches!(ended, Outcome::Accepted { .. }), "{id}: {ended:?}");
            }
            let stored = fates.values().filter(|fate| !matches!(fate, Fate::HandedBack | Fate::Refused)).count();
            let upstream = bench.upstream();
            let counts = check::counts(upstream.log().client());
            assert_eq!((counts.executed, counts.duplicates), (stored as u64, 0), "each is sent once");
            let most = check::max_in_window(upstream.log().client(), &UpstreamLimit::requests(30, MINUTE));
            assert!(most <= 30, "a restart grants no window: {most}");
        });
    }
}
