//! The body of `sendMail`: JSON, or MIME in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::engine::Cost;

use super::mime;

/// What a body says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// What it takes; bytes as they came over the wire.
    pub(super) cost: Cost,
    /// Its `Message-ID`, if it brought one.
    pub(super) message_id: Option<String>,
    /// Whether it appears in Sent Items.
    pub(super) saved: Saved,
}

/// Whether a copy goes to Sent Items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    Yes,
    No,
}

/// What is wrong with a body: Graph's code and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Invalid {
    pub(super) code: &'static str,
    pub(super) message: &'static str,
}

/// A draft that is not there, or not any more.
pub(super) const NO_DRAFT: Invalid =
    Invalid { code: "ErrorItemNotFound", message: "The specified object was not found in the store." };
const NOT_BASE64: Invalid =
    Invalid { code: "ErrorMimeContentInvalidBase64String", message: "Invalid base64 string for MIME content." };
const NO_RECIPIENTS: Invalid =
    Invalid { code: "ErrorInvalidRecipients", message: "At least one recipient is not valid." };
const NOT_JSON: Invalid = Invalid { code: "BadRequest", message: "Unable to read JSON request payload." };
const NO_MESSAGE: Invalid = Invalid { code: "ErrorInvalidRequest", message: "The message parameter is missing." };
const NO_TYPE: Invalid =
    Invalid { code: "BadRequest", message: "Content-Type is neither text/plain nor application/json." };

/// Reads a body of `content_type`, sent for `mailbox`.
pub(super) fn read(content_type: &str, body: &[u8], mailbox: &str) -> Result<Payload, Invalid> {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("text/plain") {
        mime_payload(body, mailbox)
    } else if kind.eq_ignore_ascii_case("application/json") {
        let value = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
        json_payload(&value, body.len(), mailbox)
    } else {
        Err(NO_TYPE)
    }
}

/// Reads the body of a draft: as of a send, but a JSON draft is the message itself.
pub(super) fn read_draft(content_type: &str, body: &[u8], mailbox: &str) -> Result<Payload, Invalid> {
    match serde_json::from_slice::<Value>(body) {
        Ok(message) if message.is_object() => {
            json_payload(&serde_json::json!({ "message": message }), body.len(), mailbox)
        }
        _ => read(content_type, body, mailbox),
    }
}

fn mime_payload(body: &[u8], mailbox: &str) -> Result<Payload, Invalid> {
    let encoded: Vec<u8> = body.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let mime = STANDARD.decode(&encoded).ok().filter(|mime| !mime.is_empty()).ok_or(NOT_BASE64)?;
    let headers = mime::headers(&mime);
    let cost = cost(headers.recipients.iter().map(String::as_str), body.len(), mailbox)?;
    Ok(Payload { cost, message_id: headers.message_id, saved: Saved::Yes })
}

fn json_payload(value: &Value, bytes: usize, mailbox: &str) -> Result<Payload, Invalid> {
    let message = value.get("message").filter(|message| message.is_object()).ok_or(NO_MESSAGE)?;
    let entries = ["toRecipients", "ccRecipients", "bccRecipients"]
        .into_iter()
        .filter_map(|list| message.get(list).and_then(Value::as_array))
        .flatten();
    let addresses = entries.map(|entry| entry.pointer("/emailAddress/address").and_then(Value::as_str).unwrap_or(""));
    let saved = value.get("saveToSentItems").and_then(Value::as_bool).unwrap_or(true);
    Ok(Payload {
        cost: cost(addresses, bytes, mailbox)?,
        message_id: message.get("internetMessageId").and_then(Value::as_str).map(str::to_owned),
        saved: if saved { Saved::Yes } else { Saved::No },
    })
}

/// One request; recipients of another domain than the mailbox's are external.
fn cost<'a>(addresses: impl Iterator<Item = &'a str>, bytes: usize, mailbox: &str) -> Result<Cost, Invalid> {
    let own = mailbox.rsplit_once('@').map_or("", |(_, domain)| domain);
    let mut cost = Cost::email(0, u64::try_from(bytes).unwrap_or(u64::MAX));
    for address in addresses {
        let (_, domain) = address.rsplit_once('@').ok_or(NO_RECIPIENTS)?;
        cost.recipients = cost.recipients.saturating_add(1);
        cost.external_recipients =
            cost.external_recipients.saturating_add(u32::from(!domain.eq_ignore_ascii_case(own)));
    }
    if cost.recipients == 0 { Err(NO_RECIPIENTS) } else { Ok(cost) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_body_gives_recipients_id_and_whether_to_save() {
        let body = br#"{"message":{"internetMessageId":"<1@x>","toRecipients":[{"emailAddress":{"address":"b@X"}}],
            "bccRecipients":[{"emailAddress":{"address":"c@y"}}]},"saveToSentItems":false}"#;
        let payload = read("application/json; charset=utf-8", body, "a@x").expect("valid");
        assert_eq!((payload.cost.recipients, payload.cost.external_recipients), (2, 1));
        assert_eq!(payload.cost.bytes, body.len() as u64);
        assert_eq!((payload.message_id.as_deref(), payload.saved), (Some("<1@x>"), Saved::No));
    }

    #[test]
    fn each_fault_of_a_body_has_its_own_code() {
        let no_recipients = STANDARD.encode("Subject: x\r\n\r\n");
        let nobody = STANDARD.encode("To: nobody\r\n\r\n");
        let rows: [(&str, &[u8], &str); 9] = [
            ("text/plain", b"not base64!", "ErrorMimeContentInvalidBase64String"),
            ("text/plain", b"", "ErrorMimeContentInvalidBase64String"),
            ("text/plain", no_recipients.as_bytes(), "ErrorInvalidRecipients"),
            ("text/plain", nobody.as_bytes(), "ErrorInvalidRecipients"),
            ("application/json", b"{", "BadRequest"),
            ("application/json", b"{}", "ErrorInvalidRequest"),
            ("application/json", b"{\"message\":{}}", "ErrorInvalidRecipients"),
            ("application/json", b"{\"message\":{\"toRecipients\":[{}]}}", "ErrorInvalidRecipients"),
            ("text/html", b"x", "BadRequest"),
        ];
        for (kind, body, code) in rows {
            assert_eq!(read(kind, body, "a@x").map_err(|invalid| invalid.code), Err(code), "{kind}");
        }
    }
}
