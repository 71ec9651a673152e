//! One send: from the network to the model and back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::{Cost, Lane, Timestamp};
use crate::upstream::random::Random;
use crate::upstream::{ArrivalRequest, Delivery, Upstream};

use super::answer::{Meta, Names, Reply, decided};
use super::payload::{self, Saved};
use super::sent_items::SentItems;
use super::server::ServerOptions;
use super::token::Tokens;

/// What all handlers share.
pub(super) struct Shared {
    pub(super) upstream: Arc<Mutex<Upstream>>,
    pub(super) clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) options: ServerOptions,
    pub(super) tokens: Mutex<Tokens>,
    pub(super) sent_items: Mutex<SentItems>,
    pub(super) random: Mutex<Random>,
    /// Cancelled when the server shuts down: nothing waits any longer.
    pub(super) closing: CancellationToken,
    /// Sends that are under way, whether or not their client still listens.
    pub(super) under_way: TaskTracker,
}

/// Locks; a panic elsewhere leaves plain data behind that is still good to read.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// A latency, cut short when the server closes.
    async fn pause(&self, span: Duration) {
        let _ = tokio::time::timeout(span, self.closing.cancelled()).await;
    }

    pub(super) fn meta(&self, client_request_id: Option<String>) -> Meta {
        let mut random = lock(&self.random);
        let (a, b) = (random.next_u64(), random.next_u64());
        let (high, low) = (a & 0xffff_ffff_ffff_0fff | 0x4000, b & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000);
        let request_id = format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        );
        Meta { request_id, client_request_id }
    }
}

/// A `sendMail` that was let in by its token.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) mailbox: String,
    pub(super) tenant: Arc<str>,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
    pub(super) lane: Option<Lane>,
    pub(super) meta: Meta,
}

/// What becomes of the connection.
#[derive(Debug)]
pub(super) enum Outcome {
    /// An answer, dated at the arrival.
    Reply(Reply, Timestamp),
    /// No answer, ever.
    Silence,
    /// The connection is closed.
    Cut,
}

/// Sends once.
pub(super) async fn send(shared: Arc<Shared>, sending: Sending) -> Outcome {
    let plan = lock(&shared.upstream).plan_latency();
    shared.pause(plan.up).await;
    let payload = payload::read(&sending.content_type, &sending.body, &sending.mailbox);
    let (cost, message_id) = match &payload {
        Ok(payload) => (payload.cost, payload.message_id.clone()),
        Err(_) => (Cost::email(0, u64::try_from(sending.body.len()).unwrap_or(u64::MAX)), None),
    };
    let message_id = message_id.unwrap_or_else(|| format!("<{}@upstream.invalid>", sending.meta.request_id));
    let request = ArrivalRequest {
        mailbox: sending.mailbox.as_str().into(),
        tenant: Some(Arc::clone(&sending.tenant)),
        cost,
        key: message_id.as_str().into(),
        lane: sending.lane,
    };
    let invalid = payload.as_ref().err().copied();
    let (now, decision, scope_header) = {
        let mut upstream = lock(&shared.upstream);
        let now = (shared.clock)();
        let decision = match invalid {
            None => upstream.arrive(now, &request),
            Some(_) => upstream.arrive_invalid(now, &request, 400),
        };
        upstream.complete(now.after(decision.service_or(plan.service)), decision.handle);
        (now, decision, upstream.model().scope_header)
    };
    if decision.executed && payload.is_ok_and(|payload| payload.saved == Saved::Yes) {
        let visible_at = now.after(shared.options.sent_items_lag);
        lock(&shared.sent_items).save(&sending.mailbox, &message_id, visible_at);
    }
    match decision.delivery {
        Delivery::Lost => return Outcome::Silence,
        Delivery::Cut if decision.status.is_none() => return Outcome::Cut,
        _ => shared.pause(decision.service_or(plan.service)).await,
    }
    if decision.delivery == Delivery::Cut {
        return Outcome::Cut;
    }
    shared.pause(plan.down).await;
    let names = Names { application: &shared.options.client_id, tenant: &sending.tenant, mailbox: &sending.mailbox };
    Outcome::Reply(decided(&decision, invalid, scope_header, names, &sending.meta), now)
}
