//! The scheduler: what a program starts, hands emails to, asks and steers.
//!
//! This layer wires the parts and holds no rule. [`Scheduler`] owns the running thing and ends it; [`SchedulerHandle`]
//! is what every other part of a program gets: cheap to clone, usable from any thread and any tokio runtime. No type of
//! the actor framework is in either.
//!
//! ```
//! # use mailweir::transport::{Answer, Attempt, Transport, Verdict};
//! # #[derive(Debug)]
//! # struct Sink;
//! # impl Transport for Sink {
//! #     fn send(&self, _: Attempt) -> futures::future::BoxFuture<'_, Answer> {
//! #         Box::pin(async { Verdict::Accepted.into() })
//! #     }
//! # }
//! use std::time::Duration;
//!
//! use mailweir::{Config, Email, Lane, Outcome, Scheduler, Submission};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let transport = Sink;
//! let scheduler = Scheduler::builder(Config::default(), transport).start().await?;
//! let handle = scheduler.handle();
//!
//! let mime = &b"Subject: Your code\r\n\r\n123456\r\n"[..];
//! let email = Email::from_mime("noreply@contoso.example", ["kim@example.org"], mime)?;
//! let ticket = handle
//!     .submit(
//!         Submission::new("noreply@contoso.example", email)
//!             .lane(Lane::Foreground)
//!             .operation_id("reset-01JAZ8YF4Q")
//!             .deadline(Duration::from_secs(900)),
//!     )
//!     .await?;
//! assert!(matches!(ticket.outcome().await?, Outcome::Accepted { .. }));
//! scheduler.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod ask;
mod builder;
mod error;
mod handle;
mod intake;
mod mint;
mod order;
mod permits;
mod plan;
#[cfg(all(feature = "sim", feature = "test-util"))]
mod rehearse;
#[cfg(feature = "test-util")]
mod sabotage;
mod shutdown;
mod single;
mod steer;
mod widen;

pub use crate::actor::{
    EndedFacts, Forgets, HoldFacts, HoldScope, NoPart, OrderAnswer, OrderEnd, OrderFacts, OrderScope, Permit,
    PermitError, Ticket, TicketError, TripFacts, TryAcquire, WideningFacts,
};
pub use ask::{Events, Missed};
pub use builder::{Scheduler, SchedulerBuilder};
pub use error::{AskError, StartError};
pub use handle::SchedulerHandle;
pub use order::Order;
#[cfg(all(feature = "sim", feature = "test-util"))]
pub use rehearse::{RehearsalError, Rehearsed, rehearse};
pub use shutdown::ShutdownReport;
pub use widen::FIRST_MAX;
