//! Where the actors live: on a thread of their own, or, for tests under paused time, on the caller's.

use std::collections::HashMap;
use std::sync::Arc;

use actix::{Actor, System};
use tokio::sync::oneshot;

use super::bell::Stop;
use super::outlet;
use super::past;
use super::shared::SharedActor;
use super::supervisor::{Errand, Supervisor};
use super::world::World;
use crate::store::Recovery;

/// Starts the actors on a thread of their own. They run until [`World::stop`] is cancelled.
///
/// # Errors
/// When the system gives no thread or no event queue.
pub(crate) async fn on_own_thread(world: Arc<World>, recovery: Recovery) -> std::io::Result<()> {
    let (ready, started) = oneshot::channel();
    let on_thread = Arc::clone(&world);
    std::thread::Builder::new().name("mailweir-actors".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let system = System::with_tokio_rt(|| runtime);
        system.block_on(run(on_thread, recovery, ready));
    })?;
    started.await.unwrap_or_else(|_| Err(std::io::Error::other("the actors' thread ended before it began")))?;
    world.host.spawn(outlet::dispatch(Arc::clone(&world)));
    Ok(())
}

/// Starts the actors on the caller's thread, so that one paused clock drives everything.
///
/// # Panics
/// Outside a `LocalSet`, as `spawn_local` does.
#[cfg(feature = "test-util")]
pub(crate) async fn on_current_thread(world: Arc<World>, recovery: Recovery) -> std::io::Result<()> {
    let (ready, started) = oneshot::channel();
    tokio::task::spawn_local(run(Arc::clone(&world), recovery, ready));
    started.await.unwrap_or_else(|_| Err(std::io::Error::other("the actors' task ended before it began")))?;
    world.host.spawn(outlet::dispatch(Arc::clone(&world)));
    Ok(())
}

async fn run(world: Arc<World>, recovery: Recovery, ready: oneshot::Sender<std::io::Result<()>>) {
    let shared = SharedActor::restored(Arc::clone(&world), &recovery).start();
    world.shared.bell().attach(shared.clone().recipient());
    for id in past::mailboxes(&recovery, world.clock.now()) {
        let seat = world.directory.enter_recovered(&id);
        world.supervisor.push(Errand::Start(seat));
    }
    let supervisor = Supervisor::new(Arc::clone(&world), by_mailbox(recovery)).start();
    world.supervisor.bell().attach(supervisor.clone().recipient());
    drop(ready.send(Ok(())));
    world.stop.cancelled().await;
    // They may be gone already: then there is nothing to stop.
    let _ = supervisor.send(Stop).await;
    let _ = shared.send(Stop).await;
    tokio::task::yield_now().await;
}

/// What the store had, mailbox by mailbox.
fn by_mailbox(recovery: Recovery) -> HashMap<Arc<str>, Recovery> {
    let mut by_mailbox: HashMap<Arc<str>, Recovery> = HashMap::new();
    for record in recovery.operations {
        by_mailbox.entry(Arc::clone(&record.mailbox)).or_default().operations.push(record);
    }
    for attempt in recovery.attempts {
        by_mailbox.entry(Arc::clone(&attempt.mailbox)).or_default().attempts.push(attempt);
    }
    for note in recovery.notes {
        if let Some(mailbox) = &note.key.mailbox {
            by_mailbox.entry(Arc::clone(mailbox)).or_default().notes.push(note);
        }
    }
    by_mailbox
}
