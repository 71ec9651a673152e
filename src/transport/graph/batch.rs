//! `$batch`: up to twenty sends in one request, each judged by its own answer.
//!
//! An outer 200 says that the batch could be read, nothing about an item. An item that is missing from the answer is
//! unknown. Items that were answered 401 go once more, together, under one new token. A batch that was refused as a whole (400, 413: it was not read) says nothing about its items either, so
//! none of them is rejected for it.

use std::collections::BTreeMap;

use http::header::{DATE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::wire::Reply;
use crate::engine::{Answer, Sent, Subject, Verdict};
use crate::signals::{BODY_BYTES_MAX, Unavailable, judge_with};

/// One send within a batch.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its place among the attempts.
    pub(super) index: usize,
    /// `/users/{mailbox}/sendMail`.
    pub(super) path: String,
    /// Of this send alone.
    pub(super) headers: HeaderMap,
    /// The email in base64.
    pub(super) body: String,
}

/// Bytes of JSON around one body: path, headers, punctuation.
const ITEM_BYTES: usize = 1_024;

impl Item {
    fn bytes(&self) -> usize {
        self.body.len().saturating_add(self.path.len()).saturating_add(ITEM_BYTES)
    }
}

/// Longest answer to a batch of `count` that is read.
pub(super) const fn reply_bytes_max(count: usize) -> usize {
    BODY_BYTES_MAX.saturating_mul(count)
}

/// Splits items into batches that keep both bounds; an item that is too large alone gets a batch of its own.
pub(super) fn split(items: Vec<Item>, count_max: usize, bytes_max: usize) -> Vec<Vec<Item>> {
    let mut batches: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0_usize;
    for item in items {
        let more = bytes.saturating_add(item.bytes());
        match batches.last_mut() {
            Some(batch) if batch.len() < count_max && more <= bytes_max => {
                bytes = more;
                batch.push(item);
            }
            _ => {
                bytes = item.bytes();
                batches.push(vec![item]);
            }
        }
    }
    batches
}

/// The request body. Ids are positions within the batch, from 1.
pub(super) fn request(items: &[Item]) -> String {
    let requests: Vec<Value> = items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            let mut headers: BTreeMap<&str, &str> =
                item.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
            headers.insert("Content-Type", "text/plain");
            let id = (at + 1).to_string();
            json!({ "id": id, "method": "POST", "url": item.path, "headers": headers, "body": item.body })
        })
        .collect();
    json!({ "requests": requests }).to_string()
}

/// One answer per item, in order.
pub(super) fn answers(reply: &Reply, count: usize, unavailable: Unavailable) -> Vec<Answer> {
    match serde_json::from_slice::<Value>(&reply.body).ok().as_ref().and_then(|body| body["responses"].as_array()) {
        // Whatever the outer status is: one page says 424 for a throttled batch.
        Some(responses) => inner(responses, reply, count, unavailable),
        None => vec![outer(reply, unavailable); count],
    }
}

fn inner(responses: &[Value], reply: &Reply, count: usize, unavailable: Unavailable) -> Vec<Answer> {
    (1..=count)
        .map(|id| {
            let id = id.to_string();
            let mut found = responses.iter().filter(|response| response["id"].as_str() == Some(&id));
            match (found.next(), found.next()) {
                (Some(response), None) => judge_one(response, &reply.headers, unavailable),
                // Missing, or answered twice: it does not tell.
                _ => Verdict::Unknown.into(),
            }
        })
        .collect()
}

fn judge_one(response: &Value, outer: &HeaderMap, unavailable: Unavailable) -> Answer {
    let Some(status) = response["status"].as_u64().and_then(|status| u16::try_from(status).ok()) else {
        return Verdict::Unknown.into();
    };
    let mut headers = headers(&response["headers"]);
    if let (None, Some(date)) = (headers.get(DATE), outer.get(DATE)) {
        headers.insert(DATE, date.clone()); // so that a dated Retry-After is worth something
    }
    judge_with(unavailable, status, &headers, response["body"].to_string().as_bytes())
}

fn headers(value: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(text)) {
            // Whoever sends more names than a map takes has said enough.
            let _more = headers.try_append(name, value);
        }
    }
    headers
}

/// The answer of every item when the batch as a whole was answered.
fn outer(reply: &Reply, unavailable: Unavailable) -> Answer {
    let answer = judge_with(unavailable, reply.status, &reply.headers, &reply.body);
    let verdict = match answer.verdict {
        Verdict::Permanent { of: Subject::Message | Subject::Mailbox } => {
            Verdict::Transient { sent: Sent::Maybe, retry_after: None }
        }
        Verdict::Accepted => Verdict::Unknown,
        verdict => verdict,
    };
    Answer { verdict, ..answer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Throttle, ThrottleKind};

    fn item(index: usize, bytes: usize) -> Item {
        let body = "A".repeat(bytes);
        Item { index, path: String::new(), headers: HeaderMap::new(), body }
    }

    #[test]
    fn batches_keep_both_bounds() {
        let sizes = |items: Vec<Item>, count, bytes| -> Vec<usize> {
            split(items, count, bytes).iter().map(Vec::len).collect()
        };
        let items = |n: usize| (0..n).map(|index| item(index, 0)).collect::<Vec<_>>();
        assert_eq!(sizes(items(20), 20, usize::MAX), [20]);
        assert_eq!(sizes(items(21), 20, usize::MAX), [20, 1]);
        assert_eq!(sizes(items(3), 20, 3 * ITEM_BYTES), [3]);
        assert_eq!(sizes(items(3), 20, 3 * ITEM_BYTES - 1), [2, 1]);
        assert_eq!(sizes(vec![item(0, 9_000), item(1, 0), item(2, 0)], 20, 2 * ITEM_BYTES), [1, 2]);
        assert_eq!(sizes(Vec::new(), 20, 1), [0; 0]);
    }

    fn reply(status: u16, body: &Value) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("Fri, 31 Dec 1999 23:59:00 GMT"));
        Reply { status, headers, body: body.to_string().into_bytes() }
    }

    fn verdicts(status: u16, body: &Value, count: usize) -> Vec<Verdict> {
        answers(&reply(status, body), count, Unavailable::default()).into_iter().map(|answer| answer.verdict).collect()
    }

    #[test]
    fn every_item_is_judged_by_its_own_answer() {
        let body = json!({ "responses": [
            { "id": "3", "status": 503, "body": { "error": { "code": "CommandConcurrencyLimitReached" } } },
            { "id": "1", "status": 202, "headers": { "Retry-After": "9" }, "body": null },
            { "id": "4", "status": 424, "body": { "error": { "code": "FailedDependency" } } },
            { "id": "2", "status": 429, "headers": { "Retry-After": "Fri, 31 Dec 1999 23:59:30 GMT" } },
            { "id": "6", "status": "202" },
            { "id": "7", "status": 202 },
            { "id": "7", "status": 429 },
        ]});
        let throttled = |kind, seconds: Option<u64>| {
            let retry_after = seconds.map(std::time::Duration::from_secs);
            Verdict::Throttled(Throttle { retry_after, scope: None, kind })
        };
        for status in [200, 424] {
            assert_eq!(
                verdicts(status, &body, 7),
                [
                    Verdict::Accepted,
                    throttled(ThrottleKind::Rate, Some(30)),
                    throttled(ThrottleKind::Concurrency, None),
                    Verdict::Transient { sent: Sent::Maybe, retry_after: None },
                    Verdict::Unknown, // missing
                    Verdict::Unknown, // no status
                    Verdict::Unknown, // twice
                ]
            );
        }
    }

    #[test]
    fn an_outer_answer_never_accepts_or_rejects_an_item() {
        let not_done = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
        for (status, expected) in [
            (200, Verdict::Unknown),
            (202, Verdict::Unknown),
            (400, not_done.clone()),
            (413, not_done.clone()),
            (404, not_done),
            (403, Verdict::Permanent { of: Subject::Account }),
            (500, Verdict::Unknown),
            (504, Verdict::Unknown),
        ] {
            for body in [json!({}), json!(null), json!({ "responses": 1 })] {
                assert_eq!(verdicts(status, &body, 2), [expected.clone(), expected.clone()], "{status}");
            }
        }
        assert!(matches!(verdicts(429, &json!({}), 1)[0], Verdict::Throttled(_)));
    }
}
