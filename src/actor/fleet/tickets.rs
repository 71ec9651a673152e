//! Who waits here for operations that another process sends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Membership;
use crate::actor::desk::Listeners;
use crate::actor::past;
use crate::actor::slip::Teller;
use crate::actor::world::World;
use crate::engine::OperationState;
use crate::engine::mailbox::Outcome;
use crate::store::OperationRecord;
use crate::store::fleet::News;

/// Rows read in one look behind the news.
const LOOK_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Tickets {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_id: BTreeMap<Arc<str>, Listeners>,
    telling: Telling,
    /// Where the last look ended.
    looked: Option<Arc<str>>,
}

/// Whether anybody is told any more.
#[derive(Debug, Default, PartialEq, Eq)]
enum Telling {
    #[default]
    Open,
    /// The scheduler has stopped.
    Over,
}

impl Tickets {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, id: &str) -> bool {
        self.lock().by_id.contains_key(id)
    }

    fn tell(&self, id: &str, outcome: &Outcome) {
        if let Some(mut listeners) = self.lock().by_id.remove(id) {
            listeners.tell(outcome);
        }
    }

    /// Nobody can tell how it ends: dropping those who wait for it says so.
    fn forget(&self, id: &str) {
        let forgotten = self.lock().by_id.remove(id);
        drop(forgotten);
    }

    /// The next few ids, round and round.
    fn next(&self) -> Vec<Arc<str>> {
        let mut waiting = self.lock();
        let after = waiting.looked.take();
        let later = waiting.by_id.keys().filter(|id| after.as_ref().is_none_or(|after| *id > after));
        let next: Vec<_> = later.take(LOOK_MAX).map(Arc::clone).collect();
        waiting.looked = next.last().filter(|_| next.len() == LOOK_MAX).map(Arc::clone);
        next
    }
}

impl Membership {
    /// Answers `listener` when the operation has come to an end.
    pub(in crate::actor) fn wait_for(&self, id: &Arc<str>, listener: Teller) {
        let mut waiting = self.tickets.lock();
        if waiting.telling == Telling::Open {
            waiting.by_id.entry(Arc::clone(id)).or_default().add(listener);
        }
    }

    /// The scheduler has stopped: whoever waits learns that nobody will tell, and so does who comes later.
    pub(in crate::actor) fn stop_telling(&self) {
        let mut waiting = self.tickets.lock();
        waiting.telling = Telling::Over;
        let left = std::mem::take(&mut waiting.by_id);
        drop(waiting);
        drop(left);
    }

    /// The same for several.
    pub(in crate::actor) fn wait_all(&self, id: &Arc<str>, listeners: Listeners) {
        listeners.into_each().into_iter().for_each(|one| self.wait_for(id, one));
    }

    /// An operation that we own has come to an end, and that is written.
    pub(in crate::actor) fn ended(&self, id: Arc<str>, outcome: &Outcome) {
        self.tickets.tell(&id, outcome);
        self.tell(News::Changed { id });
    }

    /// Reads the row of an operation that somebody here waits for.
    pub(super) async fn look_at(&self, world: &World, id: &str) {
        if !self.tickets.has(id) {
            return;
        }
        match world.store.operation(id).await {
            Ok(Some(record)) => self.tell_from(&record),
            // Whoever waits for it has seen its row, so it has ended and is forgotten, or was lost with its server.
            Ok(None) => self.tickets.forget(id),
            Err(_) => {}
        }
    }

    fn tell_from(&self, record: &OperationRecord) {
        let unknown = (record.state == OperationState::Unknown).then_some(Outcome::Unknown);
        if let Some(outcome) = past::outcome(record).or(unknown) {
            self.tickets.tell(&record.id, &outcome);
        }
    }

    /// Looks behind the news.
    pub(super) async fn look_at_some(&self, world: &World) {
        for id in self.tickets.next() {
            self.look_at(world, &id).await;
        }
    }
}
