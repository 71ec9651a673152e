//! One send: from the network to the model and back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::{Cost, Lane, Timestamp};
use crate::upstream::random::Random;
use crate::upstream::{ArrivalRequest, Decision, Delivery, ScopeHeader, Upstream};

use super::answer::{Meta, Names, Reply, decided};
use super::drafts::Drafts;
use super::payload::{self, Invalid, NO_DRAFT, Payload, Saved};
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
    pub(super) drafts: Mutex<Drafts>,
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

/// A request that was let in by its token.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) purpose: Purpose,
    pub(super) mailbox: String,
    pub(super) tenant: Arc<str>,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
    pub(super) lane: Option<Lane>,
    pub(super) meta: Meta,
}

/// What it is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `sendMail`.
    SendMail,
    /// A draft is to be created.
    CreateDraft,
    /// The draft with this id is to be sent.
    SendDraft(String),
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

/// What a request is about: what it takes, and what is wrong with it.
struct Letter {
    cost: Cost,
    message_id: String,
    saved: Saved,
    invalid: Option<(u16, Invalid)>,
}

impl Letter {
    fn read(sending: &Sending, drafts: &Drafts) -> Self {
        let payload = match &sending.purpose {
            Purpose::SendMail => payload::read(&sending.content_type, &sending.body, &sending.mailbox),
            Purpose::CreateDraft => payload::read_draft(&sending.content_type, &sending.body, &sending.mailbox)
                // Recipients count when it is sent.
                .map(|payload| Payload { cost: Cost::email(0, payload.cost.bytes), ..payload }),
            Purpose::SendDraft(id) => drafts.payload(&sending.mailbox, id).ok_or(NO_DRAFT),
        };
        let nameless = || format!("<{}@upstream.invalid>", sending.meta.request_id);
        match payload {
            Ok(Payload { cost, message_id, saved }) => {
                Self { cost, message_id: message_id.unwrap_or_else(nameless), saved, invalid: None }
            }
            Err(invalid) => {
                let cost = Cost::email(0, u64::try_from(sending.body.len()).unwrap_or(u64::MAX));
                let status = if invalid == NO_DRAFT { 404 } else { 400 };
                Self { cost, message_id: nameless(), saved: Saved::No, invalid: Some((status, invalid)) }
            }
        }
    }
}

/// Does once what was asked for.
pub(super) async fn send(shared: Arc<Shared>, sending: Sending) -> Outcome {
    let plan = lock(&shared.upstream).plan_latency();
    shared.pause(plan.up).await;
    let Arrived { now, decision, scope_header, invalid, body } = arrive(&shared, &sending, plan.service);
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
    let mut reply = decided(&decision, invalid, scope_header, names, &sending.meta);
    if reply.status == 201 {
        reply.body = body;
    }
    Outcome::Reply(reply, now)
}

struct Arrived {
    now: Timestamp,
    decision: Decision,
    scope_header: ScopeHeader,
    invalid: Option<Invalid>,
    /// Of a draft that was created.
    body: Option<Value>,
}

/// The instant at which it arrives, under one lock: two sends of one draft find it there once.
fn arrive(shared: &Shared, sending: &Sending, service: Duration) -> Arrived {
    let (mut upstream, mut drafts) = (lock(&shared.upstream), lock(&shared.drafts));
    let letter = Letter::read(sending, &drafts);
    let request = ArrivalRequest {
        mailbox: sending.mailbox.as_str().into(),
        tenant: Some(Arc::clone(&sending.tenant)),
        cost: letter.cost,
        key: letter.message_id.as_str().into(),
        lane: sending.lane,
    };
    let now = (shared.clock)();
    let decision = match letter.invalid {
        Some((status, _)) => upstream.arrive_invalid(now, &request, status),
        None if sending.purpose == Purpose::CreateDraft => upstream.arrive_preparing(now, &request),
        None => upstream.arrive(now, &request),
    };
    upstream.complete(now.after(decision.service_or(service)), decision.handle);
    let scope_header = upstream.model().scope_header;
    let mut body = None;
    if decision.executed {
        match &sending.purpose {
            Purpose::CreateDraft => body = Some(drafts.create(sending, &letter.message_id)),
            Purpose::SendDraft(id) => drafts.remove(&sending.mailbox, id),
            Purpose::SendMail => {}
        }
        if sending.purpose != Purpose::CreateDraft && letter.saved == Saved::Yes {
            let visible_at = now.after(shared.options.sent_items_lag);
            lock(&shared.sent_items).save(&sending.mailbox, &letter.message_id, visible_at);
        }
    }
    Arrived { now, decision, scope_header, invalid: letter.invalid.map(|(_, invalid)| invalid), body }
}
