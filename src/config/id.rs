//! What an id may be, wherever it comes from: a submission, an order, the configuration.
//!
//! Ids travel into headers, logs, URLs and stores, so they are short and free of control characters.

/// Longest mailbox id, in bytes: the longest address that SMTP can carry (RFC 5321, 4.5.3.1.3, with angle brackets).
pub(crate) const MAILBOX_ID_BYTES_MAX: usize = 256;
/// Longest tenant, caller, campaign or admission key, in bytes.
pub(crate) const LABEL_BYTES_MAX: usize = 128;

/// Why a text is no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdFault {
    Empty,
    /// So many bytes.
    TooLong(usize),
    /// The byte where it stands, and the character.
    Control(usize, char),
}

/// Judges one id: not empty, not over its bound, nothing that can break a header or a log line.
pub(crate) fn check_id(value: &str, bytes_max: usize) -> Result<(), IdFault> {
    if value.is_empty() {
        return Err(IdFault::Empty);
    }
    if value.len() > bytes_max {
        return Err(IdFault::TooLong(value.len()));
    }
    match value.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(IdFault::Control(at, c)),
        None => Ok(()),
    }
}
