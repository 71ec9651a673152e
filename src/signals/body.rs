//! The error body: codes from the outside in, texts, and the hints that some services put there.

use std::time::Duration;

use serde_json::{Map, Value};

use super::retry_after::cut;

/// Longer bodies are not read: an error body has a few hundred bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Deepest `innerError` that is followed; two levels occur.
const DEPTH_MAX: usize = 8;

/// What an error body said. Empty when it was no error body.
#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    /// Codes, outermost first.
    pub(super) codes: Vec<String>,
    /// Messages in lower case, outermost first.
    pub(super) texts: Vec<String>,
    /// A wait in the body.
    pub(super) retry_after: Option<Duration>,
    /// The request's id in the body.
    pub(super) request_id: Option<String>,
}

impl ErrorBody {
    /// Reads `{"error": {"code", "message", "innerError": {…}}}`; both spellings of `innerError` occur.
    pub(super) fn parse(body: &[u8]) -> Self {
        let mut found = Self::default();
        if body.len() > BODY_BYTES_MAX {
            return found;
        }
        // serde_json bounds its own recursion and answers an error beyond it.
        let Ok(Value::Object(top)) = serde_json::from_slice(body) else { return found };
        found.level(&top);
        let mut next = get(&top, &["error"]);
        for _ in 0..DEPTH_MAX {
            match next {
                Some(Value::Object(level)) => {
                    found.level(level);
                    next = get(level, &["innererror"]);
                }
                Some(Value::String(code)) => {
                    found.codes.push(code.clone());
                    break;
                }
                _ => break,
            }
        }
        found
    }

    /// Whether a text holds `needle` (lower case).
    pub(super) fn says(&self, needle: &str) -> bool {
        self.texts.iter().any(|text| text.contains(needle))
    }

    fn level(&mut self, level: &Map<String, Value>) {
        if let Some(Value::String(code)) = get(level, &["code", "responsecode"]) {
            self.codes.push(code.clone());
        }
        if let Some(Value::String(text)) = get(level, &["message"]) {
            self.texts.push(text.to_lowercase());
        }
        if self.request_id.is_none()
            && let Some(Value::String(id)) = get(level, &["request-id"])
        {
            self.request_id = Some(id.clone());
        }
        let millis = get(level, &["backoffmilliseconds"]).and_then(whole).map(Duration::from_millis);
        let seconds = get(level, &["retry-seconds"]).and_then(whole).map(Duration::from_secs);
        self.retry_after = self.retry_after.max(millis.max(seconds).and_then(cut));
    }
}

/// The value of the first key that equals one of `names` (lower case) without regard to case.
fn get<'a>(level: &'a Map<String, Value>, names: &[&str]) -> Option<&'a Value> {
    level.iter().find(|(key, _)| names.iter().any(|name| key.eq_ignore_ascii_case(name))).map(|(_, value)| value)
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}
