//! Planning: when would a campaign finish, as everything stands now?

use std::sync::Arc;

use super::error::AskError;
use super::handle::SchedulerHandle;
use crate::actor::{Question, SharedItem};
use crate::engine::Lane;
use crate::engine::plan::{EMAIL, Plan};

impl SchedulerHandle {
    /// When would `count` emails finish that were submitted now to this mailbox and lane? Asks for the state of the
    /// mailbox and of the shared scopes, and changes nothing; [`Plan::forecast`] answers, and may be asked again: under
    /// other limits ([`Plan::limit`]), with other mailboxes beside this one ([`Plan::also_from`]), for other emails.
    ///
    /// The tenant is the one that the configuration gives the mailbox. Each email is one of [`EMAIL`], with what the
    /// transport takes for it.
    ///
    /// ```no_run
    /// use mailweir::Lane;
    /// use mailweir::engine::ScopeKind;
    ///
    /// # async fn plan(handle: mailweir::SchedulerHandle) -> Result<(), Box<dyn std::error::Error>> {
    /// let plan = handle.plan(10_000, "noreply@contoso.example", Lane::Background).await?;
    /// let forecast = plan.forecast();
    /// println!("takes {:?}, held back by {:?}", forecast.takes(), forecast.binding());
    /// let faster = plan.clone().limit(ScopeKind::Mailbox, "60 requests / 1m".parse()?).forecast();
    /// println!("with twice the rate: {:?}", faster.takes());
    /// let second = handle.plan(0, "second@contoso.example", Lane::Background).await?;
    /// for sender in plan.also_from(second).forecast().senders {
    ///     println!("{} sends {}", sender.mailbox, sender.count);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A mailbox without an actor gets one, which takes up what the store holds of it and is passivated again: only it
    /// knows what is used of the windows. Where several processes share a store, it takes the mailbox's lease, so ask
    /// the process that owns the mailbox, if one does. The backlog of mailboxes that are not part of the plan does not
    /// count ([`engine::plan`](crate::engine::plan)).
    ///
    /// # Errors
    /// [`AskError`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn plan(&self, count: u64, mailbox: impl Into<Arc<str>>, lane: Lane) -> Result<Plan, AskError> {
        let mailbox = mailbox.into();
        let tenant = self.world.settings.load().config.tenant_of(&mailbox).cloned();
        let snapshot = self.ask(&mailbox, |answer| Question::Snapshot { answer }).await?;
        let shared = self.ask_shared(SharedItem::Snapshot).await?;
        let seat = self.seat(&mailbox).map_err(|none| self.no_seat(&mailbox, &none))?;
        let cost = self.transported(EMAIL);
        Ok(Plan::new(*snapshot, count, lane).cost(cost).tenant(tenant).with_shared(*shared, seat.key()))
    }
}
