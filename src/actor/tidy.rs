//! What a mailbox gives back when it has been quiet for a while.
//!
//! Buffers are kept between turns, because a busy mailbox would ask for them again at once; kept by a hundred thousand
//! idle ones they would be most of the process. Passivation gives back everything, but comes much later.

use std::time::Duration;

use super::mailbox::MailboxActor;
use crate::engine::mailbox::Input;

/// Quiet for this long: a minute's window has been forgotten by then too.
pub(super) const TIDY_AFTER: Duration = Duration::from_secs(90);

impl MailboxActor {
    /// Gives back what an idle mailbox does not need.
    pub(super) fn tidy(&mut self) {
        // Its engine drops the windows in which nothing counts any more.
        self.step(Input::Wake);
        self.turn = Default::default();
        self.effects = Vec::new();
        self.jobs = Vec::new();
        self.to_shared = Vec::new();
        self.postponed = Vec::new();
        self.desk.shrink();
        self.journal.shrink();
        self.seat.ingress().shrink();
    }
}
