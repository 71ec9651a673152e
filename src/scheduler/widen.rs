//! Lifting a hold in part: the first go, somebody watches, then the rest.
//!
//! Which of them are the first is a question to the store, whose keys rise with submission: everything up to the last of
//! them passes. The hold moves into the mailboxes for that, because there some operations go and others stay. When all of
//! it is lifted it takes the way back: the shared scopes hold once more while the mailboxes let go, so that the rest goes on
//! as the wave that it would have been.

use std::sync::Arc;
use std::time::Duration;

use super::error::AskError;
use super::handle::SchedulerHandle;
use super::order::{Order, Takes};
use super::steer::{judge_hold, replaced, unless_rebuilt};
use crate::actor::{
    Alarm, Due, HoldFacts, HoldScope, NOTES_MAX, OrderEnd, OrderScope, SharedItem, TooMany, Turn, WideningFacts, ended,
    waiting,
};
use crate::engine::mailbox::{HoldTarget, Input};
use crate::engine::shared::Input as SharedInput;
use crate::engine::widening::{Course, Widening};
use crate::engine::{OperationKey, OperationState, Scope};
use crate::store::{NoteChange, OperationQuery, OperationRecord, StoreError};
use crate::submission::InvalidSubmission;
use crate::telemetry::HoldEvent;

/// Most operations that a hold is lifted for first: more is no trial, and each is read from the store.
pub const FIRST_MAX: u32 = 10_000;

/// Pause before the store is asked again to note what became of a hold.
const RETRY: Duration = Duration::from_secs(1);

/// A sleep that ends early by the tick of a timer is not begun again at once.
const SLEEP_MIN: Duration = Duration::from_millis(1);

impl SchedulerHandle {
    /// Lifts a hold in part: the `first` operations that it holds, the oldest by submission over all mailboxes, go on;
    /// the rest stays held. When none of them waits any more and a watch has passed ([`Order::watch`]; without it,
    /// `resume.watch`), the hold lifts by itself. A throttle or a failing provider meanwhile, in a scope that is
    /// concerned, stops that, and so do more than `resume.failed_max` of the first that end badly (rejected, unknown, out
    /// of attempts or time): everything stays held, the event `resume.part.stopped` and [`SchedulerHandle::holds`] say
    /// so, and a person decides: resume, resume another part, or let it end.
    ///
    /// The hold ends when it would have ended anyway, unless the order says otherwise ([`Order::expires_in`]). Called
    /// again, it counts from what waits then. What waits for an instant of its own, and what is submitted meanwhile,
    /// is among the rest. A suspension of the mailbox by the provider is lifted with its hold.
    ///
    /// # Errors
    /// [`AskError::NoHold`] where nothing is held; [`AskError::Invalid`] where `first` is 0 or above [`FIRST_MAX`], or the
    /// watch is shorter than a second, and for a single operation; [`AskError::NotShared`] where several processes share the
    /// store. The hold is as it was.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::hold`].
    pub async fn resume_first(&self, scope: HoldScope, first: u32, order: Order) -> Result<HoldFacts, AskError> {
        if self.world.fleet.is_some() {
            return Err(AskError::NotShared { what: "a hold is lifted in part" });
        }
        judge_hold(&scope)?;
        judge_part(&scope, first)?;
        order.judge(Takes::Watch)?;
        let _one = self.world.orders.lock().await;
        let Some(held) = self.world.holds.find(self.world.clock.now(), &scope) else {
            return Err(AskError::NoHold { scope });
        };
        let oldest = self.oldest_held(&scope, first).await.map_err(AskError::Store)?;
        let now = self.world.clock.now();
        let through = oldest.last().map_or(OperationKey(0), |record| record.key);
        let watch = order.watch.unwrap_or_else(|| self.world.settings.load().config.resume.watch);
        let progress = Widening::begin(now, (oldest.len() as u64, through), watch, waiting(oldest.iter()));
        let widening = WideningFacts { reason: order.reason, by: order.by, progress, alarm: Alarm::Nothing };
        let until = order.expires_in.map_or(held.until, |span| now.after(span));
        let facts = HoldFacts { until, widening: Some(widening), ..held };
        let earlier = self.world.holds.note(now, facts.clone());
        let earlier = earlier.map_err(|TooMany| AskError::Busy { what: "holds in force", max: NOTES_MAX })?;
        let tell = self.tell_part(&facts, &oldest);
        let words = facts.widening.as_ref().map(|part| replaced(&part.reason, part.by.as_ref()));
        let turn = Turn {
            what: OrderScope::Hold(facts.scope.clone()),
            earlier: earlier.as_ref().map(HoldFacts::order),
            later: Some(facts.order()),
            // The hold goes on; a part of it that was let go before has its end.
            end: words.filter(|_| earlier.as_ref().is_some_and(|earlier| earlier.widening.is_some())),
        };
        let change = NoteChange::Keep(facts.note());
        let told = self.give(change, earlier.as_ref().map(HoldFacts::note), turn, tell).await;
        if told.is_err() {
            self.world.holds.take_back(self.world.clock.now(), &facts.scope, earlier);
        } else {
            let (scope, count) = (facts.scope.shown(), oldest.len() as u64);
            self.world.reporter.report(now, HoldEvent::PartStarted { scope, count, watch }.into());
            self.world.widened.notify_one();
        }
        told.map(|()| facts)
    }

    /// The oldest operations that wait behind a hold, in order of submission.
    async fn oldest_held(&self, scope: &HoldScope, first: u32) -> Result<Vec<OperationRecord>, StoreError> {
        let mut query = OperationQuery { limit: first as usize, ..OperationQuery::default() };
        match scope {
            HoldScope::Mailbox(mailbox) => query.mailbox = Some(Arc::clone(mailbox)),
            HoldScope::Tenant(tenant) => query.tenant = Some(Arc::clone(tenant)),
            HoldScope::Campaign(campaign) => query.campaign = Some(Arc::clone(campaign)),
            HoldScope::All | HoldScope::Operation(_) => {}
        }
        let mut oldest = Vec::new();
        for state in [OperationState::Queued, OperationState::Deferred] {
            let query = OperationQuery { state: Some(state), ..query.clone() };
            oldest.extend(self.world.store.operations(query).await?);
        }
        oldest.sort_unstable_by_key(|record| record.key);
        oldest.truncate(first as usize);
        Ok(oldest)
    }

    /// After a start: begins every watch anew, before anything goes on.
    pub(super) async fn count_anew(&self) -> Result<(), StoreError> {
        let now = self.world.clock.now();
        for hold in self.world.holds.all(now) {
            if hold.widening.is_some_and(|widening| !widening.progress.is_stopped()) {
                let oldest = self.oldest_held(&hold.scope, FIRST_MAX).await?;
                self.world.holds.change(now, &hold.scope, |widening| widening.begin_anew(now, &oldest));
            }
        }
        Ok(())
    }

    /// The mailboxes hold what stays before the shared scopes let go.
    async fn tell_part(&self, facts: &HoldFacts, oldest: &[OperationRecord]) -> Result<(), AskError> {
        if let HoldScope::Mailbox(mailbox) = &facts.scope {
            let hold = facts.in_mailbox(mailbox).map(Input::Hold);
            return match hold {
                Some(hold) => unless_rebuilt(self.command(mailbox, hold).await),
                None => Ok(()),
            };
        }
        self.tell_mailboxes(facts).await?;
        for mailbox in waiting(oldest.iter()).into_keys() {
            // One that has left is asked how many wait there, all the same.
            if let (None, Some(hold)) = (self.world.directory.find(&mailbox), facts.in_mailbox(&mailbox)) {
                drop(self.command(&mailbox, Input::Hold(hold)).await);
            }
        }
        let Some(shared) = shared(&facts.scope) else { return Ok(()) };
        let told = self.tell_shared(SharedInput::Resume(shared));
        if let (Err(_), Some(target)) = (&told, target(&facts.scope)) {
            let _ = self.command_all(&Input::Resume(target)).await; // as far as they hear
        }
        told
    }

    /// Has every mailbox hold what a hold stops there.
    async fn tell_mailboxes(&self, facts: &HoldFacts) -> Result<(), AskError> {
        match &facts.scope {
            HoldScope::Mailbox(mailbox) => match facts.in_mailbox(mailbox) {
                Some(hold) => match self.command(mailbox, Input::Hold(hold)).await {
                    Err(busy @ AskError::Busy { .. }) => Err(busy),
                    // It is not here, and begins with what is noted.
                    _ => Ok(()),
                },
                None => Ok(()),
            },
            // It names no mailbox.
            _ => match facts.in_mailbox("") {
                Some(hold) => self.command_all(&Input::Hold(hold)).await,
                None => Ok(()),
            },
        }
    }

    /// Lets what a hold stops in the mailboxes go, as a wave of the shared scopes where it is theirs.
    pub(super) async fn tell_rest(&self, facts: &HoldFacts) -> Result<(), AskError> {
        let Some(target) = target(&facts.scope) else { return Ok(()) };
        let Some(scope) = shared(&facts.scope) else {
            return match &facts.scope {
                HoldScope::Mailbox(mailbox) => unless_rebuilt(self.command(mailbox, Input::Resume(target)).await),
                _ => self.command_all(&Input::Resume(target)).await,
            };
        };
        self.tell_shared(SharedInput::Hold { scope: scope.clone(), until: facts.until })?;
        // Whoever has its answer knows that the mailboxes have been told to ask.
        drop(self.ask_shared(SharedItem::Breakers).await);
        self.command_all(&Input::Resume(target)).await?;
        // They ask at the end of that turn, which is over when they answer again.
        self.command_all(&Input::Wake).await?;
        self.tell_shared(SharedInput::Resume(scope))
    }

    async fn do_due(&self, due: &Due) -> Result<(), AskError> {
        let _one = self.world.orders.lock().await;
        let now = self.world.clock.now();
        let (Due::Lift(scope, through) | Due::Stop(scope, through)) = due;
        let Some(facts) = self.world.holds.find(now, scope) else { return Ok(()) };
        let Some(widening) = facts.widening.as_ref().filter(|it| it.progress.through() == *through) else {
            return Ok(());
        };
        match due {
            Due::Lift(..) if widening.progress.lifts_at().is_some_and(|at| at <= now) => {
                self.lift_rest(&facts, widening).await
            }
            Due::Stop(..) => self.stop_part(&facts, widening).await,
            Due::Lift(..) => Ok(()),
        }
    }

    /// The part went well.
    async fn lift_rest(&self, facts: &HoldFacts, widening: &WideningFacts) -> Result<(), AskError> {
        let now = self.world.clock.now();
        let turn = Turn {
            what: OrderScope::Hold(facts.scope.clone()),
            earlier: Some(facts.order()),
            later: None,
            end: Some(OrderEnd::InPart { reason: Arc::clone(&widening.reason), by: widening.by.clone() }),
        };
        let lifted = self.world.holds.lift(now, &facts.scope);
        let change = NoteChange::Drop(HoldFacts::key(&facts.scope));
        let earlier = lifted.as_ref().map(HoldFacts::note);
        let told = self.give(change, earlier, turn, self.tell_rest(facts)).await;
        if told.is_err() {
            self.world.holds.take_back(self.world.clock.now(), &facts.scope, lifted);
        } else {
            let finished = HoldEvent::PartFinished { scope: facts.scope.shown(), count: widening.progress.first() };
            self.world.reporter.report(now, finished.into());
        }
        told
    }

    /// Writes down how far a part has come, and the hold's end with it.
    async fn keep_part(&self, facts: &HoldFacts) -> Result<(), AskError> {
        let (now, order) = (self.world.clock.now(), facts.order());
        let what = OrderScope::Hold(facts.scope.clone());
        let turn = Turn { what, earlier: Some(order.clone()), later: Some(order), end: None };
        let entered = self.world.ended.enter(now, &self.world.settings.load().config.orders, turn);
        let changes: Vec<_> = [NoteChange::Keep(facts.note())].into_iter().chain(entered.changes()).collect();
        self.keep(changes).await
    }

    /// It did not: everybody stops, then the store and people hear of it.
    async fn stop_part(&self, facts: &HoldFacts, widening: &WideningFacts) -> Result<(), AskError> {
        let now = self.world.clock.now();
        let (scope, progress) = (&facts.scope, &widening.progress);
        let heard = widening.alarm == Alarm::Heard;
        if heard {
            self.tell_mailboxes(facts).await?;
        }
        // Written first: whoever reads the event may rely on it. If it cannot be written they hear of it all the same.
        let written = self.keep_part(facts).await;
        if let (true, Course::Stopped { scope: throttled, reason }) = (heard, progress.course()) {
            let (left, throttled, reason) = (progress.left(), throttled.clone(), *reason);
            let stopped = HoldEvent::PartStopped { scope: scope.shown(), left, throttled, reason };
            self.world.reporter.report(now, stopped.into());
            self.world.holds.change(now, scope, |widening| widening.alarm = Alarm::Told);
        }
        written?;
        self.world.holds.change(now, scope, |widening| widening.alarm = Alarm::Written);
        Ok(())
    }
}

/// Lifts what is to be lifted, stops what is to be stopped and tells of what ends by itself, until the scheduler stops.
pub(super) async fn watch(handle: SchedulerHandle) {
    let world = Arc::clone(&handle.world);
    let work = async {
        loop {
            let now = world.clock.now();
            let ((due, next), (over, ends)) = (world.holds.due(now), world.ended.expired(now));
            for (scope, order) in over {
                world.reporter.report(now, ended(&scope, &order, &OrderEnd::Expired).into());
            }
            let next = next.into_iter().chain(ends).min();
            let mut failed = false;
            for due in &due {
                failed |= handle.do_due(due).await.is_err();
            }
            let wait = match next.map(|next| next.since(world.clock.now()).max(SLEEP_MIN)) {
                wait if failed => Some(wait.map_or(RETRY, |wait| wait.min(RETRY))),
                // What was done may have changed what comes next.
                _ if !due.is_empty() => continue,
                wait => wait,
            };
            let news = world.widened.notified();
            match wait {
                Some(wait) => drop(tokio::time::timeout(wait, news).await),
                None => news.await,
            }
        }
    };
    world.stop.run_until_cancelled(work).await;
}

fn judge_part(scope: &HoldScope, first: u32) -> Result<(), AskError> {
    let invalid = match (scope, first) {
        (HoldScope::Operation(_), _) => InvalidSubmission::Useless { field: "first" },
        (_, 1..=FIRST_MAX) => return Ok(()),
        (_, first) => {
            InvalidSubmission::NotInRange { field: "first", value: first.into(), min: 1, max: FIRST_MAX.into() }
        }
    };
    Err(AskError::Invalid(invalid))
}

/// The shared scope whose hold the whole of it is.
fn shared(scope: &HoldScope) -> Option<Scope> {
    match scope {
        HoldScope::All => Some(Scope::Application),
        HoldScope::Tenant(tenant) => Some(Scope::Tenant(Arc::clone(tenant))),
        HoldScope::Mailbox(_) | HoldScope::Campaign(_) | HoldScope::Operation(_) => None,
    }
}

fn target(scope: &HoldScope) -> Option<HoldTarget> {
    match scope {
        HoldScope::Mailbox(mailbox) => scope.target(mailbox),
        _ => scope.target(""),
    }
}
