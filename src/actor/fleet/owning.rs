//! An actor on its way to owning its mailbox, owning it, and losing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Membership;
use super::inbox::Mail;
use super::late::LateClaims;
use super::route::Route;
use crate::actor::journal::guard;
use crate::actor::mailbox::{MailboxActor, Mode};
use crate::actor::news::News;
use crate::actor::rebuild::RECOVER_RETRY;
use crate::actor::reply::Reply;
use crate::actor::world::World;
use crate::email::Email;
use crate::engine::mailbox::Input;
use crate::engine::tenure::{Reach, Tenure};
use crate::engine::{OperationState, Timestamp};
use crate::store::fleet::{Acquired, Landing, Lease, OrderBody};
use crate::store::{Claim, Store, StoreError};

/// What an actor knows of its hold on the mailbox. One whose process is alone knows nothing.
#[derive(Debug)]
pub(in crate::actor) struct Owning {
    /// The store as this actor uses it.
    pub(in crate::actor) store: Arc<dyn Store>,
    pub(in crate::actor) lease: Option<Lease>,
    /// What the engine was last told.
    pub(super) tenure: Option<Tenure>,
    /// The mailbox was asked for, and there is no answer yet.
    acquiring: bool,
    /// The inbox is being read.
    pub(super) reading: bool,
    /// `None` where there was nothing to read yet: most mailboxes are used by one process.
    mail: Option<Box<Mail>>,
    pub(in crate::actor) late: LateClaims,
    /// The store has told that the lease does not hold.
    fenced: Arc<AtomicBool>,
    /// What is being stored was on its way when the mailbox was lost: its new owner may not have seen it.
    pub(in crate::actor) overtaken: bool,
}

impl Owning {
    pub(in crate::actor) fn new(world: &World) -> Self {
        let fenced = Arc::default();
        Self {
            store: routed(world, None, &fenced),
            lease: None,
            tenure: None,
            acquiring: false,
            reading: false,
            mail: None,
            late: LateClaims::default(),
            fenced,
            overtaken: false,
        }
    }

    pub(super) fn mail(&mut self) -> &mut Mail {
        self.mail.get_or_insert_default()
    }

    /// Whether it is not known yet whose the mailbox is.
    pub(in crate::actor) const fn is_acquiring(&self) -> bool {
        self.acquiring
    }

    fn take(&mut self, world: &World, lease: Option<Lease>) {
        self.store = routed(world, lease.clone(), &self.fenced);
        (self.lease, self.tenure) = (lease, None);
    }
}

fn routed(world: &World, lease: Option<Lease>, fenced: &Arc<AtomicBool>) -> Arc<dyn Store> {
    match &world.fleet {
        Some(fleet) => Arc::new(Route::new(&world.store, fleet.api(), lease, fenced)),
        None => Arc::clone(&world.store),
    }
}

impl MailboxActor {
    /// Asks for the mailbox, if it is not owned and was not asked for.
    pub(in crate::actor) fn acquire(&mut self) {
        let Some(fleet) = self.world.fleet.clone() else { return };
        if self.own.lease.is_some() || self.own.acquiring || self.mode == Mode::Held || self.drain.is_some() {
            return;
        }
        (self.own.acquiring, self.recover_at) = (true, None);
        let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
        self.world.host.spawn(async move {
            let asked_at = world.clock.now();
            let (lapsed, mailboxes) = (fleet.lapsed(asked_at), [Arc::clone(seat.id())].into());
            let answer = guard(|| fleet.api.acquire(fleet.member, fleet.terms, lapsed, mailboxes)).await;
            let answer = answer.and_then(|mut answers| {
                let reason = || StoreError::Unavailable { reason: "a lease was not answered".to_owned() };
                answers.pop().ok_or_else(reason)
            });
            world.reply(&seat, Reply::Acquired { asked_at, answer });
        });
    }

    pub(in crate::actor) fn on_acquired(&mut self, asked_at: Timestamp, answer: Result<Acquired, StoreError>) {
        self.own.acquiring = false;
        let Some(fleet) = self.world.fleet.clone() else { return };
        let lease = answer.as_ref().ok().and_then(|acquired| fleet.hold(self.seat.id(), asked_at, acquired));
        match (lease, answer) {
            (Some(lease), _) => {
                self.own.take(&self.world, Some(lease));
                self.read(Mode::Reading);
            }
            (None, answer) => {
                self.begin_remote(&fleet);
                // Otherwise its release is told, or it is found to be nobody's.
                self.recover_at = answer.is_err().then(|| self.now.after(RECOVER_RETRY));
            }
        }
    }

    /// The first thing that a new engine hears.
    pub(in crate::actor) fn begin_tenure(&mut self) {
        let tenure =
            self.own.lease.as_ref().zip(self.world.fleet.as_ref()).and_then(|(lease, fleet)| fleet.tenure(lease));
        self.own.tenure = tenure;
        if let Some(tenure) = tenure {
            let now = self.now;
            self.guarded(None, |engine| engine.begin_tenure(now, tenure));
        }
    }

    /// Tells the engine what it may do, if that has changed. Each turn begins with it.
    pub(in crate::actor) fn look_at_tenure(&mut self) {
        let (Some(fleet), Some(lease)) = (self.world.fleet.clone(), self.own.lease.clone()) else { return };
        let Some(tenure) = fleet.tenure(&lease) else { return self.lose() };
        if self.mode != Mode::Live {
            return;
        }
        if self.own.tenure != Some(tenure) {
            let before = self.own.tenure.replace(tenure).map(|before| before.reach);
            if tenure.reach == Reach::CutOff {
                self.store_degraded();
            } else if before == Some(Reach::CutOff) {
                self.store_recovered();
            }
            self.step(Input::Own(tenure));
        }
        self.read_inbox();
    }

    /// The mailbox is another one's. The engine stops at once; its queue is in the store, and attempts that are out tell
    /// the new owner how they ended.
    pub(in crate::actor) fn lose(&mut self) {
        let (Some(fleet), Some(lease)) = (self.world.fleet.clone(), self.own.lease.take()) else { return };
        fleet.let_go(&lease);
        self.engine = None;
        self.end_vigil();
        self.without_engine();
        self.given.clear();
        self.own.take(&self.world, None);
        self.own.overtaken = self.journal.is_busy();
        self.begin_remote(&fleet);
        (self.recover_when_written, self.recover_at) = (false, None);
        for (id, listeners) in self.desk.surrender() {
            fleet.wait_all(&id, listeners);
        }
        // What was sent and could not be written: the new owner may have it waiting still.
        for record in self.journal.unwritten(OperationState::Accepted) {
            let attempt = self.own.late.attempt(record.key).unwrap_or(record.attempts);
            let body = OrderBody::Landed { key: record.key, attempt, landing: Landing::Accepted };
            let (fleet, mailbox) = (Arc::clone(&fleet), Arc::clone(self.seat.id()));
            self.journal.tell_when_written(News::Landed { fleet, mailbox, body });
        }
    }

    fn begin_remote(&mut self, fleet: &Membership) {
        fleet.set_elsewhere(self.seat.id());
        self.mode = Mode::Remote;
        for reply in std::mem::take(&mut self.postponed) {
            self.on_remote_reply(reply);
        }
    }

    /// Whether the store has told that the lease does not hold.
    pub(in crate::actor) fn is_fenced(&self) -> bool {
        self.own.lease.is_some() && self.own.fenced.swap(false, Ordering::AcqRel)
    }

    /// Claims came too late. Where a row was written before that, nothing was sent on it.
    pub(in crate::actor) fn on_fenced(&mut self, claims: Vec<Claim>, answer: Result<Vec<Option<Email>>, StoreError>) {
        self.lose();
        for (claim, email) in claims.into_iter().zip(answer.unwrap_or_default()) {
            if email.is_some() {
                let (key, attempt, landing) = (claim.key, claim.attempt, Landing::Absent);
                self.hand_on(OrderBody::Landed { key, attempt, landing });
            }
        }
    }

    /// Gives the mailbox back: nothing is under way in it.
    pub(in crate::actor) fn give_back(&mut self) {
        let (Some(fleet), Some(lease)) = (self.world.fleet.clone(), self.own.lease.take()) else { return };
        fleet.let_go(&lease);
        self.world.host.spawn(async move { release(&fleet, lease).await });
    }
}

async fn release(fleet: &Membership, lease: Lease) {
    // What is not released lapses.
    drop(guard(|| fleet.api.release([lease].into())).await);
}
