//! Every number the engine works with, as plain values with their defaults.
//!
//! `config` produces these types from TOML; the engine never sees TOML. Where a default comes from stands at its
//! field: "algorithms N.N" is a section of the specification that ARCHITECTURE.md summarises.

mod fleet;

use std::num::NonZeroU32;
use std::time::Duration;

pub use fleet::{CutOff, FleetPolicy};

use super::limit::Limit;
use super::ratio::Ratio;

/// The limits of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopePolicy {
    /// Every one of them holds at once; a send waits for the latest.
    pub limits: Vec<Limit>,
    /// Attempts in flight at once; `None`: not limited.
    pub concurrency: Option<NonZeroU32>,
}

/// What one mailbox's engine needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailboxPolicy {
    /// The mailbox's own limits.
    pub scope: ScopePolicy,
    /// Safety margins.
    pub guard: GuardPolicy,
    /// The foreground/background split.
    pub lanes: LanesPolicy,
    /// The circuit breaker.
    pub breaker: BreakerPolicy,
    /// Attempts, backoff, unknown outcomes.
    pub retry: RetryPolicy,
    /// How resumptions are laid out.
    pub resume: ResumePolicy,
    /// Bounds on what waits.
    pub queue: QueuePolicy,
    /// What is known of the provider.
    pub provider: ProviderPolicy,
    /// Several processes over one store.
    pub fleet: FleetPolicy,
}

/// What the engine of the shared scopes (application and tenants) needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPolicy {
    /// Limits shared by everything this application sends.
    pub application: ScopePolicy,
    /// Limits of each tenant.
    pub tenant: ScopePolicy,
    /// Safety margins.
    pub guard: GuardPolicy,
    /// The foreground/background split, applied at these scopes too.
    pub lanes: LanesPolicy,
    /// The circuit breaker of each scope.
    pub breaker: BreakerPolicy,
    /// How resumptions are laid out.
    pub resume: ResumePolicy,
}

impl SharedPolicy {
    /// Whether tenants have budgets of their own.
    #[must_use]
    pub fn limits_tenants(&self) -> bool {
        self.tenant.is_limited()
    }
}

impl ScopePolicy {
    /// Whether it limits anything.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        !self.limits.is_empty() || self.concurrency.is_some()
    }

    /// Takes this limit in place of the one of the same unit and window, or beside the others.
    pub fn put(&mut self, limit: Limit) {
        let is_same = |known: &Limit| known.unit() == limit.unit() && known.window() == limit.window();
        let place = self.limits.iter().position(is_same).unwrap_or(self.limits.len());
        self.limits.retain(|known| !is_same(known));
        self.limits.insert(place, limit);
    }
}

/// Safety margins of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardPolicy {
    /// ρ, the clock-rate error allowed for: windows are this much longer for us. 1000 ppm: NTP slews at most
    /// 500 ppm, on both sides (algorithms 1.4).
    pub clock_error: Ratio,
    /// D_max, after which an attempt can no longer reach the provider: 60 s of HTTP deadline and 5 s (algorithms 8).
    pub request_deadline_max: Duration,
    /// Windows up to this long free their slots by the interval form (algorithms 1.4), which wins back part of the
    /// round trip: up to 25 % of the rate at a window of one second. Zero, the default, turns it off. It rests on a
    /// learned shortest round trip, so a path that becomes faster than ever seen can break a window: simulated at
    /// 1 request / 1s with heavy-tailed latencies, about one window in 10^6 held two arrivals. The completion-keyed
    /// ledger needs no such bound. Up to 5 s is sensible for providers that forgive one refusal.
    pub interval_window_max: Duration,
    /// Windows up to this long, and amounts up to [`GuardPolicy::exact_entries_max`], are kept exactly.
    pub exact_window_max: Duration,
    /// Most entries an exact window keeps.
    pub exact_entries_max: u32,
    /// Sub-buckets of a longer window: 288 is five minutes of a day, 99.65 % of the rate (algorithms 1.5).
    pub sub_buckets: u32,
}

impl Default for GuardPolicy {
    fn default() -> Self {
        Self {
            clock_error: Ratio::ppm(1_000),
            request_deadline_max: Duration::from_secs(65),
            interval_window_max: Duration::ZERO,
            exact_window_max: Duration::from_secs(3_600),
            exact_entries_max: 4_096,
            sub_buckets: 288,
        }
    }
}

/// How the lanes share a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LanesMode {
    /// Strict foreground priority, paced background, adaptive reserve (algorithms 2.2).
    #[default]
    ReservedWindow,
    /// Background never uses more than its share of any window, wanted or not. Costs up to half the throughput.
    HardCap,
}

/// The foreground/background split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesPolicy {
    /// Which of the two schemes.
    pub mode: LanesMode,
    /// Most of each window that background may use while foreground wants it (algorithms 2.2).
    pub background_share: Ratio,
    /// Least part of each window kept back for foreground (algorithms 2.3: 10 %).
    pub reserve_min: Ratio,
    /// Most of it.
    pub reserve_max: Ratio,
    /// Reserve = this × the burst that foreground needed (algorithms 2.2: 1.25).
    pub reserve_factor: Ratio,
    /// Half-life of the foreground estimates (algorithms 2.2: 1 h).
    pub half_life: Duration,
    /// Background burst of windows up to 60 s, as a part of the amount (algorithms 2.2: 10 %).
    pub background_burst: Ratio,
    /// Foreground history needed before longer windows allow a background burst (algorithms 2.2: 2 h).
    pub history_min: Duration,
    /// Declared foreground load, operations per hour; replaces the wait for history.
    pub foreground_expected_per_hour: Option<u32>,
    /// Part of the grants background still gets when foreground alone saturates (algorithms 2.2: 5 %).
    pub background_floor: Ratio,
    /// Later operations that may pass a blocked head of their tenant's queue (algorithms 1.5: 8).
    pub bypass_max: u32,
}

impl Default for LanesPolicy {
    fn default() -> Self {
        Self {
            mode: LanesMode::ReservedWindow,
            background_share: Ratio::percent(50),
            reserve_min: Ratio::percent(10),
            reserve_max: Ratio::percent(50),
            reserve_factor: Ratio::percent(125),
            half_life: Duration::from_secs(3_600),
            background_burst: Ratio::percent(10),
            history_min: Duration::from_secs(7_200),
            foreground_expected_per_hour: None,
            background_floor: Ratio::percent(5),
            bypass_max: 8,
        }
    }
}

/// The circuit breaker of one scope (algorithms 3.2; figures 3.3 and 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// First cooldown without a Retry-After; `None`: the shortest declared window of the scope, or 60 s.
    pub cooldown_first: Option<Duration>,
    /// Growth of the cooldown from one episode of a chain to the next.
    pub cooldown_growth: Ratio,
    /// Longest such cooldown when every window is at most 60 s.
    pub cooldown_short_max: Duration,
    /// Longest such cooldown otherwise.
    pub cooldown_long_max: Duration,
    /// Cooldown after two probes in a row failed right after a cooldown of at least the long maximum (penalty box).
    pub penalty: Duration,
    /// Every so many episodes of one chain without a Retry-After, or with one that has proved too short, the cooldown is
    /// [`BreakerPolicy::penalty`], so that a penalty box that starts anew at every knock is left; 0 turns it off.
    pub penalty_chain: u32,
    /// Added to a Retry-After, before the stable spread of up to [`BreakerPolicy::retry_after_spread`].
    pub retry_after_margin: Duration,
    /// Largest part of a Retry-After added as spread.
    pub retry_after_spread: Ratio,
    /// Longest Retry-After that is believed; longer ones are cut to it.
    pub retry_after_max: Duration,
    /// A second chain that begins within this many shortest windows of the last one trips.
    pub trip_windows: u32,
    /// A chain of this many episodes trips.
    pub trip_chain: u32,
    /// Ceiling after a trip, as a part of what was accepted in the last window.
    pub ceiling: Ratio,
    /// Shortest K of the ceiling's return (K = 5 windows): a lasting cut is met about once in K, however short the window.
    pub ceiling_recovery_min: Duration,
    /// Longest K.
    pub ceiling_recovery_max: Duration,
    /// Successful probes that end half-open.
    pub probe_successes: u32,
    /// A probe without an outcome expires after this.
    pub probe_timeout: Duration,
    /// Part of the rate that the ramp starts at.
    pub ramp_start: Ratio,
    /// Length of the ramp; zero turns it off.
    pub ramp: Duration,
    /// A concurrency limit lowered by the provider's refusals rises by one after this long without one.
    pub concurrency_recovery: Duration,
    /// Transient failures in a row that open the health breaker.
    pub health_failures: u32,
    /// Failure ratio that opens it, over at least [`BreakerPolicy::health_calls_min`] calls in one minute.
    pub health_ratio: Ratio,
    /// Calls needed before the ratio counts.
    pub health_calls_min: u32,
    /// Probes that have to fail in a row for another, longer health cooldown.
    pub health_probes: u32,
    /// First health cooldown; doubles to [`BreakerPolicy::health_cooldown_max`].
    pub health_cooldown: Duration,
    /// Longest health cooldown.
    pub health_cooldown_max: Duration,
    /// A person's hold or trip without an expiry lasts this long.
    pub manual_expiry: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            cooldown_first: None,
            cooldown_growth: Ratio::percent(200),
            cooldown_short_max: Duration::from_secs(120),
            cooldown_long_max: Duration::from_secs(360),
            penalty: Duration::from_secs(900),
            penalty_chain: 16,
            retry_after_margin: Duration::from_millis(200),
            retry_after_spread: Ratio::percent(5),
            retry_after_max: Duration::from_secs(86_400),
            trip_windows: 10,
            trip_chain: 3,
            ceiling: Ratio::percent(70),
            ceiling_recovery_min: Duration::from_secs(360),
            ceiling_recovery_max: Duration::from_secs(7_200),
            probe_successes: 2,
            probe_timeout: Duration::from_secs(30),
            ramp_start: Ratio::percent(25),
            ramp: Duration::from_secs(30),
            concurrency_recovery: Duration::from_secs(600),
            health_failures: 5,
            health_ratio: Ratio::percent(50),
            health_calls_min: 10,
            health_probes: 3,
            health_cooldown: Duration::from_secs(30),
            health_cooldown_max: Duration::from_secs(300),
            manual_expiry: Duration::from_secs(300),
        }
    }
}

/// What happens to an operation whose outcome is unknown when reconciliation cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DuplicatePolicy {
    /// Never sent again by itself: set aside for a person.
    #[default]
    AtMostOnce,
    /// Sent again with the same key: once it is known absent, or within [`RetryPolicy::horizon`], while the provider
    /// drops duplicates.
    AtLeastOnce,
}

/// Attempts and what follows them (algorithms 5 and 8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts at most; 429s and waiting are free.
    pub attempts_max: NonZeroU32,
    /// First backoff: the wait after the n-th failed attempt is a full-jitter draw up to `2^(n-1)` times this.
    pub backoff: Duration,
    /// Longest backoff.
    pub backoff_max: Duration,
    /// Deadline of an operation that names none.
    pub deadline: Duration,
    /// Deadline of one attempt, below [`GuardPolicy::request_deadline_max`].
    pub attempt_timeout: Duration,
    /// What happens to an unknown.
    pub duplicates: DuplicatePolicy,
    /// How long after the attempt that may have been accepted an operation is sent again blindly, relying on the
    /// provider to drop the second. Zero, the default: never blindly, only once it is known absent. Needs
    /// [`DuplicatePolicy::AtLeastOnce`], and a [`ProviderPolicy::dedupe_window`] that outlasts it (algorithms 5, O9).
    pub horizon: Duration,
    /// An unknown is looked up a last time after this, and given up when the answer had its time (a look-up gap).
    pub unknown_max: Duration,
    /// An operation that crashed its worker this often is set aside: once may be chance, and each time its mailbox
    /// stands still (algorithms 5, transition 12).
    pub crashes_max: NonZeroU32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts_max: NonZeroU32::new(8).expect("8 is not zero"),
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(600),
            deadline: Duration::from_secs(86_400),
            attempt_timeout: Duration::from_secs(60),
            duplicates: DuplicatePolicy::AtMostOnce,
            horizon: Duration::ZERO,
            unknown_max: Duration::from_secs(1_800),
            crashes_max: NonZeroU32::new(3).expect("3 is not zero"),
        }
    }
}

/// What is known of the provider behind the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderPolicy {
    /// How long an email that was taken may not show where a look-up looks. "Absent" counts only when it was asked for
    /// after this, and twice (algorithms 5, transition 10: 60 s).
    pub visibility_delay: Duration,
    /// How long it drops a second email with the key of the first. Zero: it does not, as Graph.
    pub dedupe_window: Duration,
}

impl Default for ProviderPolicy {
    fn default() -> Self {
        Self { visibility_delay: Duration::from_secs(60), dedupe_window: Duration::ZERO }
    }
}

/// Look-ups of an unknown, counted from the moment it became one; none before the visibility delay (algorithms 8).
pub(crate) const LOOK_UPS: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1_800)];

/// Between two look-ups at least this: at the second no request of the lost attempt can still have been on its way at
/// the first.
pub(crate) fn look_up_gap(guard: &GuardPolicy) -> Duration {
    LOOK_UPS[0].max(guard.request_deadline_max)
}

/// The clock slack of the horizon rule: what two clocks may differ by over the provider's dedupe window.
#[must_use]
pub fn clock_slack(guard: &GuardPolicy, dedupe_window: Duration) -> Duration {
    Duration::from_micros(guard.clock_error.ceil_of(super::time::micros(dedupe_window)))
}

/// How deferred operations resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumePolicy {
    /// Resumptions are spread over at least this long; the spread grows with the backlog (algorithms 0.4).
    pub spread: Duration,
    /// A hold that is lifted in part is watched for this long after the last of the first, unless its order says
    /// otherwise: 60 s, the shortest window of the default limits and the cooldown where no window is declared
    /// (algorithms 3.2), so that what the first overran has shown.
    pub watch: Duration,
    /// The largest share of the first that may end badly (rejected, unknown, out of attempts or time) before that is
    /// stopped: 10 %, rounded down, so one of fewer than ten stops it. Ours: what is wrong with all of them (a broken
    /// template, a provider that answers nothing) fails nearly all; addresses that are refused one by one are a few in a
    /// hundred.
    pub failed_max: Ratio,
}

impl Default for ResumePolicy {
    fn default() -> Self {
        let (spread, watch) = (Duration::from_secs(30), Duration::from_secs(60));
        Self { spread, watch, failed_max: Ratio::percent(10) }
    }
}

/// Bounds on what waits in one mailbox, per lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Most foreground operations that wait.
    pub foreground_max: u32,
    /// Most background operations that wait.
    pub background_max: u32,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self { foreground_max: 10_000, background_max: 1_000_000 }
    }
}
