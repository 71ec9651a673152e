//! The form of an address: enough to keep nonsense and injection out, not a full RFC 5321 grammar.
//!
//! Only the provider knows which addresses exist. What is refused here can never be one, or would change the meaning
//! of a header or command that it is written into.

use super::error::{AddressFault, EmailError, Field};

/// Longest address: 64 bytes, the `@`, 255 bytes (RFC 5321, 4.5.3.1).
const ADDRESS_BYTES_MAX: usize = 320;
const LOCAL_BYTES_MAX: usize = 64;
const DOMAIN_BYTES_MAX: usize = 255;
const LABEL_BYTES_MAX: usize = 63;

/// Refuses what cannot be a bare address.
pub(super) fn check(address: &str, field: Field) -> Result<(), EmailError> {
    control_free(address, field)?;
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(EmailError::TooLong { field, bytes: address.len(), max: ADDRESS_BYTES_MAX });
    }
    shape(address).map_err(|fault| EmailError::Address { field, fault })
}

/// Refuses control characters, C1 and the Unicode line separators included.
pub(super) fn control_free(text: &str, field: Field) -> Result<(), EmailError> {
    match text.char_indices().find(|(_, c)| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        Some((at, _)) => Err(EmailError::ControlCharacter { field, at }),
        None => Ok(()),
    }
}

/// The part after the last `@`, or the whole where there is none.
pub(super) fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, domain)| domain)
}

fn shape(address: &str) -> Result<(), AddressFault> {
    if address.is_empty() {
        return Err(AddressFault::Empty);
    }
    let (local, domain) = address.rsplit_once('@').ok_or(AddressFault::NoAt)?;
    if !is_local(local) {
        return Err(AddressFault::Local);
    }
    if is_domain(domain) || is_literal(domain) { Ok(()) } else { Err(AddressFault::Domain) }
}

fn is_local(local: &str) -> bool {
    if local.is_empty() || local.len() > LOCAL_BYTES_MAX {
        return false;
    }
    match local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => is_quoted(quoted),
        None => !local.contains(|c: char| c.is_whitespace() || "\"(),:;<>@[\\]".contains(c)),
    }
}

/// Whether every quote and backslash within is escaped.
fn is_quoted(text: &str) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            _ => {}
        }
    }
    !escaped
}

fn is_domain(domain: &str) -> bool {
    domain.len() <= DOMAIN_BYTES_MAX && domain.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// `[192.0.2.1]`, `[IPv6:2001:db8::1]`.
fn is_literal(domain: &str) -> bool {
    domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).is_some_and(|inner| {
        match inner.strip_prefix("IPv6:") {
            Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
            None => inner.parse::<std::net::Ipv4Addr>().is_ok(),
        }
    })
}
