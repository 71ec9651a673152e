//! Orders about one operation: cancel, quarantine, release, resolve.

use std::sync::Arc;

use super::error::AskError;
use super::handle::SchedulerHandle;
use super::order::{Order, Takes};
use crate::actor::{OrderAnswer, PersonOrder, Question, Word};
use crate::engine::operation::{OrderWords, Resolution};
use crate::submission;

impl SchedulerHandle {
    /// Stops an operation for good, a quarantined one too. One whose attempt is live, or whose outcome is unknown, stops
    /// when that is over, unless it was accepted; an order that waits for it is kept over a restart of the process.
    ///
    /// What was ordered is in [`OperationRecord::order`](crate::store::OperationRecord::order) from then on, and written
    /// before it is answered.
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Once the operation was found the order stands, whether or not its answer is waited for. While the store is away
    /// the answer does not come: put a timeout around the call.
    pub async fn cancel(&self, id: &str, order: Order) -> Result<OrderAnswer, AskError> {
        self.order(id, Word::Cancel, order, Takes::Nothing).await
    }

    /// Sets an operation aside: it is not sent until it is released. One whose attempt is live is set aside when that
    /// has ended, unless that ends the operation; an unknown one at once, and nobody looks it up any more. Otherwise as
    /// [`SchedulerHandle::cancel`].
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::cancel`].
    pub async fn quarantine(&self, id: &str, order: Order) -> Result<OrderAnswer, AskError> {
        self.order(id, Word::Quarantine, order, Takes::Nothing).await
    }

    /// Lets a quarantined operation go on: back into its lane, behind what waits there, with the same key and the same
    /// bytes. It may have been sent before: whoever releases it answers for that. It is attempted once at least, whatever
    /// it has used. A deadline that has passed needs a new one ([`Order::deadline`]). Otherwise as
    /// [`SchedulerHandle::cancel`].
    ///
    /// # Errors
    /// [`AskError`]; [`AskError::Refused`] when its lane is full, its deadline too early, or its cost more than a limit
    /// can hold. It stays quarantined then.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::cancel`].
    pub async fn release(&self, id: &str, order: Order) -> Result<OrderAnswer, AskError> {
        self.order(id, Word::Release, order, Takes::Deadline).await
    }

    /// Settles an unknown operation by what a person has found out. Accepted: that is its end. Absent: where duplicates
    /// are allowed (`retry.duplicates`) it is sent again, else it is quarantined, and a release sends it. Otherwise as
    /// [`SchedulerHandle::cancel`].
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::cancel`].
    pub async fn resolve(&self, id: &str, resolution: Resolution, order: Order) -> Result<OrderAnswer, AskError> {
        self.order(id, Word::Resolve(resolution), order, Takes::Nothing).await
    }

    async fn order(&self, id: &str, word: Word, order: Order, takes: Takes) -> Result<OrderAnswer, AskError> {
        order.judge(takes)?;
        let deadline_max = self.world.settings.load().config.submit.deadline_max;
        submission::not_too_far(order.deadline.unwrap_or_default(), deadline_max).map_err(AskError::Invalid)?;
        let deadline = order.deadline.map(|span| self.world.clock.now().after(span));
        let note = Arc::new(OrderWords { reason: order.reason, by: order.by, deadline });
        let record = self.known(id).await?;
        let (key, id) = (record.key, record.id);
        let question = |answer| {
            let (id, note) = (Arc::clone(&id), Arc::clone(&note));
            Question::Order(Box::new(PersonOrder { id, key, word, note, answer }))
        };
        self.ask(&record.mailbox, question).await?.map_err(AskError::Refused)
    }
}
