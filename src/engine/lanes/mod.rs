//! How foreground and background share a window, and the order of what waits in one lane.
//!
//! A spent slot of a window cannot be taken back; it returns one window later. So foreground does not need a *part*
//! of the window, it needs free slots now and a steady stream of returning ones. [`Share`] gives it both: a reserve
//! that follows the bursts foreground has needed, and a background that is paced, so that its slots return one by
//! one. A fixed cap gives half of the window away and still lets background burn the other half in its first minutes;
//! it is there ([`LanesMode::HardCap`](crate::engine::policy::LanesMode)), but it is not the default.
//!
//! [`Floor`] is the one exception to strict foreground priority: it keeps background from starving.
//! [`LaneQueue`] is the order inside a lane: fair between tenants, first in first out within one.
//!
//! Not promised: that foreground never waits. A burst beyond the reserve waits at the pace of background.

mod decay;
mod floor;
mod link;
mod meter;
mod order;
mod queue;
mod ring;
mod share;
mod slab;
mod steady;
mod terms;

pub(crate) use decay::Decay;
pub use floor::Floor;
pub(crate) use link::{Link, Links, NIL};
pub(crate) use meter::clamp_of;
pub(crate) use order::Order;
pub use queue::{LaneQueue, Queued, Usable};
pub use share::Share;
pub(crate) use steady::Steady;
pub(crate) use terms::Terms;
