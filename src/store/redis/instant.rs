//! Local instants and those of Redis.
//!
//! Everything in Redis is stamped in microseconds of Redis `TIME`, so that processes whose clocks disagree see the same
//! facts. A process knows how far its own clock is from it: it asks, and takes the answer to have been given half-way
//! between asking and hearing. The quickest answer of the last few is believed, for it leaves least to guess. What is
//! believed is a whole number of milliseconds and stays while it is right to one, so that an instant that is written and
//! read back is the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::Timestamp;

/// "Never", as it is stored: the largest number that Lua holds exactly.
pub(super) const NEVER: u64 = (1 << 53) - 1;
/// Measurements among which the quickest counts. Older ones go: clocks drift.
const MEASURED_MAX: usize = 8;

/// What has to be added to a local instant.
#[derive(Clone, Debug)]
pub(super) struct Offset {
    known: Arc<Mutex<Known>>,
    /// The finest difference that is followed, in microseconds.
    grain: i64,
}

#[derive(Debug, Default)]
struct Known {
    measured: VecDeque<Measured>,
    believed: Option<i64>,
    /// Instants are the server's already.
    aligned: bool,
}

/// One question for the time.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    round_trip: Duration,
    offset: i64,
}

impl Offset {
    pub(super) fn new(grain: Duration) -> Self {
        Self { known: Arc::default(), grain: i64::try_from(grain.as_micros()).unwrap_or(i64::MAX).max(1) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer: `server` was read between `asked` and `heard`.
    pub(super) fn measured(&self, asked: Timestamp, server: u64, heard: Timestamp) {
        let round_trip = heard.since(asked);
        let middle = asked.after(round_trip / 2).as_micros();
        let offset = i64::try_from(i128::from(server) - i128::from(middle)).unwrap_or_default();
        let mut known = self.known();
        known.measured.push_back(Measured { round_trip, offset });
        if known.measured.len() > MEASURED_MAX {
            known.measured.pop_front();
        }
        let best = known.measured.iter().min_by_key(|one| one.round_trip).map_or(offset, |one| one.offset);
        if known.believed.is_none_or(|believed| believed.abs_diff(best) > self.grain.unsigned_abs()) {
            let whole = best.saturating_add(self.grain / 2).div_euclid(self.grain);
            known.believed = Some(whole.saturating_mul(self.grain));
        }
    }

    /// Forgets what was measured before: another server, or its clock was set.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        *known = Known { aligned: known.aligned, ..Known::default() };
    }

    /// From now on instants are the server's own.
    pub(super) fn align(&self) {
        self.known().aligned = true;
    }

    /// As it is believed now. One call of the store uses one.
    pub(super) fn now(&self) -> Translation {
        let known = self.known();
        Translation(if known.aligned { 0 } else { known.believed.unwrap_or_default() })
    }

    /// From the local clock to the server's, whatever instants are given in.
    pub(super) fn of_clock(&self) -> Translation {
        Translation(self.known().believed.unwrap_or_default())
    }
}

/// Translates between the two clocks. "Never" and the epoch stay what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Translation(pub(super) i64);

impl Translation {
    /// An instant as Redis has it.
    pub(super) fn server(self, instant: Timestamp) -> u64 {
        let micros = instant.as_micros();
        if micros == 0 || micros >= NEVER { micros.min(NEVER) } else { micros.saturating_add_signed(self.0).min(NEVER) }
    }

    /// What Redis has, by the local clock.
    pub(super) fn local(self, stored: u64) -> Timestamp {
        match stored {
            0 => Timestamp::EPOCH,
            NEVER.. => Timestamp::NEVER,
            _ => Timestamp::from_micros(stored.saturating_add_signed(self.0.saturating_neg())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_answer_is_believed() {
        let offset = Offset::new(Duration::from_millis(1));
        let at = Timestamp::from_micros;
        offset.measured(at(1_000), 61_000, at(3_000));
        assert_eq!(offset.now(), Translation(59_000));
        offset.measured(at(5_000), 65_050, at(5_100));
        assert_eq!(offset.now(), Translation(59_000), "right to a millisecond");
        offset.measured(at(6_000), 70_100, at(6_010));
        assert_eq!(offset.now(), Translation(64_000));
        offset.measured(at(6_000), 1, at(9_000));
        assert_eq!(offset.now(), Translation(64_000));
    }

    #[test]
    fn a_coarse_grain_is_found_again_by_a_slow_answer() {
        let at = |micros: u64| Timestamp::from_micros(1_000_000_000 + micros);
        for (server, heard) in [(1_005_000_010, 20), (1_005_000_000, 600_000), (1_005_590_000, 600_000)] {
            let offset = Offset::new(Duration::from_secs(1));
            offset.measured(at(0), server, at(heard));
            assert_eq!(offset.now(), Translation(5_000_000));
        }
    }

    #[test]
    fn an_instant_comes_back_as_it_went_and_never_stays_never() {
        for offset in [-300_000_000, 0, 300_000_000] {
            let translation = Translation(offset);
            for micros in [0, 1_700_000_000_000_000] {
                let instant = Timestamp::from_micros(micros);
                assert_eq!(translation.local(translation.server(instant)), instant);
            }
            assert_eq!(translation.local(translation.server(Timestamp::NEVER)), Timestamp::NEVER);
        }
    }
}
