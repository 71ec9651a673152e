//! Small encodings: path segments, correlation ids, and the email as Graph wants it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::Hasher;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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
    let named = named(email);
    let envelope: BTreeSet<String> = email.recipients().map(str::to_ascii_lowercase).collect();
    if named.iter().any(|address| is_plain(address) && !envelope.contains(address)) {
        return None;
    }
    let blind: Vec<&str> =
        email.recipients().filter(|recipient| !named.contains(&recipient.to_ascii_lowercase())).collect();
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

/// Whether two spellings of this address cannot differ in more than case.
fn is_plain(address: &str) -> bool {
    address.is_ascii() && !address.contains("xn--") && !address.contains('"')
}

/// The addresses in `To`, `Cc` and `Bcc`, in lower case.
fn named(email: &Email) -> BTreeSet<String> {
    const NAMES: [&[u8]; 3] = [b"to", b"cc", b"bcc"];
    email
        .header_fields()
        .filter(|(name, _)| NAMES.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
        .flat_map(|(_, value)| addresses(&String::from_utf8_lossy(value)))
        .collect()
}

/// The addresses of a list (RFC 5322, 3.4). Display names and comments are skipped; what is not understood yields an
/// address too few, and the recipient is named once more in `Bcc`.
fn addresses(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut take = |token: &mut String| {
        let inner = token.rsplit_once('<').map_or(token.as_str(), |(_, inner)| inner);
        let address = inner.split('>').next().unwrap_or_default().trim();
        if address.contains('@') && !address.contains(char::is_whitespace) {
            found.push(address.to_ascii_lowercase());
        }
        token.clear();
    };
    let (mut token, mut quoted, mut depth) = (String::new(), false, 0_u32);
    let mut chars = list.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted || depth > 0 => drop(chars.next()),
            '"' if depth == 0 => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ',' | ';' | ':' if !token.contains('<') || token.contains('>') => take(&mut token),
            _ => token.push(c),
        }
    }
    take(&mut token);
    found
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

    #[test]
    fn addresses_are_found_and_names_are_not() {
        for (list, expected) in [
            (" ann@a.example", &["ann@a.example"][..]),
            (" Ann <ann@a.example>\r\n", &["ann@a.example"]),
            ("Ann <ANN@a.example>, bob@b.example", &["ann@a.example", "bob@b.example"]),
            ("\"eve@e.example\" <ann@a.example>", &["ann@a.example"]),
            ("ann@a.example (eve@e.example)", &["ann@a.example"]),
            ("\"Last, First \\\" x\" <ann@a.example>", &["ann@a.example"]),
            ("Friends: ann@a.example, bob@b.example;", &["ann@a.example", "bob@b.example"]),
            ("undisclosed-recipients:;", &[]),
            ("ann@a.example,\r\n bob@b.example\r\n", &["ann@a.example", "bob@b.example"]),
            ("\"ann smith\"@a.example", &["@a.example"]),
            ("((((", &[]),
        ] {
            assert_eq!(addresses(list), expected, "{list}");
        }
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
}
