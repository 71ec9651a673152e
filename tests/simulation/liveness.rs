//! The faults of a world end at an instant; from then on it has to come to rest, and to stay fit.
//!
//! Until then everything of F1 to F12 that a world can make may happen, each in about half of them. Afterwards: what waits becomes
//! less within a longest cooldown and two windows, again and again; unknowns are given up or found in their time;
//! every operation is final by its deadline, or by what the backlog takes at these limits; whatever waits has a reason and
//! an instant; and an email that is submitted when all is over is accepted within the same cooldown and windows.
//!
//! `MAILWEIR_LIVENESS_RUNS` says how many worlds.

use std::fmt::Write;
use std::time::Duration;

use mailweir::engine::constraint::Constraint;
use mailweir::engine::mailbox::Outcome;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{Lane, Limit, OperationKey, OperationState, Timestamp, Unit};
use mailweir::simulation::Load;
use mailweir::upstream::check;

use crate::checks;
use crate::course::{Course, HOUR, MINUTE, Set, course, longest};
use crate::replay::{Replay, number};

const LIVENESS: Replay = Replay { features: "sim", test: "simulation", name: "liveness::one_seed" };

/// Worlds on every change.
const RUNS: u64 = 1_000;

impl Course {
    /// Within this something that waits goes, whatever the faults have left behind.
    fn step(&self) -> Duration {
        let clock_set = if self.clock_set == Set::Back { HOUR } else { Duration::ZERO };
        let spread = self.hold_max / 20;
        // The request that is under way, and the backoff of an operation of its own.
        let margin = self.policy.guard.request_deadline_max + MINUTE;
        self.hold_max + spread + 2 * longest(&self.limits) + margin + clock_set
    }

    /// By then everything that was to be sent has been: the backlog at half the rate that background has, with the time in
    /// which a learned ceiling returns.
    fn rest(&self) -> Timestamp {
        let operations = u32::try_from(self.world.live()).expect("small");
        let each = |limit: &Limit| {
            let cost = if limit.unit() == Unit::Recipients { 6 } else { 1 };
            let round_trip = Duration::from_secs(8);
            (limit.window() + round_trip) * cost / u32::try_from(limit.amount().max(1)).expect("small")
        };
        let pace = self.limits.iter().map(each).max().expect("a limit");
        let ceiling = 2 * self.policy.breaker.ceiling_recovery_max;
        let unknown = self.policy.retry.unknown_max + 5 * MINUTE;
        self.over_at.after(self.step() + 4 * pace * operations + ceiling + unknown)
    }

    fn keys(&self) -> impl Iterator<Item = OperationKey> + use<> {
        (1..=self.world.operations() as u64).map(OperationKey)
    }

    /// The mailbox that an operation is live in, and its state.
    fn state(&self, key: OperationKey) -> Option<(usize, OperationState)> {
        let mailboxes = self.world.mailboxes();
        (0..mailboxes).find_map(|number| Some((number, self.world.mailbox(number).state(key)?)))
    }

    /// What waits, and what is unknown.
    fn waiting(&self) -> (Vec<OperationKey>, usize) {
        let is_unknown = |key: &OperationKey| matches!(self.state(*key), Some((_, OperationState::Unknown)));
        let live: Vec<_> = self.keys().filter(|key| self.state(*key).is_some()).collect();
        let (unknown, waiting): (Vec<_>, Vec<_>) = live.into_iter().partition(is_unknown);
        (waiting, unknown.len())
    }

    /// What keeps an operation waiting, as a caller is told it: with the shared scopes that it has still to pass.
    fn explain(&self, number: usize, key: OperationKey) -> Vec<Constraint> {
        let (shown, mailbox) = (self.world.local(self.world.now()), self.world.mailbox(number));
        let mut found = mailbox.explain(shown, Some(key));
        if let Some(shared) = self.world.shared().filter(|_| mailbox.asks_shared(key)) {
            let one = &self.world.planned()[usize::try_from(key.0 - 1).expect("an index")];
            found.extend(shared.explain(shown, one.lane, one.tenant.as_ref(), &one.cost));
        }
        Constraint::mark_binding(&mut found);
        found
    }

    /// Whatever is here is under way, or somebody can say why not, and when.
    fn reasons(&self) -> Result<(), String> {
        for key in self.keys() {
            let Some((number, state)) = self.state(key) else { continue };
            if state == OperationState::Attempting {
                continue;
            }
            let found = self.explain(number, key);
            let binding = found.iter().find(|constraint| constraint.binding);
            // What nothing keeps goes within the second at which a rising ceiling is looked at again.
            let goes_at = self.world.mailbox(number).poll_deadline();
            let goes = goes_at.is_some_and(|at| at <= self.world.local(self.world.now().after(Duration::from_secs(1))));
            if found.is_empty() && goes {
                continue;
            }
            if binding.is_none_or(|constraint| constraint.ready_at == Timestamp::NEVER) {
                return Err(format!("operation {} is {state:?} and nothing says why, or until when: {found:?}", key.0));
            }
        }
        Ok(())
    }

    /// Everything that it holds, for a failure.
    fn describe(&self) -> String {
        let model = self.world.upstream().model();
        let shown = self.world.local(self.world.now());
        let mut text = format!("limits {:?}, clock {:?}, {shown:?}", self.limits, self.clock_set);
        let _ = write!(text, ", {:?}, {:?}", model.retry_after, model.penalty);
        for number in 0..self.world.mailboxes() {
            let mailbox = self.world.mailbox(number);
            let _ = write!(text, "\nwakes {:?}: {:?}", mailbox.poll_deadline(), mailbox.facts(shown));
        }
        for key in self.waiting().0.into_iter().take(3) {
            let Some((number, state)) = self.state(key) else { continue };
            let _ = write!(text, "\n{key:?} {state:?} {:?}", self.explain(number, key));
        }
        text
    }

    /// From the end of the faults to the end of the work.
    fn settle(&mut self) -> Result<(), String> {
        self.world.run_until(self.over_at);
        let (step, rest) = (self.step(), self.rest());
        self.reasons()?;
        let (mut before, _) = self.waiting();
        while self.world.live() > 0 {
            let from = self.world.now();
            for part in 1..=4 {
                self.world.run_until(from.after(step * part / 4));
                self.reasons()?;
            }
            let (waiting, unknown) = self.waiting();
            if !waiting.is_empty() && waiting.iter().all(|key| before.contains(key)) && waiting.len() >= before.len() {
                return Err(format!("{} wait, and not one less after {step:?}", waiting.len()));
            }
            if self.world.now() > rest {
                return Err(format!(
                    "{} wait and {unknown} are unknown after {:?}",
                    waiting.len(),
                    rest.since(self.over_at)
                ));
            }
            before = waiting;
        }
        Ok(())
    }

    /// Everything ended, by its deadline if that came after the faults.
    fn ends(&self) -> Result<(), String> {
        if self.world.pending() > 0 {
            return Err(format!("{} have not ended, and nobody has them", self.world.pending()));
        }
        // An attempt that was under way at its deadline, and the unknown that it may have become.
        let late = self.policy.guard.request_deadline_max + self.policy.retry.unknown_max + 5 * MINUTE;
        let clock = if self.clock_set == Set::Back { HOUR } else { Duration::ZERO };
        let deadlines: Vec<_> = self.world.planned().iter().map(|one| one.at.after(one.deadline)).collect();
        for ended in self.world.ended() {
            let place = usize::try_from(ended.key.0 - 1).expect("an index");
            let by = deadlines[place].max(self.over_at).after(late + clock);
            if ended.ended_at > by {
                return Err(format!(
                    "operation {} ended {:?} too late: {:?}",
                    ended.key.0,
                    ended.ended_at.since(by),
                    ended.outcome
                ));
            }
        }
        Ok(())
    }

    /// An email of each mailbox when all is over.
    fn fit(&mut self) -> Result<(), String> {
        let (now, step, before) = (self.world.now(), self.step(), self.world.operations());
        for mailbox in 0..self.world.mailboxes() {
            let lane = if mailbox == 0 { Lane::Foreground } else { Lane::Background };
            self.world.submit(now, &Load::new(lane).mailbox(mailbox));
        }
        self.world.run_until(now.after(step));
        let last = self.world.ended().iter().filter(|ended| ended.key.0 > before as u64);
        let accepted = last.filter(|ended| matches!(ended.outcome, Outcome::Accepted { .. })).count();
        match accepted == self.world.mailboxes() {
            true => Ok(()),
            false => Err(format!("{accepted} mailboxes send when all is over, after {step:?}")),
        }
    }

    /// Nothing that must not happen has happened meanwhile.
    fn safety(&self) -> Result<(), String> {
        checks::accepted_means_taken(&self.world)?;
        checks::operations(&self.world).map_err(|violation| violation.to_string())?;
        if self.clock_set != Set::Forward {
            // Set forward, the next process takes what was just sent for what was sent an hour ago.
            checks::windows(&self.world, &self.upstream)?;
        }
        if self.policy.retry.duplicates == DuplicatePolicy::AtMostOnce {
            let counts = check::counts(self.world.upstream().log().client());
            if counts.duplicates > 0 {
                return Err(format!("{} duplicates under at-most-once", counts.duplicates));
            }
        }
        Ok(())
    }

    fn run(mut self) -> Result<u64, String> {
        let found = self.settle().and_then(|()| self.ends()).and_then(|()| self.fit()).and_then(|()| self.safety());
        found.map_err(|what| format!("{what}\n{}", self.describe()))?;
        Ok(self.world.operations() as u64)
    }
}

#[test]
fn when_the_faults_end_everything_comes_to_rest() {
    let runs = number("MAILWEIR_LIVENESS_RUNS").unwrap_or(RUNS);
    let base = number("MAILWEIR_SEED_BASE").unwrap_or(0);
    let operations = crate::sum(LIVENESS, base..base + runs, |seed| course(seed).run());
    println!("{runs} worlds whose faults end, {operations} operations: none stuck, none late");
}

#[test]
fn one_seed() {
    let seed = number("MAILWEIR_SEED").unwrap_or(5);
    let operations = LIVENESS.run(seed, |seed| course(seed).run().unwrap_or_else(|what| panic!("{what}")));
    println!("seed {seed}: {operations} operations, at rest");
}
