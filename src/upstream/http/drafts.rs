//! Drafts: created by one request, sent by another, found by `internetMessageId` meanwhile.
//!
//! A draft that is sent is gone: the item in Sent Items has another id, as at Graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use crate::engine::Cost;

use super::answer::Reply;
use super::payload::{NO_DRAFT, Payload, Saved, read_draft};
use super::send::{Purpose, Sending, Shared, lock};
use super::server::{front, submitted};
use super::socket::Scissors;

/// Drafts kept; the oldest fall out first.
const DRAFTS_MAX: usize = 100_000;

/// The drafts of every mailbox, by number.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    kept: BTreeMap<u64, Draft>,
    last: u64,
}

#[derive(Debug)]
struct Draft {
    mailbox: String,
    message_id: String,
    /// What sending it takes.
    cost: Cost,
}

impl Drafts {
    /// Keeps what was sent as a draft, and says how it is told of.
    pub(super) fn create(&mut self, sending: &Sending, message_id: &str) -> Value {
        let payload = read_draft(&sending.content_type, &sending.body, &sending.mailbox);
        let cost = payload.map_or(Cost::ONE_REQUEST, |payload| Cost { bytes: 0, ..payload.cost });
        self.last += 1;
        let (mailbox, message_id) = (sending.mailbox.clone(), message_id.to_owned());
        self.kept.insert(self.last, Draft { mailbox, message_id, cost });
        while self.kept.len() > DRAFTS_MAX {
            self.kept.pop_first();
        }
        self.kept.get(&self.last).map(|draft| draft.facts(self.last)).unwrap_or_default()
    }

    /// What sending a draft takes; `None` when it is not there.
    pub(super) fn payload(&self, mailbox: &str, id: &str) -> Option<Payload> {
        let draft = self.get(mailbox, id)?;
        Some(Payload { cost: draft.cost, message_id: Some(draft.message_id.clone()), saved: Saved::Yes })
    }

    pub(super) fn remove(&mut self, mailbox: &str, id: &str) {
        if self.get(mailbox, id).is_some() {
            self.kept.retain(|number, _| name(*number) != id);
        }
    }

    /// The drafts with this `internetMessageId`.
    pub(super) fn find(&self, mailbox: &str, message_id: &str) -> Vec<Value> {
        let mine = self.kept.iter().filter(|(_, draft)| draft.mailbox == mailbox && draft.message_id == message_id);
        mine.map(|(number, draft)| draft.facts(*number)).collect()
    }

    fn get(&self, mailbox: &str, id: &str) -> Option<&Draft> {
        let number = id.strip_prefix(PREFIX)?.strip_suffix('=')?.parse().ok()?;
        self.kept.get(&number).filter(|draft| draft.mailbox == mailbox)
    }
}

const PREFIX: &str = "AAMkAGUx+/";

/// An id with the characters that Graph's ids have and a path has to escape.
fn name(number: u64) -> String {
    format!("{PREFIX}{number}=")
}

impl Draft {
    fn facts(&self, number: u64) -> Value {
        json!({"id": name(number), "internetMessageId": self.message_id, "isDraft": true})
    }
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Path(mailbox): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    submitted(shared, scissors, (mailbox, Purpose::CreateDraft), headers, body).await
}

pub(super) async fn send(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Path((mailbox, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    submitted(shared, scissors, (mailbox, Purpose::SendDraft(id)), headers, body).await
}

/// One message by its id. Only drafts have one that anybody knows.
pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    Path((mailbox, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let front = match front(&shared, &headers) {
        Ok(front) => front,
        Err(response) => return *response,
    };
    let found = lock(&shared.drafts).get(&mailbox, &id).is_some();
    let reply = if found {
        Reply::new(200, Some(json!({"id": id, "isDraft": true})))
    } else {
        Reply::error(404, NO_DRAFT.code, NO_DRAFT.message, &front.meta)
    };
    reply.response(&front.meta, front.now)
}
