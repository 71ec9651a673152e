//! The numbers of several processes over one store.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::engine::lane::Lane;
use crate::engine::ratio::Ratio;
use crate::engine::time::Timestamp;

/// What a lane does while its owner is cut off from the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CutOff {
    /// Half of each window by the owner's own ledger, until the lease's end and the grace; then nothing.
    #[default]
    Half,
    /// Nothing.
    Pause,
    /// As half, and then a trickle instead of nothing: at most that much over the amount.
    Trickle,
}

/// What owners go by when several processes share a store. One process alone is bound by none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetPolicy {
    /// Most processes over one store. Each keeps its part of the limits of tenants and of the application, so that all of
    /// them together keep the whole: what some do not use is lost to the others. 16 is what the specification is shown with
    /// (algorithms 7.5, G10).
    pub processes_max: NonZeroU32,
    /// A lease ends this long after it was renewed (algorithms 4.2).
    pub lease_ttl: Duration,
    /// How often leases are renewed: a third of their time (algorithms 4.2).
    pub renew_every: Duration,
    /// So much before its end by this process's count a lease is not relied on any more (algorithms 8).
    pub lease_margin: Duration,
    /// How often mailboxes without an owner are looked for, give or take a quarter by the process's name.
    pub adopt_every: Duration,
    /// How often what others should have told is looked up all the same.
    pub poll_every: Duration,
    /// G: so long after its lease's end a cut-off owner may send, and its successor expects it to (algorithms 4.2).
    pub grace: Duration,
    /// What foreground does while cut off.
    pub foreground: CutOff,
    /// What background does while cut off: it rests, and what foreground does not need stays free (algorithms 4.2).
    pub background: CutOff,
    /// φ: the part of a window that trickles, by all processes together (algorithms 4.2).
    pub trickle: Ratio,
    /// Windows up to this long are silent after a failover; longer ones rest on the attempt log (algorithms 4.2).
    pub rebuilt_above: Duration,
    /// Before a process that could not reach the store asks it again.
    pub retry_after: Duration,
    /// Renewals that a process which has found the store again waits before it takes over a lapsed lease: the owner has
    /// most likely found it, too, and renews its own.
    pub calm_renewals: u32,
    /// Leases renewed in one call, and mailboxes taken up in one look for those that nobody owns.
    pub batch_max: NonZeroU32,
    /// An order to an owner is given up after this: a lease and a look for orphans take less.
    pub order_max: Duration,
}

impl Default for FleetPolicy {
    fn default() -> Self {
        Self {
            processes_max: NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN),
            lease_ttl: Duration::from_secs(15),
            renew_every: Duration::from_secs(5),
            lease_margin: Duration::from_secs(2),
            adopt_every: Duration::from_secs(5),
            poll_every: Duration::from_secs(5),
            grace: Duration::from_secs(600),
            foreground: CutOff::Half,
            background: CutOff::Pause,
            trickle: Ratio::percent(20),
            rebuilt_above: Duration::from_secs(300),
            retry_after: Duration::from_secs(1),
            calm_renewals: 2,
            batch_max: NonZeroU32::new(1_024).unwrap_or(NonZeroU32::MIN),
            order_max: Duration::from_secs(30),
        }
    }
}

impl FleetPolicy {
    /// Until when a process that found the store again at `now` takes over no lapsed lease.
    #[must_use]
    pub fn calm_until(&self, now: Timestamp) -> Timestamp {
        now.after(self.renew_every.saturating_mul(self.calm_renewals))
    }

    /// What a lane does while cut off.
    #[must_use]
    pub const fn cut_off(&self, lane: Lane) -> CutOff {
        match lane {
            Lane::Foreground => self.foreground,
            Lane::Background => self.background,
        }
    }
}
