//! A value that changes at given instants.

use crate::engine::Timestamp;

/// A piecewise constant value over time: how a fault, a rate or a limit's factor varies in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<T> {
    initial: T,
    /// In order of instant; at equal instants the later entry wins.
    steps: Vec<(Timestamp, T)>,
}

impl<T: Copy> Schedule<T> {
    /// The same value for ever.
    #[must_use]
    pub const fn always(value: T) -> Self {
        Self { initial: value, steps: Vec::new() }
    }

    /// The same, with `value` from `from` (inclusive) until the next step.
    #[must_use]
    pub fn then(mut self, from: Timestamp, value: T) -> Self {
        let index = self.steps.partition_point(|(at, _)| *at <= from);
        self.steps.insert(index, (from, value));
        self
    }

    /// The same, with `value` in `[from, until)` and afterwards what held at `until`.
    #[must_use]
    pub fn between(self, from: Timestamp, until: Timestamp, value: T) -> Self {
        let after = self.at(until);
        let mut schedule = self.then(from, value).then(until, after);
        schedule.steps.retain(|(at, _)| *at <= from || *at >= until);
        schedule
    }

    /// The value at `now`.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> T {
        let index = self.steps.partition_point(|(at, _)| *at <= now);
        index.checked_sub(1).and_then(|last| self.steps.get(last)).map_or(self.initial, |(_, value)| *value)
    }

    /// The first step after `now`.
    #[must_use]
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let index = self.steps.partition_point(|(at, _)| *at <= now);
        self.steps.get(index).map(|(at, _)| *at)
    }
}

impl<T: Copy> From<T> for Schedule<T> {
    fn from(value: T) -> Self {
        Self::always(value)
    }
}

impl<T: Copy + Default> Default for Schedule<T> {
    fn default() -> Self {
        Self::always(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_step_holds_from_its_instant_on() {
        let schedule = Schedule::always(1).then(at(10), 2).then(at(20), 3);
        assert_eq!([0, 9, 10, 19, 20, 99].map(|micros| schedule.at(at(micros))), [1, 1, 2, 2, 3, 3]);
        assert_eq!(schedule.next_change(at(9)), Some(at(10)));
        assert_eq!(schedule.next_change(at(10)), Some(at(20)));
        assert_eq!(schedule.next_change(at(20)), None);
    }

    #[test]
    fn an_interval_returns_to_what_held_at_its_end() {
        let schedule = Schedule::always(1).then(at(15), 2).between(at(10), at(20), 9);
        assert_eq!([9, 10, 15, 19, 20].map(|micros| schedule.at(at(micros))), [1, 9, 9, 9, 2]);
    }
}
