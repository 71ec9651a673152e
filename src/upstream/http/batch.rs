//! `$batch`: up to twenty sends in one call, each judged by itself.
//!
//! Four of them run at a time, as at Outlook, and they are answered in any order. An item whose answer is lost or cut
//! is missing from the response: one connection cannot break for one item alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Map, Value, json};

use crate::engine::Lane;

use super::answer::{Meta, Reply};
use super::send::{Outcome, Purpose, Sending, Shared, lock, send};
use super::text::percent_decoded;

/// Most requests of one batch.
const ITEMS_MAX: usize = 20;
/// Requests of one batch that run at a time.
const PARALLEL: usize = 4;

/// Answers a whole batch.
pub(super) async fn run(shared: Arc<Shared>, body: Vec<u8>, tenant: Arc<str>, meta: Meta) -> Reply {
    let items = match items(&body) {
        Ok(items) => items,
        Err(message) => return Reply::error(400, "BadRequest", message, &meta),
    };
    let answers = futures::stream::iter(items).map(|item| answer(Arc::clone(&shared), item, Arc::clone(&tenant)));
    let mut responses: Vec<Value> = answers.buffer_unordered(PARALLEL).filter_map(std::future::ready).collect().await;
    let mut random = lock(&shared.random);
    for last in (1..responses.len()).rev() {
        let other = random.below(last as u64 + 1);
        responses.swap(last, usize::try_from(other).unwrap_or(last));
    }
    Reply::new(200, Some(json!({ "responses": responses })))
}

/// One inner request.
struct Item {
    id: String,
    method: String,
    url: String,
    headers: Map<String, Value>,
    body: Vec<u8>,
}

impl Item {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).and_then(|(_, value)| value.as_str())
    }

    /// The mailbox of `/users/{id}/sendMail`.
    fn mailbox(&self) -> Option<String> {
        let mut parts = self.url.trim_start_matches('/').split('/');
        let parts = [parts.next()?, parts.next()?, parts.next()?, parts.next().unwrap_or_default()];
        let [users, id, action, ""] = parts else {
            return None;
        };
        let sends = users.eq_ignore_ascii_case("users") && action.eq_ignore_ascii_case("sendMail");
        (sends && self.method.eq_ignore_ascii_case("POST")).then(|| percent_decoded(id))
    }
}

fn items(body: &[u8]) -> Result<Vec<Item>, &'static str> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "Unable to read JSON request payload.")?;
    let requests = value.get("requests").and_then(Value::as_array).ok_or("The requests property is missing.")?;
    if requests.is_empty() {
        return Err("The batch holds no request.");
    }
    if requests.len() > ITEMS_MAX {
        return Err("Number of batch request steps exceeds the maximum value of 20.");
    }
    let (mut ids, mut items) = (BTreeSet::new(), Vec::with_capacity(requests.len()));
    for request in requests {
        if request.get("dependsOn").is_some() {
            return Err("dependsOn is not supported by this upstream: send such requests one by one.");
        }
        let item = item(request).ok_or("Every request needs an id, a method and a url.")?;
        if !ids.insert(item.id.to_ascii_lowercase()) {
            return Err("Request ids must be unique within a batch.");
        }
        items.push(item);
    }
    Ok(items)
}

fn item(request: &Value) -> Option<Item> {
    let text = |name: &str| request.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Item {
        id: text("id").filter(|id| !id.is_empty())?,
        method: text("method")?,
        url: text("url")?,
        headers: request.get("headers").and_then(Value::as_object).cloned().unwrap_or_default(),
        body: match request.get("body") {
            Some(Value::String(text)) => text.clone().into_bytes(),
            Some(value) => value.to_string().into_bytes(),
            None => Vec::new(),
        },
    })
}

/// One item of the response; `None`: it is missing there.
async fn answer(shared: Arc<Shared>, item: Item, tenant: Arc<str>) -> Option<Value> {
    let meta = shared.meta(item.header("client-request-id").map(str::to_owned));
    let reply = match item.mailbox() {
        None => Reply::error(404, "ResourceNotFound", "Only POST /users/{id}/sendMail is known in a batch.", &meta),
        Some(mailbox) => {
            let sending = Sending {
                purpose: Purpose::SendMail,
                mailbox,
                tenant,
                content_type: item.header("content-type").unwrap_or_default().to_owned(),
                lane: lane(item.header("x-ms-throttle-priority")),
                body: item.body,
                meta,
            };
            match send(shared, sending).await {
                Outcome::Reply(reply, _) => reply,
                Outcome::Silence | Outcome::Cut => return None,
            }
        }
    };
    let headers: Map<_, _> = reply.headers.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    Some(json!({"id": item.id, "status": reply.status, "headers": headers, "body": reply.body}))
}

/// The lane that a priority hint stands for.
pub(super) fn lane(priority: Option<&str>) -> Option<Lane> {
    match priority {
        Some(word) if word.eq_ignore_ascii_case("high") => Some(Lane::Foreground),
        Some(word) if word.eq_ignore_ascii_case("low") => Some(Lane::Background),
        _ => None,
    }
}
