//! One operation, from all sides.

use std::time::Duration;

use mailweir::Outcome;
use mailweir::engine::invariants::{Violation, operation};
use mailweir::engine::operation::Transition;
use mailweir::engine::policy::{DuplicatePolicy, clock_slack};
use mailweir::engine::{OperationKey, OperationState, Timestamp};
use mailweir::scheduler::OrderAnswer;

use crate::acts::Scenario;
use crate::book::{Flight, History};
use crate::checks::Executions;
use crate::orders::Verb;
use crate::world::Run;

pub(crate) struct One<'a> {
    pub(crate) key: OperationKey,
    pub(crate) history: &'a History,
    pub(crate) flights: &'a [Flight],
    /// When the upstream took it.
    pub(crate) taken: &'a [Timestamp],
}

impl One<'_> {
    pub(crate) fn check(&self, scenario: &Scenario, run: &Run) -> Result<Executions, String> {
        let named = |what: String| format!("{} {:?}: {what}", self.history.id, self.history.steps);
        self.invariants(scenario).map_err(|violation| named(violation.to_string()))?;
        let config = (scenario.config)();
        let row = run.rows.get(&self.history.id).ok_or_else(|| named("it is not stored".to_owned()))?;
        let most = config.retry.attempts_max.get();
        operation::attempts_are_bounded(self.key, row.attempts, most)
            .map_err(|violation| named(violation.to_string()))?;
        if (row.state, row.rows) != (self.history.state, self.history.rows) {
            return Err(named(format!("the store has {} after {} rows", row.state, row.rows)));
        }
        if row.state == OperationState::Accepted && self.taken.is_empty() {
            return Err(named("accepted, and the upstream never took it".to_owned()));
        }
        // Who was told twice that it is not there says so.
        let says_so = row.maybe_sent || !scenario.is_honest(run.seed);
        if row.state != OperationState::Accepted && !self.taken.is_empty() && !(self.was_unknown() && says_so) {
            return Err(named(format!("it is {}, and the upstream took it: {row:?}", row.state)));
        }
        self.told(scenario, run, row.state).map_err(named)?;
        self.duplicates(scenario, run.seed).map_err(named)
    }

    fn was_unknown(&self) -> bool {
        self.count(Transition::Lose) + self.count(Transition::Poison) > 0
    }

    /// An email is taken again only after it was unknown, and then by what the policy allows, or by a person who released
    /// it.
    fn duplicates(&self, scenario: &Scenario, seed: u64) -> Result<Executions, String> {
        let config = (scenario.config)();
        let window = config.transport.dedupe_window.unwrap_or_default();
        let repeats = config.retry.duplicates == DuplicatePolicy::AtLeastOnce && !scenario.is_honest(seed);
        let mut executions = Executions::default();
        let Some((mut last, again)) = self.taken.split_first() else { return Ok(executions) };
        for at in again {
            if at.since(*last) <= window {
                executions.dropped += 1;
                continue;
            }
            let (from, until) = (self.claim_before(*last), self.claim_before(*at));
            let between = self.history.steps.get(from..until).unwrap_or_default();
            let lost = between.iter().position(|step| matches!(step, Transition::Lose | Transition::Poison));
            let allowed = |step: &Transition| match step {
                Transition::Release => true,
                Transition::Repeat => repeats,
                _ => false,
            };
            if !lost.is_some_and(|lost| between[lost..].iter().any(allowed)) {
                return Err(format!("taken at {last} and at {at}, with {between:?} between"));
            }
            executions.doubled += 1;
            last = at;
        }
        Ok(executions)
    }

    /// Which step was the attempt that arrived at an instant.
    fn claim_before(&self, at: Timestamp) -> usize {
        let earlier = self.history.claims.iter().rev().find(|(claimed_at, _)| *claimed_at <= at);
        earlier.map_or(0, |(_, step)| *step)
    }

    /// O9: whoever repeats blindly arrives while the provider remembers what may have been sent since it was last known
    /// to be absent.
    fn blind_repeats(&self, scenario: &Scenario) -> Result<(), Violation> {
        let config = (scenario.config)();
        let window = config.transport.dedupe_window.unwrap_or_default();
        let margins = (config.guard.request_deadline_max, clock_slack(&config.guard, window));
        let mut first = None;
        for (place, (claimed_at, step)) in self.history.claims.iter().enumerate() {
            let next = self.history.claims.get(place + 1).map_or(Timestamp::NEVER, |(at, _)| *at);
            let is_its = |flight: &&Flight| *claimed_at <= flight.started && flight.started < next;
            let Some(flight) = self.flights.iter().find(is_its) else { continue };
            match step.checked_sub(1).map(|before| (before, self.history.steps[before])) {
                Some((before, Transition::Repeat)) if self.history.is_blind(before) => {
                    let first = first.unwrap_or(flight.started);
                    operation::repeat_is_deduplicated(self.key, (first, flight.started), margins, window)?;
                }
                Some((_, Transition::Repeat)) => first = None,
                _ => {}
            }
            first.get_or_insert(flight.started);
        }
        Ok(())
    }

    fn count(&self, of: Transition) -> u64 {
        self.history.steps.iter().filter(|step| **step == of).count() as u64
    }

    fn invariants(&self, scenario: &Scenario) -> Result<(), Violation> {
        let config = (scenario.config)();
        operation::replay(self.key, &self.history.steps)?;
        operation::sends_are_recorded(self.key, self.flights.len() as u64, u64::from(self.history.rows))?;
        let fingerprints: Vec<_> = self.flights.iter().map(|flight| flight.fingerprint).collect();
        operation::payload_is_fixed(self.key, &fingerprints)?;
        let paid = self.count(Transition::Retry) + self.count(Transition::Repeat);
        let paid = u32::try_from(paid).unwrap_or(u32::MAX);
        // Whoever is released is attempted once at least, whatever it has used.
        let released = u32::try_from(self.count(Transition::Release)).unwrap_or(u32::MAX);
        operation::attempts_are_bounded(self.key, paid, config.retry.attempts_max.get() + released)?;
        let outside = self.count(Transition::Repeat) + self.count(Transition::Release);
        operation::duplicates_are_accounted(self.key, self.taken.len() as u64, outside)?;
        self.blind_repeats(scenario)?;
        self.one_live_attempt(config.guard.request_deadline_max)
    }

    fn one_live_attempt(&self, request_deadline_max: Duration) -> Result<(), Violation> {
        let views: Vec<_> = self
            .flights
            .iter()
            .map(|flight| operation::AttemptView { key: self.key, claimed_at: flight.started, ended_at: flight.ended })
            .collect();
        views.iter().try_for_each(|view| operation::one_live_attempt(view.claimed_at, request_deadline_max, &views))
    }

    /// What callers were told before a death still holds after it.
    fn told(&self, scenario: &Scenario, run: &Run, state: OperationState) -> Result<(), String> {
        let id = &self.history.id;
        let cancels = run.told.orders.all().iter().filter(|given| given.verb() == Some((id, Verb::Cancel)));
        for given in cancels {
            match given.answer() {
                Some(OrderAnswer::Done { .. }) if state != OperationState::Cancelled => {
                    return Err(format!("{given}, and it is {state}"));
                }
                Some(OrderAnswer::Done { .. }) if !self.taken.is_empty() && !self.was_unknown() => {
                    return Err(format!("{given}, and the upstream took it"));
                }
                Some(OrderAnswer::Requested { .. }) => {
                    let ended = [OperationState::Accepted, OperationState::Rejected, OperationState::Cancelled];
                    if !ended.contains(&state) {
                        return Err(format!("{given}, and it is {state}"));
                    }
                }
                _ => {}
            }
        }
        match run.told.outcomes.get(id) {
            Some(Outcome::Accepted { .. }) if self.taken.is_empty() => Err("told accepted, and never taken".to_owned()),
            Some(Outcome::Cancelled { maybe_sent: false } | Outcome::Exhausted { maybe_sent: false, .. })
                if !self.taken.is_empty() && scenario.is_honest(run.seed) =>
            {
                Err(format!("told {:?}, and taken", run.told.outcomes[id]))
            }
            Some(Outcome::Cancelled { maybe_sent } | Outcome::Exhausted { maybe_sent, .. })
                if run.rows.get(id).is_some_and(|row| row.state == state && row.maybe_sent != *maybe_sent) =>
            {
                Err(format!("told {:?}, and its row says otherwise", run.told.outcomes[id]))
            }
            Some(Outcome::Exhausted { .. } | Outcome::Rejected { .. }) if state == OperationState::Accepted => {
                Err(format!("told {:?}, and accepted", run.told.outcomes[id]))
            }
            _ => Ok(()),
        }
    }
}
