//! Where the actors live: on a thread of their own, or, for tests under paused time, on the caller's.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, System};
use tokio::sync::oneshot;

use super::aside::Origin;
use super::bell::Stop;
use super::fleet::run as run_fleet;
use super::outlet;
use super::past;
use super::shared::SharedActor;
use super::supervisor::{Errand, Supervisor};
use super::world::World;
use crate::engine::Timestamp;
use crate::store::{Note, NoteBody, Outline, Recovery};

/// Starts the actors on a thread of their own. They run until [`World::stop`] is cancelled.
///
/// # Errors
/// When the system gives no thread or no event queue.
pub(crate) async fn on_own_thread(world: Arc<World>, outline: Outline) -> std::io::Result<()> {
    let (ready, started) = oneshot::channel();
    let on_thread = Arc::clone(&world);
    std::thread::Builder::new().name("mailweir-actors".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let system = System::with_tokio_rt(|| runtime);
        system.block_on(run(on_thread, outline, ready));
    })?;
    started.await.unwrap_or_else(|_| Err(std::io::Error::other("the actors' thread ended before it began")))?;
    attend(&world);
    Ok(())
}

/// Starts the actors on the caller's thread, so that one paused clock drives everything.
///
/// # Panics
/// Outside a `LocalSet`, as `spawn_local` does.
#[cfg(feature = "test-util")]
pub(crate) async fn on_current_thread(world: Arc<World>, outline: Outline) -> std::io::Result<()> {
    let (ready, started) = oneshot::channel();
    tokio::task::spawn_local(run(Arc::clone(&world), outline, ready));
    started.await.unwrap_or_else(|_| Err(std::io::Error::other("the actors' task ended before it began")))?;
    attend(&world);
    Ok(())
}

/// What runs on the host's runtime beside the actors.
fn attend(world: &Arc<World>) {
    world.host.spawn(outlet::dispatch(Arc::clone(world)));
    if let Some(fleet) = &world.fleet {
        run_fleet(world, fleet);
    }
}

async fn run(world: Arc<World>, outline: Outline, ready: oneshot::Sender<std::io::Result<()>>) {
    let shared = SharedActor::restored(Arc::clone(&world), &outline.recovery).start();
    world.shared.bell().attach(shared.clone().recipient());
    for id in past::mailboxes(&outline, world.clock.now()) {
        let seat = world.directory.enter_recovered(&id);
        world.supervisor.push(Errand::Start(seat));
    }
    let now = world.clock.now();
    // Who had a permit may have sent until the earlier process ended, and that was before now.
    let out_until = now.after(now.since(world.settings.load().horizon(now)));
    let supervisor = Supervisor::new(Arc::clone(&world), by_mailbox(outline, out_until)).start();
    world.supervisor.bell().attach(supervisor.clone().recipient());
    drop(ready.send(Ok(())));
    world.stop.cancelled().await;
    // They may be gone already: then there is nothing to stop.
    let _ = supervisor.send(Stop).await;
    let _ = shared.send(Stop).await;
    tokio::task::yield_now().await;
}

/// What the store had, mailbox by mailbox.
pub(super) type Before = BTreeMap<Arc<str>, (Origin, Timestamp)>;

/// What each mailbox of which the store has something starts from, and until when its notes count: its rows, or that
/// they are to be read.
fn by_mailbox(outline: Outline, out_until: Timestamp) -> Before {
    let mut rows: BTreeMap<Arc<str>, Recovery> = BTreeMap::new();
    let Outline { recovery, apart } = outline;
    for note in recovery.notes {
        if let Some(mailbox) = &note.key.mailbox {
            rows.entry(Arc::clone(mailbox)).or_default().notes.push(note);
        }
    }
    let Some(apart) = apart else {
        for record in recovery.operations {
            rows.entry(Arc::clone(&record.mailbox)).or_default().operations.push(record);
        }
        for attempt in recovery.attempts {
            rows.entry(Arc::clone(&attempt.mailbox)).or_default().attempts.push(attempt);
        }
        let read = |rows: Recovery| {
            let until = notes_end(&rows, out_until);
            (Origin::Recovered(Box::new(rows)), until)
        };
        return rows.into_iter().map(|(id, rows)| (id, read(rows))).collect();
    };
    let named = apart.waiting.into_iter().chain(apart.charged).map(|id| (id, (Origin::Stored, Timestamp::EPOCH)));
    let noted = rows.into_iter().map(|(id, rows)| (id, (Origin::Stored, notes_end(&rows, out_until))));
    // A mailbox that is in both has the end of its notes: the later entry stays.
    named.chain(noted).collect()
}

/// Permits that were out count until `out_until` at the latest: what is written of them is kept for longer.
fn notes_end(of: &Recovery, out_until: Timestamp) -> Timestamp {
    let end = |note: &Note| match &note.body {
        NoteBody::Permit(permit) if permit.finished_at.is_none() => note.until.min(out_until),
        _ => note.until,
    };
    of.notes.iter().map(end).max().unwrap_or(Timestamp::EPOCH)
}
