//! How far a mailbox's owner may go while several processes share the mailbox.
//!
//! Two owners can be at work for a while without knowing of each other: one that is cut off from the store, and the one
//! that took over from it. Each then keeps half of every window, counting all that it knows of, and half of what waits:
//! operations are split by their keys, so that nothing goes twice. Neither has to hear of the other for that.
//!
//! | mode | when | what goes |
//! |---|---|---|
//! | full | the lease holds and nothing is in doubt | everything |
//! | half | cut off from the store while the lease was full, until its end and G; or taken over uncleanly, for G and the window | half of each window; cut off: background as configured, paused unless said otherwise |
//! | trickle | cut off for longer, if so configured | φN/P̂ |
//! | stopped | no lease | nothing |
//! | quarantined | the store may have forgotten attempts | nothing, for the window and the longest request |
//!
//! A process alone has no tenure at all and is bound by nothing here.

use std::time::Duration;

use super::lane::Lane;
use super::ledger::guarded;
use super::limit::Limit;
use super::operation::OperationKey;
use super::policy::{CutOff, FleetPolicy, GuardPolicy};
use super::spread::fnv1a;
use super::time::{Timestamp, micros};

/// What the owner of a mailbox holds. The shell says it anew whenever something changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// When the lease ends by this process's own count; renewing moves it.
    pub lease_until: Timestamp,
    /// When the mailbox last changed hands without having been released.
    pub unclean_at: Option<Timestamp>,
    /// When the store may have forgotten writes, if this owner has not held the lease without a gap since before.
    pub failover_at: Option<Timestamp>,
    /// Whether the store can be reached.
    pub reach: Reach,
    /// How many processes there are, this one included: for the trickle.
    pub members: u32,
}

/// Whether the store can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Yes, by the last that was heard.
    Reachable,
    /// No.
    CutOff,
}

/// What may be sent under one limit by one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything.
    Full,
    /// Half of the window, until then.
    Half {
        /// When this ends.
        until: Timestamp,
    },
    /// A part of the window: φN/P̂.
    Trickle,
    /// Nothing, until then; [`Timestamp::NEVER`]: until the shell says otherwise.
    Stopped {
        /// When this ends.
        until: Timestamp,
    },
}

/// At most so much of a window may be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// That much.
    pub amount: u64,
    /// Until then.
    pub until: Timestamp,
}

/// Which half an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Goes while its owner is cut off.
    Kept,
    /// Goes with whoever takes over meanwhile.
    Ceded,
}

impl Side {
    /// The side of an operation: the same in every process.
    #[must_use]
    pub fn of(key: OperationKey) -> Self {
        // Keys alone would not do: those of one mailbox may all be even.
        if fnv1a(&key.0.to_le_bytes()).is_multiple_of(2) { Self::Kept } else { Self::Ceded }
    }
}

/// The numbers by which a tenure is judged.
#[derive(Clone, Copy, Debug)]
pub struct TenureRules<'a> {
    /// G, and what is sent while cut off.
    pub fleet: &'a FleetPolicy,
    /// The longest request, and the error of clock rates.
    pub guard: &'a GuardPolicy,
}

impl TenureRules<'_> {
    /// A span by a clock that may run fast.
    fn widened(&self, span: Duration) -> Duration {
        Duration::from_micros(guarded(micros(span), self.guard.clock_error.as_ppm()))
    }
}

impl Tenure {
    /// What `lane` may send under a limit with this window; a limit-free mailbox has a window of zero.
    #[must_use]
    pub fn mode(&self, now: Timestamp, lane: Lane, window: Duration, rules: TenureRules<'_>) -> Mode {
        match self.reach {
            Reach::Reachable if now < self.lease_until => self.leased(now, window, rules),
            Reach::Reachable => Mode::Stopped { until: Timestamp::NEVER },
            Reach::CutOff => self.cut_off(now, lane, window, rules),
        }
    }

    /// Whether an attempt that was granted may still leave: the last look, right before it does. It may have been granted
    /// under a tenure that has ended since.
    #[must_use]
    pub fn may_leave(&self, now: Timestamp, fleet: &FleetPolicy) -> bool {
        let trickles = || Lane::ALL.iter().any(|lane| fleet.cut_off(*lane) == CutOff::Trickle);
        match self.reach {
            Reach::Reachable => now < self.lease_until,
            Reach::CutOff => now < self.lease_until.after(fleet.grace) || trickles(),
        }
    }

    fn leased(&self, now: Timestamp, window: Duration, rules: TenureRules<'_>) -> Mode {
        let quarantined = self.quarantined_until(window, rules).filter(|until| *until > now);
        let unclean = self.unclean_until(window, rules).filter(|until| *until > now);
        match (quarantined, unclean) {
            (Some(until), _) => Mode::Stopped { until },
            (None, Some(until)) => Mode::Half { until },
            (None, None) => Mode::Full,
        }
    }

    fn cut_off(&self, now: Timestamp, lane: Lane, window: Duration, rules: TenureRules<'_>) -> Mode {
        let stopped = Mode::Stopped { until: Timestamp::NEVER };
        let ends_at = self.lease_until.after(rules.fleet.grace);
        // Whoever was in doubt when the lease ended may not be the only one: nothing beyond it.
        let was_full = self.leased(self.lease_until, window, rules) == Mode::Full;
        if !was_full {
            return if now < self.lease_until { self.leased(now, window, rules) } else { stopped };
        }
        match rules.fleet.cut_off(lane) {
            CutOff::Pause => stopped,
            CutOff::Half | CutOff::Trickle if now < ends_at => Mode::Half { until: ends_at },
            CutOff::Half => stopped,
            CutOff::Trickle => Mode::Trickle,
        }
    }

    /// Attempts that the store has forgotten count until then. Longer windows than five minutes are not silenced: what is
    /// missing there is a small part of them.
    fn quarantined_until(&self, window: Duration, rules: TenureRules<'_>) -> Option<Timestamp> {
        let silenced = window <= rules.fleet.rebuilt_above;
        let doubt = window.saturating_add(rules.guard.request_deadline_max);
        self.failover_at.filter(|_| silenced).map(|at| at.after(rules.widened(doubt)))
    }

    /// A predecessor may still send until G after the change, its requests take as long as they may, and count for a
    /// window then.
    fn unclean_until(&self, window: Duration, rules: TenureRules<'_>) -> Option<Timestamp> {
        let doubt = window.saturating_add(rules.guard.request_deadline_max).saturating_add(rules.fleet.grace);
        self.doubted_at().map(|at| at.after(rules.widened(doubt)))
    }

    /// Since when another owner may be at work: a failover may have lost the very change of hands.
    fn doubted_at(&self) -> Option<Timestamp> {
        self.unclean_at.max(self.failover_at)
    }

    /// How much of a limit may be in use by all lanes together; `None`: all of it.
    #[must_use]
    pub fn cap(&self, now: Timestamp, lane: Lane, limit: &Limit, rules: TenureRules<'_>) -> Option<Cap> {
        match self.mode(now, lane, limit.window(), rules) {
            Mode::Full => None,
            Mode::Half { until } => Some(Cap { amount: limit.amount() / 2, until }),
            Mode::Trickle => {
                let part = rules.fleet.trickle.floor_of(limit.amount());
                Some(Cap { amount: part / u64::from(self.members.max(1)), until: Timestamp::NEVER })
            }
            Mode::Stopped { until } => Some(Cap { amount: 0, until }),
        }
    }

    /// Until when nothing of a lane may go, whatever it costs.
    #[must_use]
    pub fn stopped_until(
        &self,
        now: Timestamp,
        lane: Lane,
        limits: &[Limit],
        rules: TenureRules<'_>,
    ) -> Option<Timestamp> {
        let windows = limits.iter().map(Limit::window).chain([Duration::ZERO]);
        let stopped = windows.filter_map(|window| match self.mode(now, lane, window, rules) {
            Mode::Stopped { until } => Some(until),
            Mode::Full | Mode::Half { .. } | Mode::Trickle => None,
        });
        stopped.max()
    }

    /// Until when an operation is left to another owner that may be at work.
    #[must_use]
    pub fn withheld_until(
        &self,
        now: Timestamp,
        key: OperationKey,
        lane: Lane,
        submitted_at: Timestamp,
        rules: TenureRules<'_>,
    ) -> Option<Timestamp> {
        if rules.fleet.cut_off(lane) == CutOff::Pause {
            return None; // nobody sends it while cut off
        }
        match (self.reach, Side::of(key)) {
            (Reach::CutOff, Side::Ceded) => Some(Timestamp::NEVER),
            (Reach::Reachable, Side::Ceded) => None,
            // Cut off or not: a predecessor that is, too, may be sending it.
            (Reach::Reachable | Reach::CutOff, Side::Kept) => self.ceded_until(rules).filter(|until| {
                let was_there = self.doubted_at().is_some_and(|at| submitted_at < at);
                was_there && *until > now
            }),
        }
    }

    /// Whether anything may be left to another owner.
    #[must_use]
    pub fn withholds(&self, now: Timestamp, rules: TenureRules<'_>) -> bool {
        self.reach == Reach::CutOff || self.ceded_until(rules).is_some_and(|until| until > now)
    }

    fn ceded_until(&self, rules: TenureRules<'_>) -> Option<Timestamp> {
        let doubt = rules.fleet.grace.saturating_add(rules.guard.request_deadline_max);
        self.doubted_at().map(|at| at.after(rules.widened(doubt)))
    }

    /// The next instant after `now` at which any answer changes by itself.
    #[must_use]
    pub fn next_change(&self, now: Timestamp, limits: &[Limit], rules: TenureRules<'_>) -> Option<Timestamp> {
        let of_window = |window| [self.quarantined_until(window, rules), self.unclean_until(window, rules)];
        let windows = limits.iter().map(Limit::window).chain([Duration::ZERO]);
        let ends = [Some(self.lease_until), Some(self.lease_until.after(rules.fleet.grace)), self.ceded_until(rules)];
        windows.flat_map(of_window).chain(ends).flatten().filter(|at| *at > now && *at != Timestamp::NEVER).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: u64 = 1_000;
    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn owner() -> Tenure {
        Tenure { lease_until: at(LEASE), unclean_at: None, failover_at: None, reach: Reach::Reachable, members: 2 }
    }

    fn mode(tenure: &Tenure, seconds: u64, lane: Lane, fleet: &FleetPolicy) -> Mode {
        let guard = GuardPolicy::default();
        tenure.mode(at(seconds), lane, MINUTE, TenureRules { fleet, guard: &guard })
    }

    #[test]
    fn a_lease_is_full_until_its_end_and_nothing_after() {
        let (tenure, fleet) = (owner(), FleetPolicy::default());
        assert_eq!(mode(&tenure, LEASE - 1, Lane::Background, &fleet), Mode::Full);
        assert_eq!(mode(&tenure, LEASE, Lane::Foreground, &fleet), Mode::Stopped { until: Timestamp::NEVER });
    }

    #[test]
    fn cut_off_from_a_full_lease_foreground_goes_on_at_half_for_the_grace_and_background_rests() {
        let (tenure, fleet) = (Tenure { reach: Reach::CutOff, ..owner() }, FleetPolicy::default());
        let ends = LEASE + 600;
        assert_eq!(mode(&tenure, LEASE - 1, Lane::Foreground, &fleet), Mode::Half { until: at(ends) });
        assert_eq!(mode(&tenure, ends - 1, Lane::Foreground, &fleet), Mode::Half { until: at(ends) });
        assert_eq!(mode(&tenure, ends, Lane::Foreground, &fleet), Mode::Stopped { until: Timestamp::NEVER });
        assert_eq!(mode(&tenure, LEASE - 1, Lane::Background, &fleet), Mode::Stopped { until: Timestamp::NEVER });
        let trickle = FleetPolicy { foreground: CutOff::Trickle, ..fleet };
        assert_eq!(mode(&tenure, ends, Lane::Foreground, &trickle), Mode::Trickle);
    }

    #[test]
    fn whatever_a_tenure_grants_may_leave_and_nothing_after_its_end() {
        for (foreground, leaves_later) in [(CutOff::Half, false), (CutOff::Pause, false), (CutOff::Trickle, true)] {
            let fleet = FleetPolicy { foreground, ..FleetPolicy::default() };
            let cut_off = Tenure { reach: Reach::CutOff, ..owner() };
            for tenure in [owner(), cut_off] {
                for seconds in [LEASE - 1, LEASE, LEASE + 599, LEASE + 600, LEASE + 100_000] {
                    let granted = mode(&tenure, seconds, Lane::Foreground, &fleet);
                    let may_leave = tenure.may_leave(at(seconds), &fleet);
                    assert!(
                        may_leave || matches!(granted, Mode::Stopped { .. }),
                        "{foreground:?} {seconds} {granted:?}"
                    );
                }
            }
            assert!(owner().may_leave(at(LEASE - 1), &fleet) && !owner().may_leave(at(LEASE), &fleet));
            assert!(cut_off.may_leave(at(LEASE + 599), &fleet));
            assert_eq!(cut_off.may_leave(at(LEASE + 600), &fleet), leaves_later, "{foreground:?}");
        }
    }

    #[test]
    fn who_took_over_uncleanly_is_at_half_and_may_not_go_on_when_cut_off_too() {
        let fleet = FleetPolicy::default();
        let tenure = Tenure { unclean_at: Some(at(990)), ..owner() };
        assert!(matches!(mode(&tenure, LEASE - 1, Lane::Background, &fleet), Mode::Half { .. }));
        let cut_off = Tenure { reach: Reach::CutOff, ..tenure };
        assert!(matches!(mode(&cut_off, LEASE - 1, Lane::Foreground, &fleet), Mode::Half { .. }));
        assert_eq!(mode(&cut_off, LEASE, Lane::Foreground, &fleet), Mode::Stopped { until: Timestamp::NEVER });
        let long_ago = Tenure { unclean_at: Some(at(100)), ..owner() };
        assert_eq!(mode(&long_ago, LEASE - 1, Lane::Background, &fleet), Mode::Full);
    }

    #[test]
    fn after_a_failover_short_windows_are_silent_and_long_ones_at_half() {
        let (fleet, guard) = (FleetPolicy::default(), GuardPolicy::default());
        let tenure = Tenure { failover_at: Some(at(980)), ..owner() };
        let Mode::Stopped { until } = mode(&tenure, 990, Lane::Foreground, &fleet) else { panic!("not silent") };
        assert!(until > at(980 + 125) && until < at(980 + 127), "{until}");
        let rules = TenureRules { fleet: &fleet, guard: &guard };
        let day = tenure.mode(at(990), Lane::Foreground, Duration::from_secs(86_400), rules);
        assert!(matches!(day, Mode::Half { .. }), "{day:?}");
    }

    #[test]
    fn what_the_cut_off_owner_keeps_its_successor_leaves_to_it_and_nothing_else() {
        let (fleet, guard) = (FleetPolicy::default(), GuardPolicy::default());
        let rules = TenureRules { fleet: &fleet, guard: &guard };
        let cut_off = Tenure { reach: Reach::CutOff, ..owner() };
        let successor = Tenure { unclean_at: Some(at(500)), ..owner() };
        let (mut kept, mut ceded) = (0, 0);
        for key in (0..100).map(OperationKey) {
            let withheld = |tenure: &Tenure, submitted| {
                tenure.withheld_until(at(600), key, Lane::Foreground, at(submitted), rules).is_some()
            };
            assert_ne!(withheld(&cut_off, 400), withheld(&successor, 400), "one of them, and one only");
            assert!(!withheld(&successor, 500), "the other one never had it");
            kept += u32::from(!withheld(&cut_off, 400));
            ceded += u32::from(!withheld(&successor, 400));
        }
        assert_eq!(kept + ceded, 100);
        assert!((40..=60).contains(&kept), "{kept}");
        let background = successor.withheld_until(at(600), OperationKey(0), Lane::Background, at(400), rules);
        assert_eq!(background, None, "nobody sends background while cut off");
    }
}
