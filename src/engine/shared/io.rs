//! What goes into the engine of the shared scopes and what comes out.

use std::sync::Arc;

use super::election::Ballot;
use crate::engine::breaker::BreakerMemory;
use crate::engine::constraint::Constraint;
use crate::engine::cost::Cost;
use crate::engine::event::{Event, TripReason};
use crate::engine::lane::Lane;
use crate::engine::mailbox::AskShared;
use crate::engine::operation::OperationKey;
use crate::engine::policy::SharedPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;
use crate::engine::verdict::Answer;

/// The shell's number for a mailbox, unique among the live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxKey(pub u32);

/// Who asks: one operation of one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker {
    /// The mailbox.
    pub mailbox: MailboxKey,
    /// Its operation.
    pub key: OperationKey,
}

/// One thing that happened at the shared scopes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// A mailbox that holds its own slot asks for the tenant's and the application's.
    Reserve {
        /// Who.
        asker: Asker,
        /// Its lane.
        lane: Lane,
        /// Its tenant.
        tenant: Option<Arc<str>>,
        /// What it takes.
        cost: Cost,
    },
    /// Nothing was sent on this reservation, or it is no longer waited for.
    Return {
        /// Who.
        asker: Asker,
    },
    /// An attempt ended, on a reservation or, while nobody had to ask, without one.
    Settle {
        /// Who.
        asker: Asker,
        /// Its tenant.
        tenant: Option<Arc<str>>,
        /// When the attempt started.
        sent_at: Timestamp,
        /// How it ended.
        answer: Answer,
    },
    /// A mailbox's actor is gone or was rebuilt: what it waited for is dropped, what it held stays charged.
    MailboxGone(MailboxKey),
    /// An operator opens a breaker.
    Trip {
        /// Which.
        scope: Scope,
        /// Until when.
        until: Timestamp,
    },
    /// Another process met a cooldown of a scope: the later end counts.
    Cooled {
        /// Which.
        scope: Scope,
        /// Until when.
        until: Timestamp,
    },
    /// Whose turn it is to probe a scope: the answer to [`Effect::Elect`].
    Elected {
        /// Which.
        scope: Scope,
        /// Whose.
        ballot: Ballot,
    },
    /// An operator closes it.
    CloseBreaker(Scope),
    /// An operator holds a scope.
    Hold {
        /// Which.
        scope: Scope,
        /// Until when.
        until: Timestamp,
    },
    /// An operator lifts the hold.
    Resume(Scope),
    /// New limits and numbers.
    Reconfigure(Arc<SharedPolicy>),
    /// A deadline has come.
    Wake,
}

/// One thing for the shell to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Every shared scope has room and is charged.
    Grant(Asker),
    /// Not now. A grant follows by itself.
    Wait {
        /// Who.
        asker: Asker,
        /// Not before, by what is known now.
        until: Timestamp,
        /// What binds.
        constraint: Constraint,
    },
    /// Never: it costs more than a limit can hold. Nothing is charged, and nothing waits.
    Deny(Asker),
    /// Keep durably what the breaker of a scope remembers, in place of what was kept; `None`: nothing any more.
    Remember {
        /// Whose breaker.
        scope: Scope,
        /// What it remembers, until [`BreakerMemory::ends_at`].
        memory: Option<Box<BreakerMemory>>,
    },
    /// Tell every mailbox that a scope was throttled, or fails: holds may let nothing pass any more.
    Troubled {
        /// Which scope.
        scope: Scope,
        /// Which of the two.
        reason: TripReason,
    },
    /// Ask whose turn it is to probe a scope, for [`BreakerPolicy::probe_timeout`], and answer with [`Input::Elected`].
    ///
    /// [`BreakerPolicy::probe_timeout`]: crate::engine::policy::BreakerPolicy::probe_timeout
    Elect {
        /// Which.
        scope: Scope,
    },
    /// This process needs its turn no longer.
    Yield {
        /// Of which scope.
        scope: Scope,
    },
    /// Tell every mailbox whether to ask.
    Announce(AskShared),
    /// Tell the world.
    Event(Event),
}
