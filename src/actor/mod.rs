//! The actors: where the engines live, and how news reaches them.
//!
//! One actor per mailbox and one for the shared scopes, so that state needs no lock; one supervisor that starts,
//! passivates and replaces them. They live on a thread of their own and do three things per turn: translate news into
//! inputs, perform the effects that come out, arm one timer. An `if` about a limit in here would be a second rule
//! beside the engine's, and nothing would test the two against each other.
//!
//! Callers never send an actor message. They put things into bounded queues beside the actors and ring ([`bell`]):
//! a thousand submissions are one message, a full lane is a typed refusal, and a flood in one lane leaves the other
//! alone. Whatever takes time (the transport, a store on disk) runs on the host's runtime and comes back as news.

mod admissions;
mod admit;
mod answer;
mod aside;
mod batch;
mod bell;
mod callers;
mod charge;
mod claims;
mod desk;
mod ended;
mod entrance;
mod fleet;
mod holds;
mod host;
mod inbound;
mod ingress;
mod journal;
mod kept;
mod lookup;
mod mailbox;
mod news;
mod notes;
mod orders;
mod outlet;
mod past;
mod perform;
mod permit;
mod question;
mod rebuild;
mod reply;
mod restarts;
mod room;
mod seat;
mod settings;
mod shared;
mod shared_item;
mod slip;
mod span;
mod supervisor;
mod suspects;
mod ticket;
mod tidy;
mod timer;
mod unfit;
mod vigil;
mod widen;
mod world;

pub use ended::{EndedFacts, OrderEnd, OrderFacts, OrderScope};
pub use holds::{HoldFacts, HoldScope, TripFacts, WideningFacts};
pub use permit::{Permit, PermitError, TryAcquire};
pub use question::OrderAnswer;
pub use settings::{Forgets, NoPart};
pub use ticket::{Ticket, TicketError};

pub(crate) use bell::Rung;
pub(crate) use ended::{Turn, ended};
pub(crate) use entrance::{Admit, Handed, PermitReply, PermitRequest, TurnedAway};
pub(crate) use fleet::Membership;
#[cfg(feature = "test-util")]
pub(crate) use host::on_current_thread;
pub(crate) use host::on_own_thread;
pub(crate) use ingress::{NotTaken, QUESTIONS_MAX};
pub(crate) use notes::{NOTES_MAX, TooMany};
pub(crate) use orders::{PersonOrder, Word};
pub(crate) use question::{Drained, Question};
pub(crate) use reply::Reply;
pub(crate) use seat::{Found, NoRoom, Seat};
pub(crate) use settings::Settings;
pub(crate) use shared_item::{NAME as SHARED_NAME, SharedItem};
pub(crate) use supervisor::Errand;
pub(crate) use ticket::{BatchReply, TicketReply};
pub(crate) use widen::{Alarm, Due, waiting};
pub(crate) use world::{ASKED_MAX, Full, Parts, World};
