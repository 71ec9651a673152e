//! What is known about round trips, for windows so short that a round trip is a large part of them.
//!
//! A charge keyed on its completion e costs `L/(W+L)` of the rate: 0.5 % of a minute, 25 % of a second. Part of the
//! round trip can be won back. Let u be the way up and v the rest (service and the way down). Request i arrived at
//! `e_i − v_i`, and a request j sent at `e_i + W − d` arrives at `e_i + W − d + u_j`, so they are W apart whenever
//! `d ≤ v_i + u_j`. The shortest round trip there can be bounds that sum from below, whatever the tail does; no
//! upper bound on the delay is needed, since a slot in flight is never freed.
//!
//! The shortest of a sample lies above the shortest there can be, so only **half** of it is used: with 40 ms each way
//! and 250 ms of service, log-normal, the shortest of 1,000 round trips was 1.2 times the sum of the shortest parts
//! (median of 60 draws; 1.7 at most). Not promised: a path that becomes more than twice as fast at once can meet one
//! refusal before it is seen.

/// Round trips to see before any of it is used.
pub(super) const SAMPLES_MIN: u32 = 1_000;

const NONE: u32 = u32::MAX;

/// The shortest round trip of the last [`SAMPLES_MIN`] to twice as many, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoundTrips {
    shortest: u32,
    shortest_before: u32,
    samples: u32,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self { shortest: NONE, shortest_before: NONE, samples: 0 }
    }
}

impl RoundTrips {
    /// By how much earlier than its completion plus W a charge may be freed.
    pub(super) fn advance(self) -> u64 {
        if self.shortest_before == NONE { 0 } else { u64::from(self.shortest.min(self.shortest_before) / 2) }
    }

    /// Takes in one round trip. One below the advance disproves it: learning starts over.
    pub(super) fn learn(&mut self, micros: u64) {
        if micros < self.advance() {
            *self = Self::default();
        }
        self.shortest = self.shortest.min(u32::try_from(micros).unwrap_or(NONE - 1));
        self.samples += 1;
        if self.samples >= SAMPLES_MIN {
            *self = Self { shortest: NONE, shortest_before: self.shortest, samples: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RoundTrips, SAMPLES_MIN};

    fn learned(micros: u64, samples: u32) -> RoundTrips {
        let mut trips = RoundTrips::default();
        (0..samples).for_each(|_| trips.learn(micros));
        trips
    }

    #[test]
    fn nothing_is_used_before_enough_round_trips_were_seen() {
        assert_eq!(learned(100_000, SAMPLES_MIN - 1).advance(), 0);
        assert_eq!(learned(100_000, SAMPLES_MIN).advance(), 50_000);
    }

    #[test]
    fn a_shorter_round_trip_counts_at_once() {
        let mut trips = learned(100_000, SAMPLES_MIN);
        trips.learn(60_000);
        assert_eq!(trips.advance(), 30_000);
    }

    #[test]
    fn a_round_trip_below_the_advance_starts_over() {
        let mut trips = learned(100_000, SAMPLES_MIN);
        trips.learn(49_999);
        assert_eq!(trips.advance(), 0);
    }

    #[test]
    fn a_path_that_became_slower_is_learned_after_two_generations() {
        let mut trips = learned(100_000, SAMPLES_MIN);
        (0..SAMPLES_MIN - 1).for_each(|_| trips.learn(200_000));
        assert_eq!(trips.advance(), 50_000);
        trips.learn(200_000);
        assert_eq!(trips.advance(), 100_000);
    }
}
