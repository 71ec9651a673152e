//! Looking up what became of an email: its `Message-ID` in Sent Items.

use std::sync::Arc;

use http::Method;
use http::header::HeaderMap;
use serde_json::Value;

use super::encode::{percent, user_path};
use super::wire::{Call, Reply};
use crate::signals::BODY_BYTES_MAX;

/// What a look for a draft found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// This one.
    Found(Arc<str>),
    /// There is none.
    Nothing,
}

/// Whether it is in Sent Items; `None` for a mailbox that cannot stand in a path.
pub(super) fn call(base: &str, mailbox: &str, message_id: &str) -> Option<Call> {
    question(base, &user_path(mailbox, "mailFolders/sentitems/messages")?, message_id, "internetMessageId")
}

/// Whether it is in Drafts, and under which id.
pub(super) fn drafts(base: &str, mailbox: &str, message_id: &str) -> Option<Call> {
    question(base, &user_path(mailbox, "mailFolders/drafts/messages")?, message_id, "id,internetMessageId")
}

fn question(base: &str, path: &str, message_id: &str, select: &str) -> Option<Call> {
    // OData doubles a quote within a string.
    let filter = percent(&format!("internetMessageId eq '{}'", message_id.replace('\'', "''")));
    Some(Call {
        method: Method::GET,
        url: format!("{base}{path}?$filter={filter}&$select={select}&$top=1"),
        headers: HeaderMap::new(),
        content_type: "",
        body: String::new(),
        reply_bytes_max: BODY_BYTES_MAX,
    })
}

/// The answer. A server that did not filter yields other emails: that proves nothing either way.
pub(super) fn found(reply: &Reply, message_id: &str) -> Option<bool> {
    if reply.status != 200 {
        return None;
    }
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    let emails = body["value"].as_array()?;
    if emails.is_empty() {
        return Some(false);
    }
    emails.iter().any(|email| email["internetMessageId"].as_str() == Some(message_id)).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_quoted_twice() {
        let call = call("https://g/v1.0", "a b@c.example", "<o'hara&x@c.example>").expect("a question");
        assert_eq!(
            call.url,
            "https://g/v1.0/users/a%20b@c.example/mailFolders/sentitems/messages?\
             $filter=internetMessageId%20eq%20%27%3Co%27%27hara%26x@c.example%3E%27&$select=internetMessageId&$top=1"
        );
    }

    #[test]
    fn only_a_clear_answer_counts() {
        let found = |status, body: &str| {
            found(&Reply { status, headers: HeaderMap::new(), body: body.as_bytes().to_vec() }, "<1@a>")
        };
        assert_eq!(found(200, r#"{"value":[{"internetMessageId":"<1@a>"}]}"#), Some(true));
        assert_eq!(found(200, r#"{"value":[]}"#), Some(false));
        assert_eq!(found(200, r#"{"value":[{"internetMessageId":"<2@a>"}]}"#), None);
        for (status, body) in [(200, ""), (200, "{}"), (403, r#"{"value":[]}"#), (429, ""), (202, r#"{"value":[]}"#)] {
            assert_eq!(found(status, body), None, "{status} {body}");
        }
    }
}
