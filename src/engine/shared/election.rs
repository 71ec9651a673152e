//! Which of several processes sends the one probe of a shared scope.
//!
//! Each process has breakers of its own, and after a shared cooldown all of them are half-open at once. So the probe's
//! turn is asked for where all can see it, by a token that expires. Until it is known whose it is nothing goes there; a
//! store that cannot be asked elects nobody, and then each process probes for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Effect, Shared};
use crate::engine::budget::Budget;
use crate::engine::operation::OperationKey;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ballot {
    /// This process's, until its token ends.
    Ours {
        /// When it ends.
        until: Timestamp,
    },
    /// Another one's: ask again then.
    Theirs {
        /// When to ask again.
        until: Timestamp,
    },
}

/// What is known of one scope's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It was asked for; without an answer it is asked for again then.
    Asked(Timestamp),
    Known(Ballot),
}

/// The tokens of scopes that are half-open.
#[derive(Clone, Debug, Default)]
pub(super) struct Election {
    turns: BTreeMap<Scope, Turn>,
}

/// What stands between a scope and its probe.
pub(super) enum Vote {
    /// Nothing.
    Go,
    /// The answer, or another one's token.
    Wait(Timestamp),
    /// The question.
    Ask,
}

impl Election {
    /// Whether a send of this scope may go for all that other processes do.
    pub(super) fn vote(&self, now: Timestamp, budget: &Budget) -> Vote {
        if !budget.is_probing(now) {
            return Vote::Go;
        }
        match self.turns.get(budget.scope()) {
            Some(Turn::Known(Ballot::Ours { until })) if now < *until => Vote::Go,
            Some(Turn::Known(Ballot::Theirs { until }) | Turn::Asked(until)) if now < *until => Vote::Wait(*until),
            Some(_) | None => Vote::Ask,
        }
    }
}

impl Shared {
    /// One of several processes: it probes a shared scope only when it is its turn.
    #[must_use]
    pub fn one_of_many(self) -> Self {
        Self { election: Some(Election::default()), ..self }
    }

    /// As if it were alone: for a look ahead, where nobody answers.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { election: None, ..self }
    }

    pub(super) fn elected(&mut self, scope: &Scope, ballot: Ballot) {
        if let Some(turn) = self.election.as_mut().and_then(|election| election.turns.get_mut(scope)) {
            *turn = Turn::Known(ballot);
        }
    }

    /// Until when the application's probe is not for this process to send, as far as is known; asks, where it is not.
    pub(super) fn application_turn(&mut self, now: Timestamp) -> Option<Timestamp> {
        match self.election.as_ref()?.vote(now, &self.application) {
            Vote::Go => None,
            Vote::Wait(until) => Some(until),
            Vote::Ask => Some(self.ask_turn(now, Scope::Application)),
        }
    }

    /// Asks whose turn it is, and says until when the answer is waited for.
    pub(super) fn ask_turn(&mut self, now: Timestamp, scope: Scope) -> Timestamp {
        let again_at = now.after(self.policy.breaker.probe_timeout);
        if let Some(election) = &mut self.election {
            election.turns.insert(scope.clone(), Turn::Asked(again_at));
        }
        self.effects.push_back(Effect::Elect { scope });
        again_at
    }

    /// A probe that was answered leaves its turn to the next process. After one that was refused the token stays where
    /// it is: everybody rests, and the same process asks again.
    pub(super) fn yield_turns(&mut self, now: Timestamp) {
        let Some(election) = &mut self.election else { return };
        let (application, tenants) = (&self.application, &self.tenants);
        let budget_of = |scope: &Scope| match scope {
            Scope::Application => Some(application),
            Scope::Tenant(tenant) => tenants.get(tenant),
            Scope::Mailbox(_) => None,
        };
        let mut over = Vec::new();
        election.turns.retain(|scope, turn| {
            let half_open = budget_of(scope).is_some_and(|budget| budget.is_half_open(now));
            let shut = budget_of(scope).is_some_and(|budget| budget.is_shut(now));
            if !half_open && !shut && matches!(turn, Turn::Known(Ballot::Ours { until }) if now < *until) {
                over.push(scope.clone());
            }
            half_open
        });
        self.effects.extend(over.into_iter().map(|scope| Effect::Yield { scope }));
    }

    /// Tenants that waited in vain for their probe's turn to be asked for.
    pub(super) fn ask_turns(&mut self, now: Timestamp, tenants: Vec<Arc<str>>) {
        for tenant in tenants {
            let until = self.ask_turn(now, Scope::Tenant(tenant));
            self.pump_at = self.pump_at.min(until);
        }
    }

    /// Until when an operation waits for the turn of a probe.
    pub(super) fn turn_wait(&self, now: Timestamp, key: OperationKey) -> Option<Timestamp> {
        let election = self.election.as_ref()?;
        let tenant = self.waiting.get(&key)?.tenant.as_ref().and_then(|tenant| self.tenants.get(tenant));
        let until = |budget| match election.vote(now, budget) {
            Vote::Wait(until) => Some(until),
            Vote::Go | Vote::Ask => None,
        };
        [Some(&self.application), tenant].into_iter().flatten().filter_map(until).max()
    }
}
