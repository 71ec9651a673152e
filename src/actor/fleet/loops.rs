//! What a member does by itself, on the host's runtime: renew, listen, tell, take up what nobody owns, and look behind the
//! news.

use std::sync::Arc;
use std::time::Duration;

use super::Membership;
use crate::actor::journal::guard;
use crate::actor::reply::Reply;
use crate::actor::supervisor::Errand;
use crate::actor::world::World;
use crate::engine::spread::fnv1a;
use crate::store::StoreError;
use crate::store::fleet::News;

/// Runs all of it until the scheduler stops.
pub(crate) fn run(world: &Arc<World>, fleet: &Arc<Membership>) {
    let host = &world.host;
    host.spawn(renew(Arc::clone(world), Arc::clone(fleet)));
    host.spawn(listen(Arc::clone(world), Arc::clone(fleet)));
    host.spawn(tell(Arc::clone(world), Arc::clone(fleet)));
    host.spawn(adopt(Arc::clone(world), Arc::clone(fleet)));
    host.spawn(look(Arc::clone(world), Arc::clone(fleet)));
}

/// Sleeps; `None`: the scheduler has stopped.
async fn pause(world: &World, span: Duration) -> Option<()> {
    // What a server tells may be lost, so it is asked again after a span; a stop cuts the span short.
    world.stop.run_until_cancelled(tokio::time::sleep(span)).await
}

fn has_mailbox_look(world: &World, mailbox: &str, reply: Reply) {
    if let Some(seat) = world.directory.find(mailbox) {
        world.reply(&seat, reply);
    }
}

async fn renew(world: Arc<World>, fleet: Arc<Membership>) {
    loop {
        let mut next = fleet.policy.renew_every;
        if renew_all(&world, &fleet).await.is_err() {
            next = fleet.policy.retry_after;
            fleet.on_unreachable().iter().for_each(|mailbox| has_mailbox_look(&world, mailbox, Reply::Look));
        }
        // Sooner, where a lease is in doubt.
        let sooner = tokio::time::timeout(next, fleet.doubt.notified());
        if world.stop.run_until_cancelled(sooner).await.is_none() {
            return;
        }
    }
}

async fn renew_all(world: &World, fleet: &Membership) -> Result<(), StoreError> {
    let leases = fleet.leases();
    let mut rest = leases.as_slice();
    loop {
        let (batch, later) = rest.split_at(rest.len().min(fleet.batch_max()));
        let asked = fleet.clock.ask();
        let call = guard(|| fleet.api.renew(fleet.member, fleet.terms(), batch.into()));
        let renewals = tokio::time::timeout(fleet.policy.renew_every, call)
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable { reason: "renewing leases took too long".to_owned() }))?;
        for mailbox in fleet.on_renewed(asked, batch, &renewals) {
            has_mailbox_look(world, &mailbox, Reply::Look);
        }
        if later.is_empty() {
            return Ok(());
        }
        rest = later;
    }
}

async fn listen(world: Arc<World>, fleet: Arc<Membership>) {
    loop {
        let news = world.stop.run_until_cancelled(guard(|| fleet.api.news(fleet.member))).await;
        match news {
            None => return,
            Some(Ok(news)) => {
                for news in news {
                    hear(&world, &fleet, news).await;
                }
            }
            Some(Err(_)) => {
                if pause(&world, fleet.policy.retry_after).await.is_none() {
                    return;
                }
            }
        }
    }
}

async fn hear(world: &Arc<World>, fleet: &Arc<Membership>, news: News) {
    match news {
        News::Posted { mailbox } => {
            if fleet.on_posted(&mailbox) {
                has_mailbox_look(world, &mailbox, Reply::Look);
            }
        }
        News::Obeyed { order, answer } => fleet.asked.answer(order, answer),
        News::Changed { id } => fleet.look_at(world, &id).await,
        News::Released { mailbox } => has_mailbox_look(world, &mailbox, Reply::Acquire),
        News::Notes => fleet.read_notes(world).await,
        News::Cooldown { scope, until } => fleet.rest(world, scope, fleet.clock.of_store(until)),
        News::Missed => {
            fleet.read_notes(world).await;
            for mailbox in fleet.leases().into_iter().map(|lease| lease.mailbox) {
                if fleet.on_posted(&mailbox) {
                    has_mailbox_look(world, &mailbox, Reply::Look);
                }
            }
            fleet.look_at_some(world).await;
        }
    }
}

async fn tell(world: Arc<World>, fleet: Arc<Membership>) {
    while world.stop.run_until_cancelled(fleet.to_tell.notified()).await.is_some() {
        let news = std::mem::take(&mut fleet.state().news);
        if !news.is_empty() {
            // Whoever waits for it looks by itself.
            drop(guard(|| fleet.api.publish(fleet.member, news)).await);
        }
    }
}

/// Takes up mailboxes that nobody owns. Members look at different instants, so that not all of them reach for the same.
async fn adopt(world: Arc<World>, fleet: Arc<Membership>) {
    let every = fleet.policy.adopt_every;
    let mut round = 0_u64;
    loop {
        if !fleet.is_cut_off()
            && fleet.state().calm_until <= world.clock.now()
            && let Ok(orphans) = guard(|| fleet.api.orphans(fleet.batch_max())).await
        {
            for mailbox in orphans {
                take_up(&world, &mailbox);
            }
        }
        round += 1;
        // Between three and five quarters, another one each time.
        let draw = fnv1a(&[fleet.member.0.to_le_bytes(), round.to_le_bytes()].concat()) % 1_024;
        let span = every * 3 / 4 + every / 2 * u32::try_from(draw).unwrap_or(0) / 1_024;
        if pause(&world, span).await.is_none() {
            return;
        }
    }
}

fn take_up(world: &Arc<World>, mailbox: &Arc<str>) {
    match world.directory.find(mailbox) {
        Some(seat) => world.reply(&seat, Reply::Acquire),
        None => {
            let seat = world.directory.enter_recovered(mailbox);
            world.supervisor.push(Errand::Start(seat));
        }
    }
}

async fn look(world: Arc<World>, fleet: Arc<Membership>) {
    while pause(&world, fleet.policy.poll_every).await.is_some() {
        fleet.look_at_some(&world).await;
        fleet.read_notes(&world).await;
    }
}
