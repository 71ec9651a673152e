//! One mailbox: its budget, its lanes, its operations.
//!
//! A fixed set of verbs: [`Mailbox::handle`] takes one input, [`Mailbox::poll_effect`] hands out what the shell is to
//! do, in order, and [`Mailbox::poll_deadline`] names the one instant at which to come back with [`Input::Wake`].
//! [`Mailbox::check`], [`Mailbox::explain`] and [`Mailbox::facts`] look and change nothing.
//!
//! Steps that only the shell can take (asking the shared scopes, writing the attempt row, sending) are effects whose
//! answers come back as inputs. The budget is charged from the moment of the decision, so nothing that happens in
//! between can spend the same slot twice.
//!
//! Not promised: order among operations of different tenants, and among those of one tenant beyond the bounded
//! bypass; a wake-up at exactly the named deadline (later is safe, earlier is harmless).

mod deadlines;
mod entry;
mod facts;
mod finish;
mod hold;
mod inputs;
mod io;
mod late;
mod look;
mod names;
mod pump;
mod record;
mod rested;
mod restore;
mod slab;
mod snapshot;
mod standing;
mod steer;
mod table;
mod tenured;
#[cfg(test)]
mod tests;
mod trouble;
mod unclaimed;
mod unknown;
mod vigil;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use facts::{MailboxFacts, WindowFacts};
pub use hold::{Hold, HoldTarget, Pass};
pub use io::{AskShared, Effect, Input, Outcome, Refusal};
pub use look::{Coming, check_cost};
pub use record::Record;
pub use rested::Rested;
pub use restore::{PastAttempt, RestoredOperation};
pub use snapshot::Snapshot;
pub use unclaimed::ClaimFailure;
pub use vigil::Vigil;

pub(in crate::engine) use hold::trouble;
pub(in crate::engine) use snapshot::{Line, Stage};

use self::hold::Held;
use self::table::Table;
use super::budget::{Budget, Rules};
use super::constraint::{Constraint, Wall};
use super::event::Event;
use super::lane::Lane;
use super::lanes::Floor;
use super::leaves::Leaves;
use super::operation::OperationKey;
use super::policy::MailboxPolicy;
use super::scope::Scope;
use super::time::Timestamp;

/// One mailbox's engine.
#[derive(Clone, Debug)]
pub struct Mailbox {
    policy: Arc<MailboxPolicy>,
    ask: AskShared,
    budget: Budget,
    table: Table,
    floor: Floor,
    /// Holds of operations by what they are; the mailbox's own is the budget's.
    holds: Vec<Held>,
    /// What binds the operations that the shared scopes make wait.
    shared_waits: BTreeMap<OperationKey, SharedWait>,
    /// How many hold a slot here while the shared scopes are asked.
    reserving: u32,
    /// Grants that came while such a slot was in the way, in the order they came.
    late: Vec<OperationKey>,
    effects: VecDeque<Effect>,
    events: Vec<Event>,
    /// Time never runs backwards for the engine, whatever the shell's clock does.
    now: Timestamp,
    /// When the next send may be possible.
    pump_at: Timestamp,
    /// When what this process may do changes by itself.
    tenure_at: Timestamp,
    /// Whether some of what waits may be another owner's.
    withholds: bool,
    /// Whether this input may have changed what binds the next send.
    stirred: bool,
    /// Lanes that were told to be full and have not emptied by a tenth since.
    full: [bool; 2],
    /// Whether the shared scopes were last told, without having been asked, that the provider is out of reach.
    unreached: bool,
    /// When and by which shared scope everything was last stopped. What was claimed before does not leave any more.
    shared_trouble: Option<Box<(Timestamp, Scope)>>,
    /// The last wait that was told, so that one wait is one event.
    told: Option<(OperationKey, Wall)>,
    /// The operation that is being dealt with: whose fault a panic is.
    at_work: Option<OperationKey>,
    /// What the attempt that is being concluded leaves charged: told with its first record.
    leaves: Option<Leaves>,
}

/// A wait at the shared scopes. While it lasts, nothing of the same tenant and lane overtakes it here.
#[derive(Clone, Debug)]
struct SharedWait {
    queue: (Lane, Option<Arc<str>>),
    constraint: Constraint,
}

impl Mailbox {
    /// An engine with nothing in it.
    #[must_use]
    pub fn new(id: Arc<str>, policy: Arc<MailboxPolicy>) -> Self {
        Self {
            budget: Budget::new(Scope::Mailbox(id), &policy.scope),
            table: Table::default(),
            policy,
            ask: AskShared::default(),
            floor: Floor::default(),
            holds: Vec::new(),
            shared_waits: BTreeMap::new(),
            reserving: 0,
            late: Vec::new(),
            effects: VecDeque::new(),
            events: Vec::new(),
            now: Timestamp::EPOCH,
            pump_at: Timestamp::NEVER,
            tenure_at: Timestamp::NEVER,
            withholds: false,
            stirred: true,
            full: [false, false],
            unreached: false,
            shared_trouble: None,
            told: None,
            at_work: None,
            leaves: None,
        }
    }

    /// Takes one input. Drain [`Mailbox::poll_effect`] afterwards, then arm one timer for [`Mailbox::poll_deadline`].
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = self.now.max(now);
        let now = self.now;
        self.at_work = input.key();
        self.stirred = true; // until the input says otherwise
        self.take(now, input);
        self.sweep(now);
        self.plan_wave(now);
        self.use_late_grants(now);
        self.pump(now);
        self.remember(now);
        if !self.holds.is_empty() {
            self.tell_passing();
        }
        (self.at_work, self.leaves) = (None, None);
        self.tell_events();
        // A deadline that is not ahead would have the shell come back for ever.
        debug_assert!(self.poll_deadline().is_none_or(|at| at > now), "a deadline that has passed is still named");
    }

    /// What has happened so far is told before what comes next.
    fn tell_events(&mut self) {
        if !self.events.is_empty() {
            self.effects.extend(self.events.drain(..).map(Effect::Event));
        }
    }

    /// The operation that was being dealt with when the engine panicked. `None` otherwise, and where it was none.
    #[must_use]
    pub const fn at_work(&self) -> Option<OperationKey> {
        self.at_work
    }

    /// The next effect to perform; `None` when the input has been worked off.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to come back with [`Input::Wake`], if nothing happens before.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Timestamp> {
        let mut next = self.pump_at.min(self.table.next_instant());
        if !self.table.is_empty() {
            next = next.min(self.tenure_at); // an empty mailbox need not wake to learn that it may send
        }
        if let Some(at) = self.budget.deadline() {
            next = next.min(at);
        }
        for held in &self.holds {
            next = next.min(held.hold.until);
        }
        (next != Timestamp::NEVER).then_some(next)
    }

    /// Whether the actor may be passivated: nothing waits, is in flight, is held or in trouble. Charges that still
    /// count do not keep it awake: keep the engine, or ask [`Mailbox::is_blank`].
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.table.is_empty()
            && self.effects.is_empty()
            && self.holds.is_empty()
            && self.budget.in_flight() == 0
            && !self.budget.is_troubled(self.now)
    }

    /// Whether the engine may be dropped without losing anything: idle, and no charge counts any more.
    #[must_use]
    pub fn is_blank(&self, now: Timestamp) -> bool {
        self.is_idle() && self.budget.is_blank(now)
    }

    /// Has the shell keep what the breaker remembers, when that has changed.
    fn remember(&mut self, now: Timestamp) {
        if let Some(memory) = self.budget.memory_news(now) {
            self.effects.push_back(Effect::Remember(memory));
        }
    }

    /// Nothing is here and nothing has been for a while: buffers, and windows in which nothing counts any more, go.
    fn rest(&mut self, now: Timestamp) {
        self.budget.shrink(now, Self::rules(&self.policy));
        self.table.rest();
        (self.effects, self.events) = (VecDeque::new(), Vec::new());
    }

    fn rules(policy: &MailboxPolicy) -> Rules<'_> {
        Rules::from(policy)
    }
}
