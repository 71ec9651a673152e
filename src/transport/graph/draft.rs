//! Draft first, then send: two requests, and an outcome that can be looked up.
//!
//! `POST …/messages` puts a draft into the mailbox, `POST …/messages/{id}/send` sends it. Until the second nothing can
//! have been sent, so a lost first request is an ordinary failure, and of a lost second one the draft tells: still
//! there, not sent; gone, sent. (The item in Sent Items has another id, also with immutable ids.)
//!
//! The id of a draft is kept in memory until its email is accepted, and a later attempt sends that draft. Where it is
//! not known, after a restart or because the answer to the first request was lost, a later attempt looks for the draft by
//! its `Message-ID`, then for the email itself in Sent Items, and only then creates a draft. Look-ups are not charged,
//! as those of [`reconcile`](crate::transport::Transport::reconcile) are not: they come after a failure only.
//!
//! Not promised: that no draft is left behind. One stays when its email is refused for good, or given up. A draft whose
//! creation was lost and that the next attempt cannot see yet stays too; its email is still sent once. Nor is a draft
//! that a person deletes told from one that was sent.

use std::collections::{BTreeMap, VecDeque};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use http::header::HeaderMap;
use serde_json::Value;
use tokio::time::Sleep;

use super::encode::{self, percent, user_path};
use super::reconcile::{self, Look};
use super::wire::{Call, Reply};
use super::{GraphTransport, headers, refused};
use crate::engine::{Answer, Sent, Subject, Verdict};
use crate::signals::{BODY_BYTES_MAX, judge_with};
use crate::transport::Attempt;

/// Drafts whose ids are kept; above it the oldest is forgotten, and looked for if it is needed.
const DRAFTS_MAX: usize = 10_000;
/// Longest answer to the creation of a draft that is read: it repeats the email's body.
const CREATED_BYTES_MAX: usize = 8_000_000;
/// Longest id of a draft; Graph's are below 200 bytes.
const DRAFT_ID_BYTES_MAX: usize = 1_024;

/// The drafts of emails that were not accepted yet, by operation id.
#[derive(Debug, Default)]
pub(super) struct Drafts(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    ids: BTreeMap<Arc<str>, Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl Drafts {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, operation_id: &str) -> Option<Arc<str>> {
        self.kept().ids.get(operation_id).cloned()
    }

    fn keep(&self, operation_id: &Arc<str>, draft: &Arc<str>) {
        let mut kept = self.kept();
        if kept.ids.insert(Arc::clone(operation_id), Arc::clone(draft)).is_none() {
            kept.order.push_back(Arc::clone(operation_id));
        }
        while kept.ids.len() > DRAFTS_MAX {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.ids.remove(&oldest);
        }
    }

    fn forget(&self, operation_id: &str) {
        let mut kept = self.kept();
        if kept.ids.remove(operation_id).is_some() {
            kept.order.retain(|other| **other != *operation_id);
        }
    }
}

impl GraphTransport {
    /// One attempt in two requests.
    pub(super) async fn send_draft(&self, attempt: Attempt) -> Answer {
        let mut deadline = pin!(tokio::time::sleep(attempt.timeout));
        let draft = match self.drafts.get(&attempt.operation_id) {
            Some(draft) => draft,
            None => match self.draft_of(&attempt, deadline.as_mut()).await {
                Ok(draft) => draft,
                Err(answer) => return answer,
            },
        };
        self.drafts.keep(&attempt.operation_id, &draft);
        let answer = self.send_it(&attempt, &draft, deadline).await;
        if matches!(answer.verdict, Verdict::Accepted | Verdict::Permanent { of: Subject::Message }) {
            self.drafts.forget(&attempt.operation_id);
        }
        answer
    }

    /// The draft to send: one that an earlier attempt left, or a new one. An answer instead: nothing is to be sent.
    async fn draft_of(&self, attempt: &Attempt, mut deadline: Pin<&mut Sleep>) -> Result<Arc<str>, Answer> {
        let message_id = encode::message_id(attempt);
        if attempt.number > 1 {
            let look = reconcile::drafts(&self.base, &attempt.mailbox, &message_id);
            match self.look(look, deadline.as_mut()).await?.draft(&message_id) {
                Some(Look::Found(draft)) => return Ok(draft),
                Some(Look::Nothing) => {}
                None => return Err(not_sent(Sent::Maybe)),
            }
            let look = reconcile::call(&self.base, &attempt.mailbox, &message_id);
            match reconcile::found(&self.look(look, deadline.as_mut()).await?, &message_id) {
                Some(true) => return Err(Verdict::Accepted.into()),
                Some(false) => {}
                None => return Err(not_sent(Sent::Maybe)),
            }
        }
        self.create(attempt, &message_id, deadline).await
    }

    /// An answered look; anything else is an answer to the attempt, by which nothing was sent.
    async fn look(&self, call: Option<Call>, deadline: Pin<&mut Sleep>) -> Result<Reply, Answer> {
        let call = call.ok_or_else(|| refused(Subject::Mailbox))?;
        let reply = self.wire.call(&call, deadline).await.map_err(nothing_sent)?;
        if reply.status == 200 { Ok(reply) } else { Err(nothing_sent(self.judge(&reply))) }
    }

    async fn create(&self, attempt: &Attempt, message_id: &str, deadline: Pin<&mut Sleep>) -> Result<Arc<str>, Answer> {
        let path = user_path(&attempt.mailbox, "messages").ok_or_else(|| refused(Subject::Mailbox))?;
        let body = encode::body(&attempt.email, Some(message_id)).ok_or_else(|| refused(Subject::Message))?;
        let call = self.post(attempt, &path, body, CREATED_BYTES_MAX);
        // Nothing can have been sent: whatever is lost here, the email is not.
        let reply = self.wire.call(&call, deadline).await.map_err(|answer| match (attempt.number, answer.verdict) {
            (1, Verdict::Transient { sent: Sent::No, retry_after }) => {
                Verdict::Transient { sent: Sent::No, retry_after }.into()
            }
            (_, verdict) => nothing_sent(Answer { verdict, ..answer }),
        })?;
        if reply.status != 201 {
            return Err(nothing_sent(self.judge(&reply)));
        }
        reply.created().ok_or_else(|| not_sent(Sent::Maybe))
    }

    async fn send_it(&self, attempt: &Attempt, draft: &str, deadline: Pin<&mut Sleep>) -> Answer {
        let Some(path) = user_path(&attempt.mailbox, &format!("messages/{}/send", percent(draft))) else {
            return refused(Subject::Mailbox);
        };
        let call = self.post(attempt, &path, String::new(), BODY_BYTES_MAX);
        match self.wire.call(&call, deadline).await {
            // Gone: an earlier attempt sent it, or somebody took it away. A look-up tells.
            Ok(reply) if reply.status == 404 => Answer { verdict: Verdict::Unknown, ..self.judge(&reply) },
            Ok(reply) => self.judge(&reply),
            // The draft's own request had left.
            Err(answer) => match answer.verdict {
                Verdict::Transient { retry_after, .. } => {
                    Answer { verdict: Verdict::Transient { sent: Sent::Maybe, retry_after }, ..answer }
                }
                _ => answer,
            },
        }
    }

    fn post(&self, attempt: &Attempt, path: &str, body: String, reply_bytes_max: usize) -> Call {
        let (method, url) = (Method::POST, format!("{}{path}", self.base));
        Call { method, url, headers: headers(attempt), content_type: "text/plain", body, reply_bytes_max }
    }

    fn judge(&self, reply: &Reply) -> Answer {
        judge_with(self.options.unavailable, reply.status, &reply.headers, &reply.body)
    }

    /// What became of an attempt whose outcome is unknown.
    pub(super) async fn reconcile_draft(&self, attempt: Attempt) -> Option<bool> {
        let mut deadline = pin!(tokio::time::sleep(attempt.timeout));
        if let Some(draft) = self.drafts.get(&attempt.operation_id) {
            let path = user_path(&attempt.mailbox, &format!("messages/{}", percent(&draft)))?;
            let call = get(format!("{}{path}?$select=isDraft", self.base));
            let reply = self.wire.call(&call, deadline).await.ok()?;
            return match reply.status {
                200 => Some(!reply.json()?["isDraft"].as_bool()?),
                404 => Some(true),
                _ => None,
            };
        }
        let message_id = encode::message_id(&attempt);
        let call = reconcile::drafts(&self.base, &attempt.mailbox, &message_id)?;
        let reply = self.wire.call(&call, deadline.as_mut()).await.ok()?;
        if let Look::Found(_) = reply.draft(&message_id)? {
            return Some(false);
        }
        let call = reconcile::call(&self.base, &attempt.mailbox, &message_id)?;
        reconcile::found(&self.wire.call(&call, deadline).await.ok()?, &message_id)
    }
}

fn get(url: String) -> Call {
    let (headers, body) = (HeaderMap::new(), String::new());
    Call { method: Method::GET, url, headers, content_type: "", body, reply_bytes_max: BODY_BYTES_MAX }
}

fn not_sent(sent: Sent) -> Answer {
    Verdict::Transient { sent, retry_after: None }.into()
}

/// The answer to a request before the one that sends: whatever it says, nothing was sent.
fn nothing_sent(answer: Answer) -> Answer {
    match answer.verdict {
        Verdict::Accepted | Verdict::Unknown => Answer { verdict: not_sent(Sent::Maybe).verdict, ..answer },
        Verdict::Transient { retry_after, .. } => {
            Answer { verdict: Verdict::Transient { sent: Sent::Maybe, retry_after }, ..answer }
        }
        _ => answer,
    }
}

impl Reply {
    fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The id of the draft that was created.
    fn created(&self) -> Option<Arc<str>> {
        draft_id(&self.json()?["id"])
    }

    /// The draft that was looked for. `None`: the answer does not say.
    fn draft(&self, message_id: &str) -> Option<Look> {
        let body = self.json()?;
        let drafts = body["value"].as_array()?;
        if drafts.is_empty() {
            return Some(Look::Nothing);
        }
        let found = drafts.iter().find(|draft| draft["internetMessageId"].as_str() == Some(message_id))?;
        draft_id(&found["id"]).map(Look::Found)
    }
}

fn draft_id(value: &Value) -> Option<Arc<str>> {
    let id = value.as_str()?;
    let plain = !matches!(id, "" | "." | "..") && id.len() <= DRAFT_ID_BYTES_MAX && !id.contains(char::is_control);
    plain.then(|| Arc::from(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_drafts_are_bounded_and_the_oldest_goes_first() {
        let drafts = Drafts::default();
        let name = |n: usize| Arc::<str>::from(format!("{n}"));
        for n in 0..=DRAFTS_MAX {
            drafts.keep(&name(n), &name(n));
            drafts.keep(&name(n), &name(n));
        }
        assert_eq!(drafts.get("0"), None);
        assert_eq!((drafts.get("1"), drafts.kept().order.len()), (Some(name(1)), DRAFTS_MAX));
        drafts.forget("1");
        assert_eq!((drafts.get("1"), drafts.kept().order.len()), (None, DRAFTS_MAX - 1));
    }

    #[test]
    fn an_id_that_could_not_stand_in_a_path_is_none() {
        for bad in [Value::Null, "".into(), "..".into(), "a\nb".into(), "x".repeat(2_000).into(), 7.into()] {
            assert_eq!(draft_id(&bad), None, "{bad}");
        }
        assert_eq!(draft_id(&"AAMkAG/=+".into()).as_deref(), Some("AAMkAG/=+"));
    }
}
