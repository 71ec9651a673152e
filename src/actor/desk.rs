//! What the shell remembers of each operation while it is live: who waits for it, and what the engine need not know.
//!
//! It lives beside the engine, not in it, so tickets survive when an engine is rebuilt.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::entrance::PermitReply;
use super::ticket::Ticket;
use crate::email::Email;
use crate::engine::mailbox::{Hold, HoldTarget, Outcome};
use crate::engine::operation::KeyMap;
use crate::engine::{Cost, Lane, Operation, OperationKey, Timestamp};
use crate::store::{OperationRecord, PermitNote};

#[derive(Debug, Default)]
pub(crate) struct Desk {
    entries: KeyMap<Entry>,
    airborne: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Arc<str>,
    pub(crate) lane: Lane,
    pub(crate) who: Who,
    /// What to send, from its claim until its attempt has ended: before that and after it the store alone has it. From the
    /// start where several processes share the store, and this one may go on without it.
    pub(crate) email: Option<Email>,
    /// The attempt under way, or the last one.
    pub(crate) attempt: u32,
    pub(crate) flight: Flight,
    /// A rebuilt engine took the attempt under way for unknown. Its answer may still tell; until then the ticket waits.
    pub(crate) unknown_owed: bool,
}

/// Whether an attempt is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// No.
    Grounded,
    /// Its attempt row is being written.
    Claiming,
    /// With the transport, or with the holder of the permit, since then.
    Airborne(Timestamp),
}

#[derive(Debug)]
pub(crate) enum Who {
    /// An operation of the outbox, and those who wait for its outcome.
    Operation(Listeners),
    /// A permit.
    Permit(Box<Asked>),
}

/// What the desk has of a permit.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Who waits for it, until it is handed over.
    pub(crate) reply: Option<PermitReply>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) cost: Cost,
    /// When its charge began.
    pub(crate) claimed_at: Timestamp,
}

/// Who waits for one outcome: hardly ever more than one, so no list is made for it.
#[derive(Debug, Default)]
pub(crate) enum Listeners {
    #[default]
    None,
    One(oneshot::Sender<Outcome>),
    Several(Box<Several>),
}

/// Those who wait for one outcome, where there is more than one.
#[derive(Debug)]
pub(crate) struct Several(Vec<oneshot::Sender<Outcome>>);

impl Listeners {
    /// Adds one, in place of those that have gone.
    pub(super) fn add(&mut self, listener: oneshot::Sender<Outcome>) {
        *self = match std::mem::take(self) {
            Self::One(other) if !other.is_closed() => Self::Several(Box::new(Several(vec![other, listener]))),
            Self::None | Self::One(_) => Self::One(listener),
            Self::Several(mut several) => {
                several.0.retain(|other| !other.is_closed());
                several.0.push(listener);
                Self::Several(several)
            }
        };
    }

    /// Each of them.
    pub(super) fn into_each(self) -> Vec<oneshot::Sender<Outcome>> {
        match self {
            Self::None => Vec::new(),
            Self::One(one) => vec![one],
            Self::Several(several) => several.0,
        }
    }

    /// Tells them, and forgets them.
    pub(super) fn tell(&mut self, outcome: &Outcome) {
        match std::mem::take(self) {
            Self::None => {}
            Self::One(listener) => drop(listener.send(outcome.clone())),
            Self::Several(several) => several.0.into_iter().for_each(|listener| drop(listener.send(outcome.clone()))),
        }
    }
}

impl Desk {
    pub(crate) fn insert(&mut self, key: OperationKey, entry: Entry) {
        self.entries.insert(key, entry);
    }

    pub(crate) fn get(&self, key: OperationKey) -> Option<&Entry> {
        self.entries.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: OperationKey) -> Option<&mut Entry> {
        self.entries.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: OperationKey) -> Option<Entry> {
        self.entries.remove(&key)
    }

    /// Gives back room that nothing needs.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn id(&self, key: OperationKey) -> Option<&Arc<str>> {
        self.entries.get(&key).map(|entry| &entry.id)
    }

    /// How many attempts are with the transport or with holders of permits.
    pub(crate) const fn airborne(&self) -> u64 {
        self.airborne
    }

    /// How many operations of the outbox have not come to an end.
    pub(crate) fn operations(&self) -> u64 {
        self.entries.values().filter(|entry| entry.is_operation()).count() as u64
    }

    pub(crate) fn set_flight(&mut self, key: OperationKey, flight: Flight) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.flight = flight;
        }
    }

    /// An attempt begins.
    pub(crate) fn take_off(&mut self, key: OperationKey, attempt: u32, now: Timestamp) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&key)?;
        (entry.attempt, entry.flight) = (attempt, Flight::Airborne(now));
        self.airborne += 1;
        Some(entry)
    }

    /// A ticket for a live operation.
    pub(crate) fn subscribe(&mut self, key: OperationKey) -> Option<Ticket> {
        let entry = self.entries.get_mut(&key)?;
        let Who::Operation(waiting) = &mut entry.who else { return None };
        let (ticket, sender) = Ticket::open(Arc::clone(&entry.id));
        waiting.add(sender);
        Some(ticket)
    }

    /// Ends the flight of `attempt`, if it is the one under way, and says when it began.
    pub(crate) fn land(&mut self, key: OperationKey, attempt: u32) -> Option<Timestamp> {
        let entry = self.entries.get_mut(&key).filter(|entry| entry.attempt == attempt)?;
        let Flight::Airborne(since) = entry.flight else { return None };
        (entry.flight, entry.email) = (Flight::Grounded, None);
        self.airborne = self.airborne.saturating_sub(1);
        Some(since)
    }

    /// Who waits for operations of a mailbox that is another process's from now on. Attempts that are out stay until they
    /// land.
    pub(crate) fn surrender(&mut self) -> Vec<(Arc<str>, Listeners)> {
        let mut waiting = Vec::new();
        self.entries.retain(|_, entry| {
            if let Who::Operation(listeners) = &mut entry.who {
                waiting.push((Arc::clone(&entry.id), std::mem::take(listeners)));
            }
            matches!(entry.flight, Flight::Airborne(_))
        });
        waiting
    }

    /// Whether an operation that was here all along has no attempt under way.
    pub(crate) fn has_landed(&self, key: OperationKey) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.flight == Flight::Grounded)
    }

    /// An attempt has landed and the engine made nothing of it: answer what is owed.
    pub(crate) fn pay_unknown(&mut self, key: OperationKey) {
        if self.entries.get_mut(&key).is_some_and(|entry| std::mem::take(&mut entry.unknown_owed)) {
            drop(self.resolve(key, &Outcome::Unknown));
        }
    }

    /// Takes an operation that came to an end off the desk. That the provider took it is true whatever becomes of this
    /// process, so it is told at once. Every other end could be undone by a crash until it is written: those who wait
    /// for it are the answer, to be told then.
    #[must_use]
    pub(crate) fn resolve(&mut self, key: OperationKey, outcome: &Outcome) -> Option<Listeners> {
        let entry = self.entries.get_mut(&key)?;
        if matches!((outcome, entry.flight), (Outcome::Unknown, Flight::Airborne(_))) {
            entry.unknown_owed = true;
            return None;
        }
        let Who::Operation(waiting) = &mut entry.who else { return None };
        let mut waiting = std::mem::take(waiting);
        if matches!(outcome, Outcome::Unknown | Outcome::Accepted { .. }) {
            waiting.tell(outcome);
        }
        if matches!(outcome, Outcome::Unknown) {
            return None;
        }
        if matches!(entry.flight, Flight::Airborne(_)) {
            // Whoever ended it did not wait for the attempt, and nobody will know it when it lands.
            self.airborne = self.airborne.saturating_sub(1);
        }
        self.entries.remove(&key);
        (!matches!(waiting, Listeners::None)).then_some(waiting)
    }

    /// Requests for permits that have not been granted, oldest first.
    pub(crate) fn waiting_permits(&self) -> Vec<OperationKey> {
        let waiting = self.entries.iter().filter(|(_, entry)| entry.who.is_waiting_permit());
        let mut keys: Vec<_> = waiting.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Holds of those of the `held` operations that are here, by id, in order of their keys.
    pub(crate) fn holds(&self, held: &HashMap<Arc<str>, Timestamp>) -> Vec<Hold> {
        if held.is_empty() {
            return Vec::new();
        }
        let here = self.entries.iter().filter(|(_, entry)| entry.is_operation());
        let mut here: Vec<_> = here.filter_map(|(key, entry)| Some((*key, *held.get(&entry.id)?))).collect();
        here.sort_unstable_by_key(|(key, _)| *key);
        here.into_iter().map(|(key, until)| Hold::new(HoldTarget::Operation(key), until)).collect()
    }

    /// Steps that a lost engine had under way are not under way any more.
    pub(crate) fn ground_claims(&mut self) {
        for entry in self.entries.values_mut().filter(|entry| entry.flight == Flight::Claiming) {
            entry.flight = Flight::Grounded;
        }
    }

    /// Takes out the requests for permits that have not been granted.
    pub(crate) fn take_waiting_permits(&mut self) -> Vec<PermitReply> {
        let mut taken = Vec::new();
        self.entries.retain(|_, entry| match &mut entry.who {
            Who::Permit(asked) if asked.reply.is_some() => {
                taken.extend(asked.reply.take());
                false
            }
            _ => true,
        });
        taken
    }
}

impl Entry {
    pub(crate) const fn is_operation(&self) -> bool {
        matches!(self.who, Who::Operation(_))
    }

    /// What a permit takes since its charge began; `None` for an operation.
    pub(crate) fn permit_note(&self, key: OperationKey, finished_at: Option<Timestamp>) -> Option<PermitNote> {
        let Who::Permit(asked) = &self.who else { return None };
        let Asked { tenant, cost, claimed_at, .. } = &**asked;
        let (lane, tenant) = (self.lane, tenant.clone());
        Some(PermitNote { key, lane, tenant, cost: *cost, claimed_at: *claimed_at, finished_at })
    }

    /// The entry of an operation that has just been stored.
    pub(crate) fn stored(id: Arc<str>, lane: Lane, waiting: oneshot::Sender<Outcome>) -> Self {
        Self::new(id, lane, Who::Operation(Listeners::One(waiting)))
    }

    /// The entry of a request for a permit.
    pub(crate) fn permit(id: Arc<str>, operation: &Operation, reply: PermitReply) -> Self {
        let (reply, tenant, cost) = (Some(reply), operation.tenant.clone(), operation.cost);
        let asked = Asked { reply, tenant, cost, claimed_at: Timestamp::EPOCH };
        Self::new(id, operation.lane, Who::Permit(Box::new(asked)))
    }

    fn new(id: Arc<str>, lane: Lane, who: Who) -> Self {
        Self { id, lane, who, email: None, attempt: 0, flight: Flight::Grounded, unknown_owed: false }
    }

    /// The entry of an operation that the store knows and this desk does not.
    pub(crate) fn recovered(record: &OperationRecord) -> Self {
        let who = Who::Operation(Listeners::None);
        Self { attempt: record.rows, ..Self::new(Arc::clone(&record.id), record.lane, who) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_sixty_four_bytes() {
        assert_eq!(size_of::<Entry>(), 64);
    }
}
