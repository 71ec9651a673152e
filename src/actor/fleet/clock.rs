//! The store's time, on this process's monotonic clock.
//!
//! What processes write for each other has to be in one time, and clocks of machines differ. So this process goes by the
//! store's: its own clock and what has to be added to it. That is measured with every renewal: the store read its clock
//! between asking and hearing, so an answer that comes late says little and never anything wrong, and the narrowest of
//! the last few is believed.
//!
//! Every window of the engine runs by this clock, so it never jumps, neither way: it follows what is measured by a
//! quarter of ρ at most, which is within what windows are longer for (algorithms 1.4). Over its own clock alone it would
//! drift away from the others; by jumps, a slot would be free too early by as much.
//!
//! A step of the store's clock takes long to follow: a second takes more than an hour. Until then stamps of this process
//! and those of one that joins later do not mean the same, so a mailbox that changes hands is in doubt meanwhile, as
//! after a failover: [`FleetClock::agreement`] says so, and every renewal tells the store. What ends soon, an order or a
//! cooldown, is told in the store's time as it is ([`FleetClock::to_store`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::engine::{Ratio, Timestamp};
use crate::store::fleet::Agreement;

/// Measurements that count: older ones go, for clocks drift.
const MEASURED_MAX: usize = 8;
/// The window whose guard says which difference is none: the shortest that providers are known to count by.
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct FleetClock {
    own: Arc<dyn Clock>,
    /// By so much it may run faster or slower than its own clock, in millionths.
    slew_ppm: u32,
    /// A difference up to this is none, in microseconds.
    tolerated: u64,
    course: Mutex<Course>,
}

/// When the store was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// By the store's time, as it is shown here.
    pub(crate) at: Timestamp,
    own: Timestamp,
}

#[derive(Debug)]
struct Course {
    measured: VecDeque<Measured>,
    /// At this instant of the own clock so much was added to it, in microseconds.
    since: u64,
    offset: i64,
}

/// What has to be added to the own clock: between these two, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    least: i64,
    most: i64,
}

impl Measured {
    /// The store's clock showed `store` between two instants of the own one.
    fn new(asked: Timestamp, store: Timestamp, heard: Timestamp) -> Self {
        let offset = |own: Timestamp| {
            let offset = i128::from(store.as_micros()) - i128::from(own.as_micros());
            i64::try_from(offset).unwrap_or(0)
        };
        Self { least: offset(heard), most: offset(asked) }
    }

    const fn width(self) -> u64 {
        self.most.abs_diff(self.least)
    }

    const fn middle(self) -> i64 {
        self.least.saturating_add((self.width() / 2).cast_signed())
    }

    /// Whether both can be true.
    const fn agrees_with(self, other: Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }

    /// How far outside `offset` is for certain.
    fn misses(self, offset: i64) -> u64 {
        if offset < self.least { self.least.abs_diff(offset) } else { offset.max(self.most).abs_diff(self.most) }
    }
}

impl Course {
    /// The narrowest that was measured.
    fn best(&self) -> Option<Measured> {
        self.measured.iter().copied().min_by_key(|one| one.width())
    }

    fn aim(&self) -> i64 {
        self.best().map_or(self.offset, Measured::middle)
    }

    /// What is added at an instant of the own clock: nearer to the aim by what the clock may have been slewed.
    fn offset_at(&self, own: u64, slew_ppm: u32) -> i64 {
        let slewed = u128::from(own.saturating_sub(self.since)) * u128::from(slew_ppm) / 1_000_000;
        let slewed = i64::try_from(slewed).unwrap_or(i64::MAX);
        let aim = self.aim();
        aim.clamp(self.offset.saturating_sub(slewed), self.offset.saturating_add(slewed))
    }
}

impl FleetClock {
    /// One that has asked nobody yet: it shows its own clock. `clock_error` is ρ.
    pub(crate) fn new(own: Arc<dyn Clock>, clock_error: Ratio) -> Self {
        let tolerated = clock_error.ceil_of(u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX)) / 4;
        let course = Course { measured: VecDeque::new(), since: 0, offset: 0 };
        Self { own, slew_ppm: clock_error.as_ppm() / 4, tolerated, course: Mutex::new(course) }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store is being asked.
    pub(crate) fn ask(&self) -> Asked {
        let own = self.own.now();
        Asked { at: self.shown_at(own, &self.course()), own }
    }

    /// The store has answered with its time, which it read after it was asked. Tells how long the answer took.
    pub(crate) fn measured(&self, asked: Asked, store: Timestamp) -> Duration {
        let mut course = self.course();
        let heard = self.own.now();
        let own = heard.as_micros();
        (course.offset, course.since) = (course.offset_at(own, self.slew_ppm), own);
        let new = Measured::new(asked.own, store, heard);
        // What cannot be true any more was measured before a step, or has drifted away.
        course.measured.retain(|old| old.agrees_with(new));
        course.measured.push_back(new);
        if course.measured.len() > MEASURED_MAX {
            course.measured.pop_front();
        }
        heard.since(asked.own)
    }

    /// Shows the store's time as it was measured, at once: before anybody goes by it.
    pub(crate) fn begin(&self) {
        let mut course = self.course();
        course.offset = course.aim();
    }

    /// Whether it shows the store's time, as far as anybody can tell.
    pub(crate) fn agreement(&self) -> Agreement {
        let (own, course) = (self.own.now().as_micros(), self.course());
        let off = course.best().map_or(0, |best| best.misses(course.offset_at(own, self.slew_ppm)));
        if off > self.tolerated { Agreement::Differs } else { Agreement::Agrees }
    }

    /// An instant as the store's clock will show it, as far as is known.
    pub(crate) fn to_store(&self, at: Timestamp) -> Timestamp {
        moved(at, self.behind())
    }

    /// An instant of the store's clock as this one will show it.
    pub(crate) fn of_store(&self, at: Timestamp) -> Timestamp {
        moved(at, self.behind().saturating_neg())
    }

    /// By how much the store's clock is ahead of this one.
    fn behind(&self) -> i64 {
        let (own, course) = (self.own.now().as_micros(), self.course());
        course.aim().saturating_sub(course.offset_at(own, self.slew_ppm))
    }

    fn shown_at(&self, own: Timestamp, course: &Course) -> Timestamp {
        moved(own, course.offset_at(own.as_micros(), self.slew_ppm))
    }
}

/// "Never" and the epoch stay what they are.
fn moved(at: Timestamp, by: i64) -> Timestamp {
    if at == Timestamp::NEVER || at == Timestamp::EPOCH {
        return at;
    }
    Timestamp::from_micros(at.as_micros().saturating_add_signed(by))
}

impl Clock for FleetClock {
    fn now(&self) -> Timestamp {
        // Under one lock, so that what is shown never goes back.
        let course = self.course();
        self.shown_at(self.own.now(), &course)
    }
}

#[cfg(test)]
mod tests;
