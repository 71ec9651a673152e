//! Holds that are lifted in part, as far as the actors have to do with them: what their engines say is noted, and
//! whoever lifts is woken. What follows from it is the rule's (`engine::widening`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::holds::{HoldFacts, HoldScope, Holds, WideningFacts};
use super::mailbox::MailboxActor;
use super::world::World;
use crate::engine::mailbox::{Hold, HoldTarget, Pass};
use crate::engine::widening::{Course, Stopped, Widening};
use crate::engine::{OperationKey, Scope, Timestamp, TripReason};
use crate::store::{OperationRecord, WideningNote};
use crate::telemetry::HeldScope;

/// How far a throttle has got that stopped a widening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// There was none.
    Nothing,
    /// A mailbox said so.
    Heard,
    /// Every mailbox and every listener was told.
    Told,
    /// So was the store.
    Written,
}

/// What is to be done about a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Lift it: the part went well.
    Lift(HoldScope, OperationKey),
    /// Tell of the throttle that stopped it.
    Stop(HoldScope, OperationKey),
}

impl HoldScope {
    /// What a hold of it stops in a mailbox, where it is a matter of the mailbox's engine.
    pub(crate) fn target(&self, mailbox: &str) -> Option<HoldTarget> {
        match self {
            Self::All => Some(HoldTarget::All),
            Self::Mailbox(id) => (**id == *mailbox).then_some(HoldTarget::Mailbox),
            Self::Tenant(tenant) => Some(HoldTarget::Tenant(Arc::clone(tenant))),
            Self::Campaign(campaign) => Some(HoldTarget::Campaign(Arc::clone(campaign))),
            Self::Operation(_) => None,
        }
    }

    /// Of which scope a hold in a mailbox's engine is.
    fn of(target: HoldTarget, mailbox: &Arc<str>) -> Option<Self> {
        Some(match target {
            HoldTarget::All => Self::All,
            HoldTarget::Mailbox => Self::Mailbox(Arc::clone(mailbox)),
            HoldTarget::Tenant(tenant) => Self::Tenant(tenant),
            HoldTarget::Campaign(campaign) => Self::Campaign(campaign),
            HoldTarget::Operation(_) => return None,
        })
    }

    /// How events name it.
    pub(crate) fn shown(&self) -> HeldScope {
        let (kind, id) = match self {
            Self::All => ("all", None),
            Self::Mailbox(id) => ("mailbox", Some(id)),
            Self::Tenant(id) => ("tenant", Some(id)),
            Self::Campaign(id) => ("campaign", Some(id)),
            Self::Operation(id) => ("operation", Some(id)),
        };
        HeldScope { kind, id: id.map(Arc::clone) }
    }
}

impl HoldFacts {
    /// The hold as a mailbox's engine has to know it.
    pub(crate) fn in_mailbox(&self, mailbox: &str) -> Option<Hold> {
        let pass = match &self.widening {
            Some(widening) if !widening.progress.is_stopped() => Pass::Through(widening.progress.through()),
            Some(_) | None => Pass::Nothing,
        };
        self.scope.target(mailbox).map(|target| Hold { target, until: self.until, pass })
    }
}

impl WideningFacts {
    pub(crate) fn note(&self) -> Box<WideningNote> {
        let stopped = match self.progress.course() {
            Course::Stopped { scope, reason } => Some((scope.clone(), *reason)),
            _ => None,
        };
        Box::new(WideningNote {
            reason: Arc::clone(&self.reason),
            by: self.by.clone(),
            first: self.progress.first(),
            through: self.progress.through(),
            watch_ms: u64::try_from(self.progress.watch().as_millis()).unwrap_or(u64::MAX),
            stopped,
        })
    }

    /// As it was noted. What waits is counted before anything goes on ([`WideningFacts::begin_anew`]).
    pub(crate) fn read(note: &WideningNote) -> Self {
        let watch = std::time::Duration::from_millis(note.watch_ms);
        let (first, through) = (note.first, note.through);
        let (progress, alarm) = match note.stopped.clone() {
            Some((scope, reason)) => (Widening::stopped(first, through, watch, scope, reason), Alarm::Written),
            None => (Widening::begin(Timestamp::EPOCH, (first, through), watch, BTreeMap::new()), Alarm::Nothing),
        };
        Self { reason: Arc::clone(&note.reason), by: note.by.clone(), progress, alarm }
    }

    /// Begins the watch anew, after those of `oldest` that are of the part: nobody was there to see a throttle.
    pub(crate) fn begin_anew(&mut self, now: Timestamp, oldest: &[OperationRecord]) {
        let (first, through) = (self.progress.first(), self.progress.through());
        let waiting = waiting(oldest.iter().filter(|record| record.key <= through));
        self.progress = Widening::begin(now, (first, through), self.progress.watch(), waiting);
    }
}

impl Holds {
    /// Whether anything is lifted in part.
    pub(crate) fn are_widening(&self, now: Timestamp) -> bool {
        self.lock(now).iter().any(|hold| hold.widening.is_some())
    }

    /// The hold of a scope.
    pub(crate) fn find(&self, now: Timestamp, scope: &HoldScope) -> Option<HoldFacts> {
        self.lock(now).iter().find(|hold| hold.scope == *scope).cloned()
    }

    /// What is to be done now, and when there is something to do next.
    pub(crate) fn due(&self, now: Timestamp) -> (Vec<Due>, Option<Timestamp>) {
        let (mut due, mut next) = (Vec::new(), None::<Timestamp>);
        for hold in self.lock(now).iter() {
            let Some(widening) = &hold.widening else { continue };
            let through = widening.progress.through();
            match (widening.alarm, widening.progress.lifts_at()) {
                (Alarm::Heard | Alarm::Told, _) => due.push(Due::Stop(hold.scope.clone(), through)),
                (Alarm::Nothing | Alarm::Written, Some(at)) if at <= now => {
                    due.push(Due::Lift(hold.scope.clone(), through));
                }
                (Alarm::Nothing | Alarm::Written, Some(at)) => next = Some(next.map_or(at, |next| next.min(at))),
                (Alarm::Nothing | Alarm::Written, None) => {}
            }
        }
        (due, next)
    }

    /// Changes what is known of how a hold is lifted in part.
    pub(crate) fn change(&self, now: Timestamp, scope: &HoldScope, change: impl FnOnce(&mut WideningFacts)) {
        let mut holds = self.lock(now);
        let hold = holds.iter_mut().find(|hold| hold.scope == *scope);
        if let Some(widening) = hold.and_then(|hold| hold.widening.as_mut()) {
            change(widening);
        }
    }
}

impl World {
    fn told_of(&self, scope: &HoldScope, change: impl FnOnce(Timestamp, &mut WideningFacts)) {
        let now = self.clock.now();
        self.holds.change(now, scope, |widening| change(now, widening));
        self.widened.notify_one();
    }
}

impl MailboxActor {
    /// So many of those that a hold lets pass still wait here.
    pub(super) fn on_passing(&self, target: HoldTarget, through: OperationKey, left: u64) {
        if let Some(scope) = HoldScope::of(target, self.seat.id()) {
            let mailbox = self.seat.id();
            self.world.told_of(&scope, |now, widening| widening.progress.report(now, through, mailbox, left));
        }
    }

    /// One of those that a hold lets pass ended badly here.
    pub(super) fn on_failed(&self, target: HoldTarget, through: OperationKey, key: OperationKey) {
        let Some(held) = HoldScope::of(target, self.seat.id()) else { return };
        let failed_max = self.world.settings.load().config.resume.failed_max;
        let mailbox = Scope::Mailbox(Arc::clone(self.seat.id()));
        self.world.told_of(&held, |_, widening| {
            if widening.progress.fail(through, key, mailbox, failed_max) == Stopped::Now {
                widening.alarm = Alarm::Heard;
            }
        });
    }

    /// Nothing passes a hold any more here.
    pub(super) fn on_troubled(&self, target: HoldTarget, through: OperationKey, scope: Scope, reason: TripReason) {
        if let Some(held) = HoldScope::of(target, self.seat.id()) {
            self.world.told_of(&held, |_, widening| {
                if widening.progress.stop(through, scope, reason) == Stopped::Now {
                    widening.alarm = Alarm::Heard;
                }
            });
        }
    }
}

/// How many of them wait, by mailbox.
pub(crate) fn waiting<'a>(records: impl Iterator<Item = &'a OperationRecord>) -> BTreeMap<Arc<str>, u64> {
    let mut waiting: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for record in records {
        *waiting.entry(Arc::clone(&record.mailbox)).or_default() += 1;
    }
    waiting
}
