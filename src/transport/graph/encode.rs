//! Small encodings: path segments, correlation ids, and the email as Graph wants it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::Hasher;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::recipients::named;
use crate::email::Email;
use crate::transport::Attempt;

/// `text` with everything but RFC 3986's unreserved characters and `@` percent-encoded.
pub(super) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}"); // writing to a String cannot fail
        }
    }
    out
}

/// `/users/{mailbox}/{rest}`; `None` for a mailbox that cannot be a path segment.
pub(super) fn user_path(mailbox: &str, rest: &str) -> Option<String> {
    // A dot segment would be resolved away by whoever reads the URL.
    let plain = !matches!(mailbox, "" | "." | "..") && !mailbox.contains(char::is_control);
    plain.then(|| format!("/users/{}/{rest}", percent(mailbox)))
}

/// A GUID that is the same in every attempt of an operation: its own id if that is one, else a hash of it.
///
/// Graph logs it and does not act on it, so collisions are harmless.
pub(super) fn correlation_id(operation_id: &str) -> String {
    if let Ok(id) = uuid::Uuid::try_parse(operation_id) {
        return id.hyphenated().to_string();
    }
    let half = |salt: u8| {
        let mut hasher = fnv::FnvHasher::default();
        hasher.write(&[salt]);
        hasher.write(operation_id.as_bytes());
        hasher.finish().to_be_bytes()
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&half(0));
    bytes[8..].copy_from_slice(&half(1));
    uuid::Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string()
}

/// The email's `Message-ID`, or one that is the same in every attempt of its operation. `None` where it has one that no
/// look-up can name.
pub(super) fn message_id(attempt: &Attempt) -> Option<Cow<'_, str>> {
    if let Some(id) = attempt.email.internet_message_id() {
        return Some(Cow::Borrowed(id));
    }
    if attempt.email.header_fields().any(|(name, _)| name.eq_ignore_ascii_case(b"message-id")) {
        return None;
    }
    let domain = attempt.mailbox.rsplit_once('@').map_or("", |(_, domain)| domain);
    let spelled = domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let domain = if spelled && !domain.is_empty() { domain } else { "mailweir.invalid" };
    Some(Cow::Owned(format!("<{}@{domain}>", correlation_id(&attempt.operation_id))))
}

/// The MIME in base64; `None` if its headers name somebody who is not in the envelope.
///
/// Graph has no envelope: it sends to whoever stands in `To`, `Cc` and `Bcc`. Recipients of the envelope that stand in
/// none of them are added as `Bcc`, which Exchange removes before delivery. The other way round the email would reach
/// people whom nobody counted, so it is refused.
///
/// `message_id` is put in where the email has none of its own.
pub(super) fn body(email: &Email, message_id: Option<&str>) -> Option<String> {
    let named: BTreeSet<String> = named(email).iter().map(|address| canonical(address)).collect();
    let envelope: BTreeSet<String> = email.recipients().map(canonical).collect();
    if named.iter().any(|address| is_plain(address) && !envelope.contains(address)) {
        return None;
    }
    let blind: Vec<&str> = email.recipients().filter(|recipient| !named.contains(&canonical(recipient))).collect();
    let message_id = message_id.filter(|_| email.internet_message_id().is_none());
    let mime = if blind.is_empty() && message_id.is_none() {
        Cow::Borrowed(email.mime())
    } else {
        let mut mime = message_id.map(|id| format!("Message-ID: {id}\r\n")).unwrap_or_default().into_bytes();
        if !blind.is_empty() {
            mime.extend_from_slice(format!("Bcc: {}\r\n", blind.join(",\r\n ")).as_bytes());
        }
        mime.extend_from_slice(email.mime());
        Cow::Owned(mime)
    };
    Some(STANDARD.encode(mime))
}

/// Whether two spellings of this address cannot differ in more than case and quotes.
fn is_plain(address: &str) -> bool {
    address.is_ascii() && !address.contains("xn--")
}

/// One spelling for all of an address: in lower case, its local part without quotes and escapes.
fn canonical(address: &str) -> String {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let local = match local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => unescaped(quoted),
        None => local.to_owned(),
    };
    format!("{local}@{domain}").to_ascii_lowercase()
}

fn unescaped(quoted: &str) -> String {
    let (mut text, mut chars) = (String::with_capacity(quoted.len()), quoted.chars());
    while let Some(c) = chars.next() {
        text.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_leave_nothing_to_interpret() {
        assert_eq!(percent("a+b/c?d#e%f g@h.example"), "a%2Bb%2Fc%3Fd%23e%25f%20g@h.example");
        assert_eq!(percent("ж"), "%D0%B6");
        assert_eq!(user_path("a/../b@c", "sendMail").as_deref(), Some("/users/a%2F..%2Fb@c/sendMail"));
        for mailbox in ["", ".", "..", "a\r\nb", "a\tb"] {
            assert_eq!(user_path(mailbox, "sendMail"), None, "{mailbox:?}");
        }
    }

    #[test]
    fn the_correlation_id_is_a_stable_guid() {
        let id = "019A2B3C-4D5E-7F60-8123-456789ABCDEF";
        assert_eq!(correlation_id(id), id.to_lowercase());
        let hashed = correlation_id("reset-1");
        assert_eq!(hashed, correlation_id("reset-1"));
        assert_ne!(hashed, correlation_id("reset-2"));
        assert!(uuid::Uuid::try_parse(&hashed).is_ok(), "{hashed}");
    }

    fn decoded(email: &Email) -> Option<String> {
        body(email, None).map(|body| String::from_utf8(STANDARD.decode(body).expect("base64")).expect("text"))
    }

    #[test]
    fn recipients_in_no_header_are_added_as_blind_copies() {
        let mime = "From: n@c.example\r\nTo: Ann <ann@a.example>\r\n\r\nHello";
        let email =
            Email::from_mime("n@c.example", ["Ann@a.example", "bob@b.example", "cid@c.example"], mime.as_bytes());
        let sent = decoded(&email.expect("an email")).expect("sendable");
        assert_eq!(sent, format!("Bcc: bob@b.example,\r\n cid@c.example\r\n{mime}"));
        let email = Email::from_mime("n@c.example", ["ann@a.example"], mime.as_bytes()).expect("an email");
        assert_eq!(decoded(&email).as_deref(), Some(mime), "nobody missing: the very bytes");
    }

    #[test]
    fn an_email_whose_headers_name_more_people_than_its_envelope_is_refused() {
        for header in ["To: ann@a.example, eve@e.example", "To: ann@a.example\r\nBcc: eve@e.example"] {
            let mime = format!("{header}\r\n\r\nHello");
            let email = Email::from_mime("n@c.example", ["ann@a.example"], mime.as_bytes()).expect("an email");
            assert_eq!(body(&email, None), None, "{header}");
        }
    }

    #[test]
    fn quoted_local_parts_and_address_literals_are_the_envelopes() {
        for recipient in
            ["\"ann smith\"@a.example", "ann@[192.0.2.1]", "ann@[IPv6:2001:db8::1]", "\"a,\\\"@b\"@c.example"]
        {
            for to in [recipient.to_owned(), format!("Ann <{recipient}>"), format!("\"Smith, Ann\" <{recipient}>")] {
                let mime = format!("To: {to}, bob@b.example\r\n\r\nHello");
                let email = Email::from_mime("n@c.example", [recipient, "bob@b.example"], mime.as_bytes());
                assert_eq!(decoded(&email.expect("an email")), Some(mime), "{to}");
                let mime = format!("To: {to}\r\n\r\nHello");
                let email = Email::from_mime("n@c.example", ["bob@b.example"], mime.as_bytes()).expect("an email");
                assert_eq!(body(&email, None), None, "{to} is a stranger");
            }
        }
    }

    #[test]
    fn quotes_that_say_nothing_make_no_other_address() {
        let mime = "To: \"a\\nn\"@a.example\r\n\r\nHello";
        let email = Email::from_mime("n@c.example", ["Ann@a.example"], mime.as_bytes()).expect("an email");
        assert_eq!(decoded(&email).as_deref(), Some(mime));
    }
}
