//! What a failover of the store puts in doubt for the owner of a mailbox.
//!
//! The store may have forgotten what another one wrote. While a lease had not run out nobody else could acquire the
//! mailbox, so its owner knows all there is; once it had, somebody may have, and the store may have forgotten just that.

use super::time::Timestamp;

/// A failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// When it was, by the store's clock: the same whoever tells it, so it is known again by this.
    pub by_store: Timestamp,
    /// When it was, by the clock that windows run by.
    pub at: Timestamp,
}

/// The failovers that an owner was told of while it held one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failovers {
    told: Option<Timestamp>,
    doubted: Option<Timestamp>,
}

/// Whether a failover was heard of before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// No: whatever the store says of what was written before it may be old.
    News,
    /// Yes, or there was none.
    Known,
}

impl Failovers {
    /// For a lease that was just acquired: who owned the mailbox before a failover is not known.
    #[must_use]
    pub fn of_new_lease(last: Option<Failover>) -> Self {
        Self { told: last.map(|last| last.by_store), doubted: last.map(|last| last.at) }
    }

    /// Takes note of the last failover, as a renewal at `now` tells it; before it, the lease counted until `lease_until`.
    pub fn note(&mut self, last: Option<Failover>, now: Timestamp, lease_until: Timestamp) -> Word {
        let Some(last) = last.filter(|last| self.told.is_none_or(|told| last.by_store > told)) else {
            return Word::Known;
        };
        self.told = Some(last.by_store);
        if lease_until <= now {
            self.doubted = self.doubted.max(Some(last.at));
        }
        Word::News
    }

    /// The last one after which another owner may have been at work.
    #[must_use]
    pub const fn doubted_at(&self) -> Option<Timestamp> {
        self.doubted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn of(seconds: u64) -> Option<Failover> {
        // The clocks differ by a minute.
        Some(Failover { by_store: at(seconds + 60), at: at(seconds) })
    }

    #[test]
    fn a_failover_is_a_matter_for_an_owner_whose_lease_had_run_out_and_for_a_new_one() {
        let mut failovers = Failovers::of_new_lease(None);
        assert_eq!(failovers.note(None, at(5), at(13)), Word::Known);
        assert_eq!(failovers.note(of(8), at(10), at(13)), Word::News);
        assert_eq!(failovers.doubted_at(), None, "nobody else could acquire it");
        assert_eq!(failovers.note(of(8), at(40), at(18)), Word::Known, "told before the lease ran out");
        assert_eq!(failovers.doubted_at(), None);
        assert_eq!(failovers.note(of(60), at(62), at(62)), Word::News);
        assert_eq!(failovers.doubted_at(), Some(at(60)), "it had run out to the instant");
        assert_eq!(Failovers::of_new_lease(of(8)).doubted_at(), Some(at(8)));
    }
}
