//! One function for each kind of text that others write: what has to hold for any bytes.
//!
//! Three programs share this file: the libFuzzer targets beside it (`scripts/fuzz`), the test that replays the kept
//! corpus and mutations of it on a stable compiler (`tests/fuzz_corpus.rs`), and whoever debugs a finding. A function
//! panics when its parser does, or when what was read breaks a promise of its documentation.

#![allow(dead_code, reason = "each program uses the functions it needs")]

use http::{HeaderMap, HeaderName, HeaderValue};
use mailweir::Config;
use mailweir::config::{parse_size, show_size};
use mailweir::email::{Email, EmailBounds};
use mailweir::engine::{Limit, Verdict};
use mailweir::signals;
use mailweir::simulation::scenario::Scenario;
use mailweir::transport::graph::parsers;

/// `name: value` lines, as a provider might send them. What no HTTP library would hand over is left out.
fn header_map(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 1..]));
        if let (Ok(name), Ok(value)) = (name, value) {
            map.append(name, value);
        }
    }
    map
}

/// Header lines: no wait is longer than a day, and no use is read where none is given.
pub(crate) fn headers(data: &[u8]) {
    let map = header_map(data);
    for wait in [signals::retry_after(&map), signals::wait_hint(&map), signals::rate_limit_wait(&map)] {
        assert!(wait.is_none_or(|wait| wait <= signals::WAIT_MAX), "a wait of {wait:?}");
    }
    assert!(signals::wait_hint(&map) >= signals::retry_after(&map), "a hint shorter than Retry-After");
    let _ = (signals::rate_limits(&map), signals::rate_limit_policies(&map));
    let _ = (signals::throttle_scope(&map), signals::usage(&map));
}

/// Two bytes of status, header lines, an empty line, a body.
pub(crate) fn answers(data: &[u8]) {
    let Some((status, rest)) = data.split_first_chunk::<2>() else { return };
    let status = u16::from_be_bytes(*status) % 1_000;
    let split = rest.windows(2).position(|pair| pair == b"\n\n");
    let (lines, body) = split.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 2..]));
    let answer = signals::judge(status, &header_map(lines), body);
    assert_eq!(answer.status, Some(status));
    assert_eq!(answer.verdict == Verdict::Accepted, status == 202, "{status} is {:?}", answer.verdict);
    if status == 429 {
        assert!(matches!(answer.verdict, Verdict::Throttled(_)), "429 is {:?}", answer.verdict);
    }
    let wait = match &answer.verdict {
        Verdict::Throttled(throttle) => throttle.retry_after,
        Verdict::Transient { retry_after, .. } => *retry_after,
        _ => None,
    };
    assert!(wait.is_none_or(|wait| wait <= signals::WAIT_MAX), "a wait of {wait:?}");
    let id = answer.provider_id.unwrap_or_default();
    assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "an id that breaks a line");
}

/// A limit or a size: what is read prints as something that reads back equal.
pub(crate) fn limits(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Limit>() {
        Ok(limit) => assert_eq!(limit.to_string().parse(), Ok(limit), "{text:?} prints as {limit}"),
        // It repeats two pieces of at most 80 characters, each of which may be written as `\u{10ffff}`.
        Err(error) => assert!(error.to_string().len() < 2_000, "an error as long as its input"),
    }
    if let Some(size) = parse_size(text) {
        assert_eq!(parse_size(&show_size(size)), Some(size), "{text:?} prints as {}", show_size(size));
    }
}

/// A configuration: taken whole and valid, or refused with places inside the text and values that can be printed.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::from_toml(text, "fuzz") {
        Ok(config) => assert!(config.validate().is_ok(), "taken, and not valid"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            for problem in error.problems() {
                let inside = |span: &std::ops::Range<usize>| text.get(span.clone()).is_some();
                assert!(problem.place.as_ref().is_none_or(|place| inside(&place.span)), "{problem} is outside");
            }
        }
    }
}

/// An envelope of two lines, then RFC 5322 bytes: what is taken can be counted, named and sent in an envelope.
pub(crate) fn mime(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (sender, recipients, bytes) = (line(), line(), line());
    let (Ok(sender), Ok(recipients)) = (std::str::from_utf8(sender), std::str::from_utf8(recipients)) else { return };
    let Ok(email) = Email::from_mime(sender, recipients.split(' '), bytes) else { return };
    assert_eq!(email.mime(), bytes, "sent as it was given");
    for address in email.recipients().chain([email.sender()]) {
        assert!(!address.bytes().any(|byte| byte <= b' ' || byte == b'<' || byte == b'>'), "an envelope that breaks");
    }
    let cost = email.cost(&["example.org"]);
    assert!(cost.external_recipients <= cost.recipients && cost.requests == 1);
    assert!(email.internet_message_id().is_none_or(|id| !id.contains(['\r', '\n'])), "an id that breaks a line");
    assert!(email.check(EmailBounds::DEFAULT).is_ok());
}

/// Parts, a line each: whatever is in them, the header block holds the fields that were asked for and no other.
pub(crate) fn parts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut fields = text.split('\u{1}');
    let mut field = || fields.next().unwrap_or_default();
    let mut parts = Email::parts().from(field()).to(field()).bcc(field()).subject(field()).text(field());
    let (name, value) = (field(), field());
    if !name.is_empty() {
        parts = parts.header(name, value);
    }
    let Ok(email) = parts.build() else { return };
    let mime = String::from_utf8_lossy(email.mime());
    let head = mime.split("\r\n\r\n").next().unwrap_or_default();
    for line in head.split("\r\n").filter(|line| !line.starts_with([' ', '\t'])) {
        let found = line.split(':').next().unwrap_or_default();
        let written = ["From", "To", "Subject", "Date", "Message-ID", "MIME-Version"];
        let known = written.iter().any(|known| known.eq_ignore_ascii_case(found))
            || found.eq_ignore_ascii_case(name)
            || found.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"));
        assert!(known, "a header nobody asked for: {line:?}");
    }
    assert!(!head.contains('\n') || !head.replace("\r\n", "").contains(['\r', '\n']), "a bare line break in the head");
}

/// A status, then a body.
fn status_and_body(data: &[u8]) -> Option<(u16, &[u8])> {
    data.split_first_chunk::<2>().map(|(status, body)| (u16::from_be_bytes(*status) % 1_000, body))
}

/// The body of a `$batch`: one answer per item, whatever it says, and no wait longer than a day.
pub(crate) fn batch(data: &[u8]) {
    let Some((status, body)) = status_and_body(data) else { return };
    for count in [0, 1, 4, 20] {
        let answers = parsers::batch(status, body, count);
        assert_eq!(answers.len(), count, "one answer per item");
        let told = body.windows(3).any(|piece| piece == b"202");
        for answer in answers {
            assert!(told || answer.verdict != Verdict::Accepted, "accepted, and nobody said so");
            let wait = match &answer.verdict {
                Verdict::Throttled(throttle) => throttle.retry_after,
                Verdict::Transient { retry_after, .. } => *retry_after,
                _ => None,
            };
            assert!(wait.is_none_or(|wait| wait <= signals::WAIT_MAX), "a wait of {wait:?}");
        }
    }
}

/// The answer of a token endpoint: what is taken fits into a header and ends, and what is refused is told in one line.
pub(crate) fn token(data: &[u8]) {
    let Some((status, body)) = status_and_body(data) else { return };
    match parsers::token(status, body) {
        Ok((token, lifetime)) => {
            assert!(
                !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()),
                "a token that breaks a header"
            );
            assert!(lifetime <= parsers::TOKEN_LIFETIME_MAX, "{lifetime:?}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 500 && !text.contains(['\r', '\n']), "{text:?}");
        }
    }
}

/// What Graph says of a draft: an id that can stand in a path, or none.
pub(crate) fn draft(data: &[u8]) {
    let Some((status, body)) = status_and_body(data) else { return };
    for id in parsers::drafts(status, body, "<1@contoso.example>").into_iter().flatten() {
        assert!(!matches!(&*id, "" | "." | "..") && !id.contains(char::is_control), "{id:?}");
    }
}

/// Whether an email is in Sent Items: only a whole, successful answer says so.
pub(crate) fn reconcile(data: &[u8]) {
    let Some((status, body)) = status_and_body(data) else { return };
    let id = "<1@contoso.example>";
    let found = parsers::found(status, body, id);
    assert!(status == 200 || found.is_none(), "{status} says {found:?}");
}

/// A scenario: taken, or refused with places inside the text.
pub(crate) fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A configuration that it names is a file of this machine.
    if text.lines().any(|line| line.trim_start().starts_with("config") && line.contains(['"', '\''])) {
        return;
    }
    if let Err(error) = Scenario::from_toml(text, "fuzz") {
        assert!(!error.to_string().is_empty());
        for problem in error.problems() {
            let inside = |span: &std::ops::Range<usize>| text.get(span.clone()).is_some();
            assert!(problem.place.as_ref().is_none_or(|place| inside(&place.span)), "{problem} is outside");
        }
    }
}
