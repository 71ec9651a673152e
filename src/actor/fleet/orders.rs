//! What is ordered here about mailboxes that others own, and what they order about all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::Membership;
use crate::actor::holds::{HoldFacts, HoldScope, TripFacts};
use crate::actor::journal::guard;
use crate::actor::reply::Reply;
use crate::actor::shared_item::SharedItem;
use crate::actor::world::World;
use crate::clock::Clock;
use crate::engine::Scope;
use crate::engine::mailbox::{Hold, HoldTarget, Input};
use crate::engine::shared::Input as SharedInput;
use crate::store::fleet::{News, Obeyed, Order, OrderBody, OrderId};

/// Orders whose answers are awaited.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<BTreeMap<OrderId, oneshot::Sender<Obeyed>>>);

impl Asked {
    fn wait(&self, id: OrderId) -> oneshot::Receiver<Obeyed> {
        let (sender, answer) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        answer
    }

    pub(super) fn answer(&self, id: OrderId, answer: Obeyed) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let _ = waiting.map(|waiting| waiting.send(answer));
    }

    fn forget(&self, id: OrderId) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
    }
}

impl Membership {
    fn order(&self, mailbox: &Arc<str>, body: OrderBody) -> Order {
        let id = OrderId(fastrand::u128(..));
        let until = self.clock.to_store(self.clock.now().after(self.policy.order_max));
        Order { id, mailbox: Arc::clone(mailbox), until, body }
    }

    /// Gives an order to a mailbox's owner, again and again until it is answered; `None`: nobody obeyed in time.
    pub(in crate::actor) async fn give(&self, mailbox: &Arc<str>, body: OrderBody) -> Option<Obeyed> {
        let order = self.order(mailbox, body);
        let (id, until) = (order.id, self.clock.now().after(self.policy.order_max));
        let mut answer = self.asked.wait(id);
        while self.clock.now() < until {
            // It may have been posted all the same, or be posted the next time.
            drop(guard(|| self.api.post(vec![order.clone()])).await);
            if let Ok(answered) = tokio::time::timeout(self.policy.poll_every, &mut answer).await {
                return answered.ok();
            }
        }
        self.asked.forget(id);
        None
    }

    pub(super) fn on_answer(&self, order: OrderId, answer: Obeyed) {
        self.asked.answer(order, answer);
    }

    /// Gives an order that nobody here waits for.
    pub(in crate::actor) fn hand_on(self: &Arc<Self>, mailbox: Arc<str>, body: OrderBody) {
        let fleet = Arc::clone(self);
        self.host.spawn(async move {
            let _nobody_waits = fleet.give(&mailbox, body).await;
        });
    }

    /// Orders about shared scopes changed: the others have to read them.
    pub(crate) fn ordered(&self) {
        self.tell(News::Notes);
    }

    /// Obeys what others have ordered about shared scopes, and forgets what they have lifted.
    pub(super) async fn read_notes(&self, world: &Arc<World>) {
        // Not in the middle of an order of our own, nor before one that ends while we read: what we have noted would not
        // be in what we read, and be taken for lifted.
        let Ok(_one) = world.orders.try_lock() else { return };
        let Ok(notes) = guard(|| self.api.notes()).await else { return };
        let now = world.clock.now();
        world.ended.learn(now, &notes);
        world.widened.notify_one();
        self.rest_by_notes(world, &notes);
        let holds: Vec<HoldFacts> = notes.iter().filter_map(HoldFacts::read).filter(|hold| hold.until > now).collect();
        let trips: Vec<TripFacts> = notes.iter().filter_map(TripFacts::read).filter(|trip| trip.until > now).collect();
        for gone in world.holds.all(now).into_iter().filter(|old| !holds.iter().any(|new| new.scope == old.scope)) {
            drop(world.holds.lift(now, &gone.scope));
            resume(world, &gone.scope);
        }
        for hold in holds {
            let known = world.holds.all(now).into_iter().any(|old| old == hold);
            if !known && world.holds.note(now, hold.clone()).is_ok() {
                obey(world, &hold);
            }
        }
        let mailbox = |scope: &Scope| matches!(scope, Scope::Mailbox(_));
        let old = world.trips.all(now).into_iter().filter(|trip| !mailbox(&trip.scope));
        for gone in old.filter(|old| !trips.iter().any(|new| new.scope == old.scope)) {
            drop(world.trips.lift(now, &gone.scope));
            world.shared.push(SharedItem::Input(SharedInput::CloseBreaker(gone.scope)));
        }
        for trip in trips {
            let known = world.trips.all(now).into_iter().any(|old| old == trip);
            if !known && world.trips.note(now, trip.clone()).is_ok() {
                world.shared.push(SharedItem::Input(SharedInput::Trip { scope: trip.scope, until: trip.until }));
            }
        }
    }
}

fn obey(world: &World, hold: &HoldFacts) {
    let until = hold.until;
    let order = |target| Input::Hold(Hold::new(target, until));
    match &hold.scope {
        HoldScope::All => {
            world.shared.push(SharedItem::Input(SharedInput::Hold { scope: Scope::Application, until }));
        }
        HoldScope::Tenant(tenant) => {
            let scope = Scope::Tenant(Arc::clone(tenant));
            world.shared.push(SharedItem::Input(SharedInput::Hold { scope, until }));
        }
        HoldScope::Campaign(campaign) => to_all(world, &order(HoldTarget::Campaign(Arc::clone(campaign)))),
        HoldScope::Mailbox(mailbox) => to_one(world, mailbox, order(HoldTarget::Mailbox)),
        // Whoever gave it told the owner.
        HoldScope::Operation(_) => {}
    }
}

fn resume(world: &World, scope: &HoldScope) {
    match scope {
        HoldScope::All => {
            to_all(world, &Input::Unsuspend);
            world.shared.push(SharedItem::Input(SharedInput::Resume(Scope::Application)));
        }
        HoldScope::Tenant(tenant) => {
            world.shared.push(SharedItem::Input(SharedInput::Resume(Scope::Tenant(Arc::clone(tenant)))));
        }
        HoldScope::Campaign(campaign) => to_all(world, &Input::Resume(HoldTarget::Campaign(Arc::clone(campaign)))),
        HoldScope::Mailbox(mailbox) => to_one(world, mailbox, Input::Resume(HoldTarget::Mailbox)),
        HoldScope::Operation(_) => {}
    }
}

fn to_one(world: &World, mailbox: &str, input: Input) {
    if let Some(seat) = world.directory.find(mailbox) {
        world.reply(&seat, Reply::Shared(input));
    }
}

fn to_all(world: &World, input: &Input) {
    for seat in world.directory.all() {
        world.reply(&seat, Reply::Shared(input.clone()));
    }
}
