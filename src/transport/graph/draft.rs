//! Draft first, then send: two requests, and an outcome that can be looked up.
//!
//! `POST …/messages` puts a draft into the mailbox, `POST …/messages/{id}/send` sends it. Until the second nothing can
//! have been sent, so a lost first request is an ordinary failure, and of a lost second one the draft tells: still
//! there, not sent. A draft that is gone was moved, deleted or sent, and its id may have changed with a move; so then its
//! `Message-ID` decides: in Drafts, not sent; in Sent Items, sent; in neither, absent, which the scheduler believes late
//! and twice. A 404 that does not even say that the item is gone is about the mailbox and judged as everywhere.
//!
//! The id of a draft is kept in memory until its email is accepted, and a later attempt sends that draft. Where it is
//! not known, after a restart or because the answer to the first request was lost, a later attempt looks for the draft by
//! its `Message-ID`, then for the email itself in Sent Items, and only then creates a draft. Where the creation was
//! refused and nothing came before it, that is kept instead, and the next attempt is two requests like the first.
//!
//! Not charged, as they come after a failure only: the two look-ups (`GET …/mailFolders/drafts/messages` and
//! `…/sentitems/messages`) before a draft is created again, and those two and `GET …/messages/{id}` in
//! [`reconcile`](crate::transport::Transport::reconcile). The provider counts them.
//!
//! Not promised: that no draft is left behind. One stays when its email is refused for good, or given up. A draft whose
//! creation was lost and that the next attempt cannot see yet stays too; its email is still sent once.

use std::pin::{Pin, pin};
use std::sync::Arc;

use http::Method;
use http::header::HeaderMap;
use serde_json::Value;
use tokio::time::Sleep;

use super::encode::{self, percent, user_path};
use super::left::Left;
use super::reconcile::{self, Look};
use super::wire::{Call, Reply};
use super::{GraphTransport, headers, refused};
use crate::engine::{Answer, Sent, Subject, Verdict};
use crate::signals::{BODY_BYTES_MAX, judge_with, says_item_not_found};
use crate::transport::Attempt;

/// Longest answer to the creation of a draft that is read: it repeats the email's body.
const CREATED_BYTES_MAX: usize = 8_000_000;
/// Longest id of a draft; Graph's are below 200 bytes.
const DRAFT_ID_BYTES_MAX: usize = 1_024;

/// What is known before a draft is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// No earlier attempt made anything.
    Nothing,
    /// An earlier attempt may have made a draft, or sent it.
    Something,
}

impl GraphTransport {
    /// One attempt in two requests, both within the attempt's one timeout: the sleep is that deadline, nobody waits it out.
    pub(super) async fn send_draft(&self, attempt: Attempt) -> Answer {
        let mut deadline = pin!(tokio::time::sleep(attempt.timeout));
        let draft = match self.left.get(&attempt.operation_id) {
            Some(Left::Draft(draft)) => Ok(draft),
            Some(Left::Nothing) => self.create(&attempt, Before::Nothing, deadline.as_mut()).await,
            None if attempt.number == 1 => self.create(&attempt, Before::Nothing, deadline.as_mut()).await,
            None => self.draft_of(&attempt, deadline.as_mut()).await,
        };
        let answer = match draft {
            Ok(draft) => {
                self.left.keep(&attempt.operation_id, Left::Draft(Arc::clone(&draft)));
                self.send_it(&attempt, &draft, deadline).await
            }
            Err(answer) => answer,
        };
        if matches!(answer.verdict, Verdict::Accepted | Verdict::Permanent { of: Subject::Message }) {
            self.left.forget(&attempt.operation_id);
        }
        answer
    }

    /// The draft to send: one that an earlier attempt left, or a new one. An answer instead: nothing is to be sent.
    async fn draft_of(&self, attempt: &Attempt, mut deadline: Pin<&mut Sleep>) -> Result<Arc<str>, Answer> {
        let message_id = encode::message_id(attempt).ok_or_else(|| refused(Subject::Message))?;
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
        self.create(attempt, Before::Something, deadline).await
    }

    /// An answered look; anything else is an answer to the attempt, by which nothing was sent.
    async fn look(&self, call: Option<Call>, deadline: Pin<&mut Sleep>) -> Result<Reply, Answer> {
        let call = call.ok_or_else(|| refused(Subject::Mailbox))?;
        let reply = self.wire.call(&call, deadline).await.map_err(nothing_sent)?;
        if reply.status == 200 { Ok(reply) } else { Err(nothing_sent(self.judge(&reply))) }
    }

    async fn create(&self, attempt: &Attempt, before: Before, deadline: Pin<&mut Sleep>) -> Result<Arc<str>, Answer> {
        // Not known from here on, also when this future is dropped.
        self.left.forget(&attempt.operation_id);
        let created = self.try_create(attempt, deadline).await;
        created.map_err(|answer| match (before, &answer.verdict) {
            (Before::Nothing, verdict) if nothing_made(verdict) => {
                self.left.keep(&attempt.operation_id, Left::Nothing);
                answer
            }
            _ => nothing_sent(answer),
        })
    }

    /// The id of a new draft, or what the provider says instead.
    async fn try_create(&self, attempt: &Attempt, deadline: Pin<&mut Sleep>) -> Result<Arc<str>, Answer> {
        let path = user_path(&attempt.mailbox, "messages").ok_or_else(|| refused(Subject::Mailbox))?;
        let message_id = encode::message_id(attempt).ok_or_else(|| refused(Subject::Message))?;
        let body = encode::body(&attempt.email, Some(&message_id)).ok_or_else(|| refused(Subject::Message))?;
        let call = self.post(attempt, &path, body, CREATED_BYTES_MAX);
        let reply = self.wire.call(&call, deadline).await?;
        if reply.status != 201 {
            return Err(self.judge(&reply));
        }
        reply.created().ok_or_else(|| not_sent(Sent::Maybe))
    }

    async fn send_it(&self, attempt: &Attempt, draft: &str, deadline: Pin<&mut Sleep>) -> Answer {
        let Some(path) = user_path(&attempt.mailbox, &format!("messages/{}/send", percent(draft))) else {
            return refused(Subject::Mailbox);
        };
        let call = self.post(attempt, &path, String::new(), BODY_BYTES_MAX);
        match self.wire.call(&call, deadline).await {
            Ok(reply) if reply.status == 404 => {
                // Whatever is not there, this id leads nowhere: by its `Message-ID` a draft is found again.
                self.left.forget(&attempt.operation_id);
                let answer = self.judge(&reply);
                // Gone: an earlier attempt sent it, or somebody took it away. A look-up tells.
                if reply.item_is_gone() { Answer { verdict: Verdict::Unknown, ..answer } } else { answer }
            }
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
        if let Some(Left::Draft(draft)) = self.left.get(&attempt.operation_id) {
            let path = user_path(&attempt.mailbox, &format!("messages/{}", percent(&draft)))?;
            let call = get(format!("{}{path}?$select=isDraft", self.base));
            let reply = self.wire.call(&call, deadline.as_mut()).await.ok()?;
            match reply.status {
                200 => return Some(!reply.json()?["isDraft"].as_bool()?),
                // No proof that it was sent: it may have moved, and so may its mailbox.
                404 if reply.item_is_gone() => self.left.forget(&attempt.operation_id),
                404 => {}
                _ => return None,
            }
        }
        let message_id = encode::message_id(&attempt)?;
        let call = reconcile::drafts(&self.base, &attempt.mailbox, &message_id)?;
        let reply = self.wire.call(&call, deadline.as_mut()).await.ok()?;
        if let Look::Found(draft) = reply.draft(&message_id)? {
            self.left.keep(&attempt.operation_id, Left::Draft(draft));
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

/// Whether a failed creation left certainly nothing: refused, or it never left.
fn nothing_made(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Throttled(_) | Verdict::Permanent { .. } | Verdict::Transient { sent: Sent::No, .. })
}

impl Reply {
    /// Whether it says that the item is not there, and not its mailbox.
    fn item_is_gone(&self) -> bool {
        self.status == 404 && says_item_not_found(&self.body)
    }

    fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The id of the draft that was created.
    pub(super) fn created(&self) -> Option<Arc<str>> {
        draft_id(&self.json()?["id"])
    }

    /// The draft that was looked for. `None`: the answer does not say.
    pub(super) fn draft(&self, message_id: &str) -> Option<Look> {
        if self.status != 200 {
            return None;
        }
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
    fn an_id_that_could_not_stand_in_a_path_is_none() {
        for bad in [Value::Null, "".into(), "..".into(), "a\nb".into(), "x".repeat(2_000).into(), 7.into()] {
            assert_eq!(draft_id(&bad), None, "{bad}");
        }
        assert_eq!(draft_id(&"AAMkAG/=+".into()).as_deref(), Some("AAMkAG/=+"));
    }
}
