//! A live mailbox as the rest of the process sees it, and the directory of all of them.
//!
//! Callers on any thread find a seat here and put things into its queue; the actor behind it is started on demand and
//! is found by nobody. A seat that was retired is never reopened: its mailbox gets a new one, which the supervisor
//! hands the old engine, so no charge is lost on the way.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::bell::Rung;
use super::ingress::Ingress;
use crate::engine::Timestamp;
use crate::engine::shared::MailboxKey;

/// At most this often all seats are looked through for idle ones, when there is no room for a new one.
const SEARCH_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Seat {
    id: Arc<str>,
    key: MailboxKey,
    ingress: Ingress,
}

impl Seat {
    pub(crate) const fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(crate) const fn key(&self) -> MailboxKey {
        self.key
    }

    pub(crate) const fn ingress(&self) -> &Ingress {
        &self.ingress
    }
}

#[derive(Debug)]
pub(crate) struct Directory {
    seats: RwLock<Seats>,
    idle: Mutex<Idle>,
    next_key: AtomicU32,
    live_max: usize,
    lane_max: usize,
}

#[derive(Debug, Default)]
struct Seats {
    by_id: HashMap<Arc<str>, Arc<Seat>>,
    by_key: fnv::FnvHashMap<u32, Arc<Seat>>,
}

/// Seats whose actors had nothing to do when they were last looked through; only used when there is no room.
#[derive(Debug, Default)]
struct Idle {
    found: VecDeque<Arc<Seat>>,
    searched_at: Option<Timestamp>,
}

/// A seat, and whether its actor has to be started.
#[derive(Debug)]
pub(crate) enum Found {
    Live(Arc<Seat>),
    New(Arc<Seat>),
}

/// As many mailboxes are live as are allowed.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl Directory {
    pub(crate) fn new(live_max: usize, lane_max: usize) -> Self {
        Self { seats: RwLock::default(), idle: Mutex::default(), next_key: AtomicU32::new(0), live_max, lane_max }
    }

    pub(crate) const fn live_max(&self) -> usize {
        self.live_max
    }

    /// The live seat of a mailbox.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Seat>> {
        self.read(|seats| seats.by_id.get(id).map(Arc::clone))
    }

    /// The live seat with this number.
    pub(crate) fn by_key(&self, key: MailboxKey) -> Option<Arc<Seat>> {
        self.read(|seats| seats.by_key.get(&key.0).map(Arc::clone))
    }

    /// Every live seat, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Seat>> {
        let mut all: Vec<_> = self.read(|seats| seats.by_id.values().map(Arc::clone).collect());
        all.sort_unstable_by_key(|seat| seat.key);
        all
    }

    /// The live seat of a mailbox, or a new one: if there is no room, in place of an idle one.
    pub(crate) fn enter(&self, id: &Arc<str>, now: Timestamp) -> Result<Found, NoRoom> {
        let mut seats = self.seats.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = seats.by_id.get(id) {
            return Ok(Found::Live(Arc::clone(seat)));
        }
        if seats.by_id.len() >= self.live_max {
            let idle = self.retire_one(&seats, now).ok_or(NoRoom)?;
            seats.remove(&idle);
        }
        Ok(Found::New(self.add(&mut seats, id)))
    }

    /// The live seat, or a new one whether there is room or not: what the store still holds has to be worked off.
    pub(crate) fn enter_recovered(&self, id: &Arc<str>) -> Arc<Seat> {
        let mut seats = self.seats.write().unwrap_or_else(PoisonError::into_inner);
        match seats.by_id.get(id) {
            Some(seat) => Arc::clone(seat),
            None => self.add(&mut seats, id),
        }
    }

    /// Takes a retired seat out; a later one of the same mailbox stays.
    pub(crate) fn leave(&self, seat: &Arc<Seat>) {
        self.seats.write().unwrap_or_else(PoisonError::into_inner).remove(seat);
    }

    fn retire_one(&self, seats: &Seats, now: Timestamp) -> Option<Arc<Seat>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.found.is_empty() && idle.searched_at.is_none_or(|at| now.since(at) >= SEARCH_EVERY) {
            idle.searched_at = Some(now);
            let mut found: Vec<_> =
                seats.by_id.values().filter(|seat| seat.ingress.is_idle()).map(Arc::clone).collect();
            // The oldest first: the order of the map is another one in every process.
            found.sort_unstable_by_key(|seat| seat.key);
            idle.found.extend(found);
        }
        while let Some(seat) = idle.found.pop_front() {
            if seat.ingress.retire_if_idle() {
                // It has nothing to do and no way in; this ring tells it to leave.
                let (Rung::Heard | Rung::Dead) = seat.ingress.bell().ring();
                return Some(seat);
            }
        }
        None
    }

    fn add(&self, seats: &mut Seats, id: &Arc<str>) -> Arc<Seat> {
        let mut key = self.next_key.fetch_add(1, Ordering::Relaxed);
        while seats.by_key.contains_key(&key) {
            // So many came and went that the numbers begin anew.
            key = self.next_key.fetch_add(1, Ordering::Relaxed);
        }
        let seat = Arc::new(Seat { id: Arc::clone(id), key: MailboxKey(key), ingress: Ingress::new(self.lane_max) });
        seats.by_id.insert(Arc::clone(id), Arc::clone(&seat));
        seats.by_key.insert(seat.key.0, Arc::clone(&seat));
        seat
    }

    fn read<R>(&self, look: impl FnOnce(&Seats) -> R) -> R {
        look(&self.seats.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seats {
    fn remove(&mut self, seat: &Arc<Seat>) {
        self.by_key.remove(&seat.key.0);
        if self.by_id.get(&seat.id).is_some_and(|live| Arc::ptr_eq(live, seat)) {
            self.by_id.remove(&seat.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_seats_make_room_whatever_the_order_of_the_map() {
        let directory = Directory::new(16, 1);
        let now = Timestamp::EPOCH;
        let enter = |number: usize| match directory.enter(&Arc::from(format!("m{number}")), now) {
            Ok(Found::New(seat)) => seat,
            other => panic!("{other:?}"),
        };
        for number in 0..16 {
            assert!(enter(number).ingress().set_idle());
        }
        for number in 16..24 {
            enter(number);
        }
        let left: Vec<String> = directory.all().iter().map(|seat| seat.id().to_string()).collect();
        assert_eq!(left, (8..24).map(|number| format!("m{number}")).collect::<Vec<_>>());
    }
}
