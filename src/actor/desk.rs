//! What the shell remembers of each operation while it is live: who waits for it, and what the engine need not know.
//!
//! It lives beside the engine, not in it, so tickets survive when an engine is rebuilt.

use std::collections::HashMap;
use std::sync::Arc;

use super::entrance::PermitReply;
use super::slip::Teller;
use super::ticket::Ticket;
use crate::email::Email;
use crate::engine::mailbox::{Hold, HoldTarget, Outcome};
use crate::engine::operation::{KeyMap, OperationKind};
use crate::engine::{Cost, Lane, Leaves, Operation, OperationKey, Timestamp};
use crate::store::{Keyed, OperationRecord, PermitNote, Slab};

#[derive(Debug, Default)]
pub(crate) struct Desk {
    entries: Slab<Entry>,
    permits: KeyMap<Asked>,
    /// What to send, from an operation's claim until its attempt has ended: before that and after it the store alone has
    /// it. From the start where several processes share the store, and this one may go on without it.
    emails: KeyMap<Email>,
    airborne: u64,
}

/// An operation of the outbox, or a permit.
#[derive(Debug)]
pub(crate) struct Entry {
    key: OperationKey,
    /// Answers those who wait for the outcome, and knows the id.
    teller: Teller,
    /// The attempt under way, or the last one.
    pub(crate) attempt: u32,
    pub(crate) lane: Lane,
    kind: OperationKind,
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
    /// With the transport, or with the holder of the permit.
    Airborne,
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
    One(Teller),
    Several(Box<Several>),
}

/// Those who wait for one outcome, where there is more than one.
#[derive(Debug)]
pub(crate) struct Several(Vec<Teller>);

impl Listeners {
    pub(super) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds one, in place of those that have gone.
    pub(super) fn add(&mut self, listener: Teller) {
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
    pub(super) fn into_each(self) -> Vec<Teller> {
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
            Self::One(listener) => listener.send(outcome.clone()),
            Self::Several(several) => several.0.into_iter().for_each(|listener| listener.send(outcome.clone())),
        }
    }
}

impl Keyed for Entry {
    fn key(&self) -> OperationKey {
        self.key
    }
}

impl Desk {
    pub(crate) fn insert(&mut self, key: OperationKey, entry: Entry) {
        self.entries.remove(key);
        self.entries.insert(Entry { key, ..entry });
    }

    /// A request for a permit.
    pub(crate) fn insert_permit(&mut self, id: Arc<str>, operation: &Operation, reply: PermitReply) {
        let (reply, tenant, cost) = (Some(reply), operation.tenant.clone(), operation.cost);
        self.permits.insert(operation.key, Asked { reply, tenant, cost, claimed_at: Timestamp::EPOCH });
        let entry = Entry { kind: OperationKind::Permit, ..Entry::new(Teller::new(id), operation.lane) };
        self.insert(operation.key, entry);
    }

    pub(crate) fn get(&self, key: OperationKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: OperationKey) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    pub(crate) fn remove(&mut self, key: OperationKey) -> Option<Entry> {
        self.permits.remove(&key);
        self.take(key)
    }

    fn take(&mut self, key: OperationKey) -> Option<Entry> {
        self.emails.remove(&key);
        self.entries.remove(key)
    }

    /// What to send of an operation, if it is here.
    pub(crate) fn email(&self, key: OperationKey) -> Option<&Email> {
        self.emails.get(&key)
    }

    /// Keeps what to send until its attempt has ended.
    pub(crate) fn keep_email(&mut self, key: OperationKey, email: Email) {
        self.emails.insert(key, email);
    }

    /// What the desk has of a permit.
    pub(crate) fn permit_mut(&mut self, key: OperationKey) -> Option<&mut Asked> {
        self.permits.get_mut(&key)
    }

    /// Takes a permit off the desk.
    pub(crate) fn remove_permit(&mut self, key: OperationKey) -> Option<Asked> {
        let asked = self.permits.remove(&key)?;
        self.entries.remove(key);
        Some(asked)
    }

    /// Gives back room that nothing needs.
    pub(crate) fn shrink(&mut self) {
        self.entries.shrink();
        self.permits.shrink_to_fit();
        self.emails.shrink_to_fit();
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn id(&self, key: OperationKey) -> Option<Arc<str>> {
        self.entries.get(key).map(Entry::id)
    }

    /// How many attempts are with the transport or with holders of permits.
    pub(crate) const fn airborne(&self) -> u64 {
        self.airborne
    }

    /// How many operations of the outbox have not come to an end.
    pub(crate) fn operations(&self) -> u64 {
        (self.entries.len() - self.permits.len()) as u64
    }

    pub(crate) fn set_flight(&mut self, key: OperationKey, flight: Flight) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.flight = flight;
        }
    }

    /// An attempt begins.
    pub(crate) fn take_off(&mut self, key: OperationKey, attempt: u32) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(key)?;
        (entry.attempt, entry.flight) = (attempt, Flight::Airborne);
        self.airborne += 1;
        Some(entry)
    }

    /// A ticket for a live operation.
    pub(crate) fn subscribe(&self, key: OperationKey) -> Option<Ticket> {
        let entry = self.entries.get(key).filter(|entry| entry.is_operation())?;
        Some(Ticket::of(&entry.teller))
    }

    /// The number of the attempt that is under way, or whose row is being written.
    pub(crate) fn attempt_under_way(&self, key: OperationKey) -> Option<u32> {
        let entry = self.entries.get(key).filter(|entry| entry.is_operation() && entry.flight != Flight::Grounded)?;
        Some(entry.attempt)
    }

    /// The number of the attempt under way, or of the last one.
    pub(crate) fn last_attempt(&self, key: OperationKey) -> Option<u32> {
        self.entries.get(key).map(|entry| entry.attempt)
    }

    /// Whether `attempt` of an operation is with the transport.
    pub(crate) fn is_out(&self, key: OperationKey, attempt: u32) -> bool {
        let entry = self.entries.get(key).filter(|entry| entry.is_operation());
        entry.is_some_and(|entry| (entry.attempt, entry.flight) == (attempt, Flight::Airborne))
    }

    /// Attempts of operations that are with the transport.
    pub(crate) fn out(&self) -> Vec<(OperationKey, u32)> {
        let out = self.entries.iter().filter(|entry| entry.is_operation() && entry.flight == Flight::Airborne);
        let mut out: Vec<_> = out.map(|entry| (entry.key, entry.attempt)).collect();
        out.sort_unstable();
        out
    }

    /// Tells those who wait for an operation, which stays at the desk.
    pub(crate) fn tell(&mut self, key: OperationKey, outcome: &Outcome) {
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.is_operation()) {
            entry.take_teller().send(outcome.clone());
        }
    }

    /// Ends the flight of `attempt`, if it is the one under way, and says whose it was.
    pub(crate) fn land(&mut self, key: OperationKey, attempt: u32) -> Option<&Entry> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.attempt == attempt)?;
        if entry.flight != Flight::Airborne {
            return None;
        }
        entry.flight = Flight::Grounded;
        self.emails.remove(&key);
        self.airborne = self.airborne.saturating_sub(1);
        Some(entry)
    }

    /// Who waits for operations of a mailbox that is another process's from now on. Attempts that are out stay until they
    /// land.
    pub(crate) fn surrender(&mut self) -> Vec<(Arc<str>, Listeners)> {
        let operations = self.entries.iter_mut().filter(|entry| entry.is_operation());
        let waiting = operations.map(|entry| (entry.id(), Listeners::One(entry.take_teller()))).collect();
        let grounded = self.entries.iter().filter(|entry| entry.flight != Flight::Airborne);
        let grounded: Vec<_> = grounded.map(|entry| entry.key).collect();
        grounded.into_iter().for_each(|key| drop(self.remove(key)));
        waiting
    }

    /// Whether an operation that was here all along has no attempt under way.
    pub(crate) fn has_landed(&self, key: OperationKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.flight == Flight::Grounded)
    }

    /// An attempt has landed and the engine made nothing of it: answer what is owed.
    pub(crate) fn pay_unknown(&mut self, key: OperationKey) {
        if self.entries.get_mut(key).is_some_and(|entry| std::mem::take(&mut entry.unknown_owed)) {
            drop(self.resolve(key, &Outcome::Unknown));
        }
    }

    /// Takes an operation that came to an end off the desk. That the provider took it is true whatever becomes of this
    /// process, so it is told at once. Every other end could be undone by a crash until it is written: those who wait
    /// for it are the answer, to be told then.
    #[must_use]
    pub(crate) fn resolve(&mut self, key: OperationKey, outcome: &Outcome) -> Option<Listeners> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.is_operation())?;
        if matches!((outcome, entry.flight), (Outcome::Unknown, Flight::Airborne)) {
            entry.unknown_owed = true;
            return None;
        }
        if matches!(outcome, Outcome::Unknown) {
            entry.take_teller().send(Outcome::Unknown);
            return None;
        }
        let entry = self.take(key)?;
        if entry.flight == Flight::Airborne {
            // Whoever ended it did not wait for the attempt, and nobody will know it when it lands.
            self.airborne = self.airborne.saturating_sub(1);
        }
        if matches!(outcome, Outcome::Accepted { .. }) {
            entry.teller.send(outcome.clone());
            return None;
        }
        (!entry.teller.is_closed()).then_some(Listeners::One(entry.teller))
    }

    /// Requests for permits that have not been granted, oldest first.
    pub(crate) fn waiting_permits(&self) -> Vec<OperationKey> {
        let waiting = self.permits.iter().filter(|(_, asked)| asked.reply.is_some());
        let mut keys: Vec<_> = waiting.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Holds of those of the `held` operations that are here, by id, in order of their keys.
    pub(crate) fn holds(&self, held: &HashMap<Arc<str>, Timestamp>) -> Vec<Hold> {
        if held.is_empty() {
            return Vec::new();
        }
        let here = self.entries.iter().filter(|entry| entry.is_operation());
        let mut here: Vec<_> = here.filter_map(|entry| Some((entry.key, *held.get(&entry.id())?))).collect();
        here.sort_unstable_by_key(|(key, _)| *key);
        here.into_iter().map(|(key, until)| Hold::new(HoldTarget::Operation(key), until)).collect()
    }

    /// Steps that a lost engine had under way are not under way any more.
    pub(crate) fn ground_claims(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.flight == Flight::Claiming) {
            entry.flight = Flight::Grounded;
        }
    }

    /// Takes out the requests for permits that have not been granted.
    pub(crate) fn take_waiting_permits(&mut self) -> Vec<PermitReply> {
        let waiting = self.waiting_permits();
        waiting.into_iter().filter_map(|key| self.remove_permit(key)?.reply).collect()
    }

    /// What a permit takes since its charge began; `None` for an operation.
    pub(crate) fn permit_note(&self, key: OperationKey, finished_at: Option<Timestamp>) -> Option<PermitNote> {
        let Asked { tenant, cost, claimed_at, .. } = self.permits.get(&key)?;
        let (lane, tenant) = (self.entries.get(key)?.lane, tenant.clone());
        Some(PermitNote { key, lane, tenant, cost: *cost, claimed_at: *claimed_at, finished_at, leaves: Leaves::All })
    }
}

impl Entry {
    pub(crate) const fn is_operation(&self) -> bool {
        matches!(self.kind, OperationKind::Send)
    }

    pub(crate) fn id(&self) -> Arc<str> {
        self.teller.id().text()
    }

    /// Those who have waited so far; who asks from now on waits for what comes next.
    fn take_teller(&mut self) -> Teller {
        let next = Teller::new(self.teller.id().clone());
        std::mem::replace(&mut self.teller, next)
    }

    /// Adds those who wait for the outcome.
    pub(crate) fn listen(&self, listeners: Vec<Teller>) {
        listeners.into_iter().for_each(|listener| self.teller.add(listener));
    }

    /// The entry of an operation that has just been stored.
    pub(crate) const fn stored(teller: Teller, lane: Lane) -> Self {
        Self::new(teller, lane)
    }

    /// Its key is given when it comes to the desk.
    const fn new(teller: Teller, lane: Lane) -> Self {
        let (key, kind) = (OperationKey(0), OperationKind::Send);
        Self { key, teller, attempt: 0, lane, kind, flight: Flight::Grounded, unknown_owed: false }
    }

    /// The entry of an operation that the store knows and this desk does not.
    pub(crate) fn recovered(record: &OperationRecord) -> Self {
        Self { attempt: record.rows, ..Self::new(Teller::new(Arc::clone(&record.id)), record.lane) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_twenty_four_bytes() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
