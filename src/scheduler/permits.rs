//! Permit mode: capacity for callers who send by themselves.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::handle::{NoSeat, SchedulerHandle};
use super::intake::{RETRY_AFTER, Refused, Why};
use crate::actor::{Admit, Permit, PermitError, PermitReply, PermitRequest, Reply, Seat, TryAcquire, World};
use crate::engine::{Cost, Lane, OperationKey};
use crate::submission;

impl SchedulerHandle {
    /// Waits for leave to make one send of `cost` from `mailbox` now.
    ///
    /// It waits in the same lanes as submissions, at most as long as an operation's default deadline.
    ///
    /// # Errors
    /// [`PermitError`]; `is_retryable` says whether to ask again.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the lane, and the permit if it was just being granted: nothing stays
    /// charged.
    pub async fn acquire(&self, mailbox: impl Into<Arc<str>>, cost: Cost, lane: Lane) -> Result<Permit, PermitError> {
        let (sender, mut answer) = oneshot::channel();
        let (seat, key) = self.request(mailbox.into(), cost, lane, PermitReply::Wait(sender))?;
        let mut patience = Patience { world: &self.world, seat, key, over: false };
        let answer = (&mut answer).await;
        patience.over = true;
        answer.unwrap_or(Err(PermitError::ShuttingDown)).map(Permit::take)
    }

    /// Says whether one send of `cost` may go from `mailbox` now; waits for nothing but the answer.
    ///
    /// # Errors
    /// [`PermitError`], when there is no answer. That there is no permit now is an answer.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::acquire`].
    pub async fn try_acquire(
        &self,
        mailbox: impl Into<Arc<str>>,
        cost: Cost,
        lane: Lane,
    ) -> Result<TryAcquire, PermitError> {
        let (sender, mut answer) = oneshot::channel();
        let (seat, key) = self.request(mailbox.into(), cost, lane, PermitReply::Try(sender))?;
        let mut patience = Patience { world: &self.world, seat, key, over: false };
        let answer = (&mut answer).await;
        patience.over = true;
        answer.unwrap_or(Err(PermitError::ShuttingDown)).map(|answer| match answer {
            TryAcquire::Granted(permit) => TryAcquire::Granted(permit.take()),
            other => other,
        })
    }

    fn request(
        &self,
        mailbox: Arc<str>,
        cost: Cost,
        lane: Lane,
        reply: PermitReply,
    ) -> Result<(Arc<Seat>, OperationKey), PermitError> {
        submission::id("mailbox", &mailbox, submission::MAILBOX_ID_BYTES_MAX).map_err(PermitError::Invalid)?;
        submission::makes_a_request(&cost).map_err(PermitError::Invalid)?;
        let key = self.world.next_key();
        let tenant = self.world.settings.load().config.tenant_of(&mailbox).map(Arc::clone);
        let request = PermitRequest { key, mailbox: Arc::clone(&mailbox), lane, cost, tenant, wait_max: None, reply };
        let seat = self.put(Admit::Permit(Box::new(request))).map_err(|Refused { why, .. }| match why {
            Why::NoSeat(NoSeat::Unknown) => PermitError::UnknownMailbox { mailbox },
            Why::NoSeat(NoSeat::Full) => PermitError::TooManyMailboxes {
                mailboxes_max: self.world.directory.live_max(),
                retry_after: RETRY_AFTER,
            },
            Why::NoSeat(NoSeat::Closed) => PermitError::ShuttingDown,
            Why::Full(depth_max) => PermitError::QueueFull { depth_max, retry_after: RETRY_AFTER },
        })?;
        Ok((seat, key))
    }
}

/// A caller who waits for a permit. If it stops waiting, the actor is told.
struct Patience<'a> {
    world: &'a World,
    seat: Arc<Seat>,
    key: OperationKey,
    over: bool,
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.world.reply(&self.seat, Reply::Withdrawn { key: self.key });
        }
    }
}
