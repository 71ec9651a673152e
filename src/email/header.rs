//! The header block of a MIME message: its shape, its fields, its `Message-ID`. Bytes in, slices out.

use super::error::EmailError;

/// Longest `Message-ID` that is taken for one: a line's length (RFC 5322, 2.1.1).
const MESSAGE_ID_BYTES_MAX: usize = 998;

/// Refuses bytes that do not begin with at least one header field.
pub(super) fn check(mime: &[u8]) -> Result<(), EmailError> {
    let mut lines = 0;
    for (index, line) in block(mime).enumerate() {
        let fold = index > 0 && matches!(line.first(), Some(b' ' | b'\t'));
        let sound = !line.contains(&0) && !line.contains(&b'\r') && (fold || split(line).is_some());
        if !sound {
            return Err(EmailError::Header { line: index + 1 });
        }
        lines += 1;
    }
    if lines == 0 { Err(EmailError::Header { line: 1 }) } else { Ok(()) }
}

/// The fields in order, as (name, raw value with its folds).
pub(super) fn fields(mime: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = mime;
    std::iter::from_fn(move || {
        let (first, mut end) = line(rest)?;
        let (name, value) = split(first)?;
        while let Some((next, length)) = line(&rest[end..]) {
            if !matches!(next.first(), Some(b' ' | b'\t')) {
                break;
            }
            end += length;
        }
        // The value starts in `first`, which is a prefix of `rest`; it reaches to the end of the last fold.
        let start = first.len() - value.len();
        let whole = &rest[start..end];
        rest = &rest[end..];
        Some((name, whole))
    })
}

/// The value of `Message-ID`, if it is one.
pub(super) fn message_id(mime: &[u8]) -> Option<&str> {
    let (_, value) = fields(mime).find(|(name, _)| name.eq_ignore_ascii_case(b"message-id"))?;
    let id = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t', '\r', '\n']);
    is_message_id(id).then_some(id)
}

/// Whether `id` has the form `<left@right>`, without spaces or control characters.
pub(super) fn is_message_id(id: &str) -> bool {
    id.len() <= MESSAGE_ID_BYTES_MAX
        && id.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).is_some_and(|inner| {
            inner.split_once('@').is_some_and(|(left, right)| !left.is_empty() && !right.is_empty())
                && !inner.contains(|c: char| c.is_whitespace() || c.is_control() || c == '<' || c == '>')
        })
}

/// Whether `name` can be the name of a header field: printable ASCII without the colon (RFC 5322, 2.2).
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_graphic() && *b != b':')
}

/// Lines of the header block, without their ends; stops at the empty line or at the end.
fn block(mime: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = mime;
    std::iter::from_fn(move || {
        let (text, length) = line(rest)?;
        rest = &rest[length..];
        (!text.is_empty()).then_some(text)
    })
}

/// The first line without its end, and its length with it.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    if bytes.is_empty() {
        return None;
    }
    let (text, length) = match bytes.iter().position(|b| *b == b'\n') {
        Some(at) => (&bytes[..at], at + 1),
        None => (bytes, bytes.len()),
    };
    Some((text.strip_suffix(b"\r").unwrap_or(text), length))
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|b| *b == b':')?;
    is_name(&line[..colon]).then(|| (&line[..colon], &line[colon + 1..]))
}
