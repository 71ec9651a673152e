//! A breaker that was closed by hand is closed for the next process too, whatever the store was doing when that was
//! ordered.

use std::time::Duration;

use mailweir::engine::breaker::{BreakerMemory, PhaseMemory};
use mailweir::engine::{Scope, Timestamp};
use mailweir::scheduler::{AskError, Order};
use mailweir::store::{NoteBody, Store};

use crate::faulty::{Faulty, out_of_reach};
use crate::support::*;

const SLOW: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(1);

/// Whether the next process would begin with an open breaker.
async fn remembers(store: &Faulty) -> bool {
    let recovery = store.recover(Timestamp::EPOCH, None).await.expect("a store");
    let open = |memory: &BreakerMemory| memory.cooldown.is_some_and(|one| one.phase == PhaseMemory::Shut);
    recovery.notes.iter().any(|note| matches!(&note.body, NoteBody::Breaker(memory) if open(memory)))
}

#[test]
fn a_close_is_answered_when_it_is_written_although_the_store_is_at_something_else() {
    paused(|| async {
        for scope in [Scope::Mailbox(MAILBOX.into()), Scope::Application] {
            let store = Faulty::default();
            let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
            let scheduler = built.start_on_current_thread().await.expect("starts");
            let handle = scheduler.handle();
            let trip = |scope| handle.trip(scope, Order::new("a look").expires_in(100 * SLOW));
            trip(scope.clone()).await.expect("tripped");
            tokio::time::sleep(MOMENT).await;
            assert!(remembers(&store).await, "{scope}");
            // Something of the same actor is on its way to the store, and takes its time.
            match &scope {
                Scope::Mailbox(_) => {
                    store.faults().late = Some(SLOW);
                    let submitting = handle.clone();
                    tokio::task::spawn_local(async move { drop(submitting.submit(foreground("one")).await) });
                }
                _ => {
                    trip(Scope::Tenant("acme".into())).await.expect("tripped");
                    store.faults().late = Some(SLOW);
                }
            }
            tokio::time::sleep(MOMENT).await;
            store.faults().late = None;
            handle.close(scope.clone(), Order::new("done")).await.expect("closed");
            let recovery = store.recover(Timestamp::EPOCH, None).await.expect("a store");
            let open = recovery.notes.iter().filter(|note| match &note.body {
                NoteBody::Breaker(memory) => memory.cooldown.is_some_and(|one| one.phase == PhaseMemory::Shut),
                _ => false,
            });
            let left = usize::from(scope == Scope::Application);
            assert_eq!(open.count(), left, "{scope}: only what another scope remembers is left");
        }
    });
}

#[test]
fn a_close_that_cannot_be_written_fails_and_can_be_given_again() {
    paused(|| async {
        for scope in [Scope::Mailbox(MAILBOX.into()), Scope::Application] {
            let store = Faulty::default();
            let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
            let scheduler = built.start_on_current_thread().await.expect("starts");
            let handle = scheduler.handle();
            // What the engine remembers of it fails, and is to be written again in a moment.
            handle.trip(scope.clone(), Order::new("a look").expires_in(100 * SLOW)).await.expect("tripped");
            tokio::time::sleep(MOMENT).await;
            store.faults().late = Some(SLOW);
            let closing = handle.clone();
            let closed = {
                let scope = scope.clone();
                tokio::task::spawn_local(async move { closing.close(scope, Order::new("done")).await })
            };
            tokio::time::sleep(MOMENT).await;
            // The words are on their way; what the engine has to remember comes next, and is refused.
            store.faults().keep = Some(out_of_reach());
            let refused = closed.await.expect("it ended");
            assert!(matches!(refused, Err(AskError::NotNow { .. })), "{scope}: {refused:?}");
            assert_eq!(handle.trips().len(), 1, "{scope}");
            (store.faults().keep, store.faults().late) = (None, None);
            tokio::time::sleep(2 * SLOW).await;
            handle.close(scope.clone(), Order::new("done")).await.expect("closed");
            assert!(!remembers(&store).await && handle.trips().is_empty(), "{scope}");
        }
    });
}
