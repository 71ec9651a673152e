//! What the upstream's log says of one mailbox, or of all together.
//!
//! A wait is the time from the instant at which an email was due to be submitted to the arrival that the upstream
//! accepted. A *stall* is a span in which emails waited and none was accepted. Goodput is measured on the campaign,
//! which always has a backlog: when the best possible schedule has it through, as a part of when we had. That schedule
//! knows the upstream's windows, needs no time for a request and gives people the same precedence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mailweir::Lane;
use mailweir::engine::{Ratio, Scope, ScopeKind, Timestamp};
use mailweir::upstream::{Arrival, Job, Schedule, UpstreamLimit, check, optimum};
use serde::{Serialize, Serializer};

use super::drive::Told;
use super::plan::{Plan, Planned};
use super::stage::Played;

/// A Retry-After has whole seconds, rounded up.
const ROUNDING: Duration = Duration::from_secs(1);

/// Facts about a group of emails.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Measures {
    pub(crate) submitted: usize,
    pub(crate) accepted: usize,
    pub(crate) accepted_foreground: usize,
    pub(crate) accepted_background: usize,
    /// 429s that nobody injected: our own pace.
    pub(crate) refused_at_own_pace: usize,
    pub(crate) refused_in_throttle: usize,
    pub(crate) cooldowns: usize,
    pub(crate) duplicates: u64,
    /// Taken in by the scheduler, ended, and not taken by the upstream.
    pub(crate) lost: usize,
    /// Still waiting when the run ended.
    pub(crate) unfinished: usize,
    #[serde(rename = "foreground_p50_ms", serialize_with = "millis")]
    pub(crate) foreground_p50: Option<Duration>,
    #[serde(rename = "foreground_p99_ms", serialize_with = "millis")]
    pub(crate) foreground_p99: Option<Duration>,
    /// People who came while their mailbox was refused, or recovered from it; they are not in the two above.
    pub(crate) foreground_in_throttle: usize,
    #[serde(rename = "foreground_in_throttle_max_ms", serialize_with = "millis")]
    pub(crate) foreground_in_throttle_max: Option<Duration>,
    #[serde(rename = "background_p50_ms", serialize_with = "millis")]
    pub(crate) background_p50: Option<Duration>,
    #[serde(rename = "background_p99_ms", serialize_with = "millis")]
    pub(crate) background_p99: Option<Duration>,
    #[serde(rename = "campaign_ms", serialize_with = "millis")]
    pub(crate) campaign: Option<Duration>,
    #[serde(rename = "campaign_optimum_ms", serialize_with = "millis")]
    pub(crate) campaign_optimum: Option<Duration>,
    /// `campaign_optimum / campaign`; absent while the campaign is not through.
    pub(crate) goodput_percent: Option<u64>,
    #[serde(rename = "longest_stall_ms", serialize_with = "millis")]
    pub(crate) longest_stall: Option<Duration>,
}

fn millis<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
}

/// One email of the plan and what the log has of it.
struct Seen<'a> {
    planned: &'a Planned,
    told: Option<Told>,
    submitted: Timestamp,
    accepted: Option<Timestamp>,
}

impl Seen<'_> {
    fn wait(&self) -> Option<Duration> {
        self.accepted.map(|accepted| accepted.since(self.submitted))
    }
}

/// The facts of each mailbox in turn, and those of all together.
pub(crate) fn measure(plan: &Plan, played: &Played) -> (Vec<Measures>, Measures) {
    let mut accepted = BTreeMap::<&str, Timestamp>::new();
    for arrival in played.log.iter().filter(|arrival| arrival.executed) {
        accepted.entry(&arrival.key).or_insert(arrival.at);
    }
    let seen = |(planned, told): (_, &Option<Told>)| {
        let planned: &Planned = planned;
        let submitted = played.start.after(planned.after);
        Seen { planned, told: *told, submitted, accepted: accepted.get(&*planned.key).copied() }
    };
    let seen: Vec<Seen<'_>> = plan.emails.iter().zip(&played.run.told).map(seen).collect();
    let places = 0..plan.mailboxes.len();
    let optima: Vec<Option<Duration>> = places.clone().map(|place| best_campaign(plan, played, place)).collect();
    let each = places.map(|place| {
        let own: Vec<&Seen<'_>> = seen.iter().filter(|seen| seen.planned.mailbox == place).collect();
        let arrivals = played.log.iter().filter(|arrival| &*arrival.mailbox == plan.mailboxes[place]);
        let scope = Scope::Mailbox(plan.mailboxes[place].into());
        let cooldowns = played.cooldowns.scopes.iter().filter(|opened| **opened == scope).count();
        Measures { cooldowns, ..group(plan, played, &own, arrivals.collect(), optima[place]) }
    });
    let each: Vec<Measures> = each.collect();
    let everything: Vec<&Seen<'_>> = seen.iter().collect();
    let slowest = optima.iter().copied().max().flatten();
    let all = group(plan, played, &everything, played.log.iter().collect(), slowest);
    // A mailbox that stalls stalls, however busy the others are.
    let longest_stall = each.iter().filter_map(|own| own.longest_stall).max();
    let all = Measures { cooldowns: played.cooldowns.scopes.len(), longest_stall, ..all };
    (each, all)
}

fn group(
    plan: &Plan,
    played: &Played,
    seen: &[&Seen<'_>],
    arrivals: Vec<&Arrival>,
    best: Option<Duration>,
) -> Measures {
    let lane = |lane| seen.iter().filter(move |seen| seen.planned.lane == lane);
    let accepted = |lane_| lane(lane_).filter(|seen| seen.accepted.is_some()).count();
    let (disturbed, calm): (Vec<&&Seen<'_>>, Vec<_>) =
        lane(Lane::Foreground).partition(|seen| is_disturbed(plan, played, seen));
    let waits = |seen: &[&&Seen<'_>]| sorted(seen.iter().filter_map(|seen| seen.wait()).collect());
    let (calm, background) = (waits(&calm), waits(&lane(Lane::Background).collect::<Vec<_>>()));
    let refused: Vec<&&Arrival> = arrivals.iter().filter(|arrival| arrival.status == 429).collect();
    let injected = refused.iter().filter(|arrival| is_injected(plan, played, arrival)).count();
    let through = lane(Lane::Background).all(|seen| seen.accepted.is_some());
    let campaign = background.last().copied().filter(|_| through);
    let goodput = |(best, own): (Duration, Duration)| best.as_micros() * 100 / own.as_micros().max(1);
    Measures {
        submitted: seen.iter().filter(|seen| seen.told != Some(Told::Refused)).count(),
        accepted: accepted(Lane::Foreground) + accepted(Lane::Background),
        accepted_foreground: accepted(Lane::Foreground),
        accepted_background: accepted(Lane::Background),
        refused_at_own_pace: refused.len() - injected,
        refused_in_throttle: injected,
        cooldowns: 0,
        duplicates: check::counts(arrivals.iter().copied()).duplicates,
        lost: seen.iter().filter(|seen| is_lost(seen)).count(),
        unfinished: seen.iter().filter(|seen| seen.told.is_none() && seen.accepted.is_none()).count(),
        foreground_p50: percentile(&calm, 50),
        foreground_p99: percentile(&calm, 99),
        foreground_in_throttle: disturbed.len(),
        foreground_in_throttle_max: disturbed.iter().filter_map(|seen| seen.wait()).max(),
        background_p50: percentile(&background, 50),
        background_p99: percentile(&background, 99),
        campaign,
        campaign_optimum: best,
        goodput_percent: best.zip(campaign).and_then(|pair| u64::try_from(goodput(pair)).ok()),
        longest_stall: longest_stall(seen),
    }
}

/// The scheduler said that it came to an end, or that it was taken; the upstream has none of it.
fn is_lost(seen: &Seen<'_>) -> bool {
    seen.accepted.is_none() && matches!(seen.told, Some(Told::Accepted | Told::NotAccepted))
}

/// A 429 of the throttle that was injected.
fn is_injected(plan: &Plan, played: &Played, arrival: &Arrival) -> bool {
    let span = played.start.after(plan.throttle.from)..played.start.after(plan.throttle.until);
    &*arrival.mailbox == plan.mailboxes[plan.throttle.mailbox] && span.contains(&arrival.at)
}

/// Whether a wait touched the throttle or the way back from it: the rest of the cooldown and the ramp.
fn is_disturbed(plan: &Plan, played: &Played, seen: &Seen<'_>) -> bool {
    let (throttle, breaker) = (plan.throttle, &played.config.breaker);
    let told = throttle.until - throttle.from + ROUNDING;
    let spread = told.mul_f64(f64::from(breaker.retry_after_spread.as_ppm()) / 1e6);
    let back = throttle.until + ROUNDING + spread + breaker.retry_after_margin + breaker.ramp;
    let (from, back) = (played.start.after(throttle.from), played.start.after(back));
    let late = seen.accepted.is_none_or(|accepted| accepted >= from);
    seen.planned.mailbox == throttle.mailbox && late && seen.submitted < back
}

fn sorted(mut waits: Vec<Duration>) -> Vec<Duration> {
    waits.sort_unstable();
    waits
}

/// The nearest rank.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

/// The longest span in which something waited and nothing was accepted.
fn longest_stall(seen: &[&Seen<'_>]) -> Option<Duration> {
    let mut order: Vec<(Timestamp, Timestamp)> =
        seen.iter().filter_map(|seen| seen.accepted.map(|accepted| (accepted, seen.submitted))).collect();
    order.sort_unstable();
    // Backwards, so that the earliest submission among those not yet accepted is at hand.
    let (mut earliest, mut longest) = (Timestamp::NEVER, None);
    for (place, (accepted, submitted)) in order.iter().enumerate().rev() {
        earliest = earliest.min(*submitted);
        let last = place.checked_sub(1).map_or(Timestamp::EPOCH, |before| order[before].0);
        longest = longest.max(Some(accepted.since(last.max(earliest))));
    }
    longest
}

/// When the best schedule has the campaign of one mailbox through, the throttle included. Each mailbox alone: the
/// application's limits are far above what they can do together.
fn best_campaign(plan: &Plan, played: &Played, place: usize) -> Option<Duration> {
    let own: Vec<&Planned> = plan.emails.iter().filter(|planned| planned.mailbox == place).collect();
    let mailbox: Arc<str> = plan.mailboxes[place].into();
    let job = |planned: &&Planned| Job {
        at: played.start.after(planned.after),
        mailbox: Arc::clone(&mailbox),
        tenant: None,
        cost: planned.cost(),
        lane: planned.lane,
    };
    let jobs: Vec<Job> = own.iter().map(job).collect();
    let (from, until) = (played.start.after(plan.throttle.from), played.start.after(plan.throttle.until));
    let open = Schedule::always(Ratio::ONE);
    let scale = if place == plan.throttle.mailbox { open.between(from, until, Ratio::ZERO) } else { open };
    let limits: Vec<UpstreamLimit> = played
        .limits
        .iter()
        .filter(|limit| limit.scope == ScopeKind::Mailbox)
        .map(|limit| limit.clone().scaled(scale.clone()))
        .collect();
    let best = optimum(&limits, &jobs);
    let campaign = jobs.iter().zip(&best.accepted_at).filter(|(job, _)| job.lane == Lane::Background);
    campaign.filter_map(|(_, accepted)| accepted.map(|at| at.since(played.start))).max()
}
