//! The parsers of what Graph and its token endpoint answer, for those who feed them anything: `fuzz/targets.rs`.
//!
//! Not an interface to build upon: it is there with `test-util` alone, and follows the parsers wherever they go.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderMap;

use super::token::{self, TokenError};
use super::wire::Reply;
use super::{batch, reconcile};
use crate::engine::Answer;
use crate::signals::Unavailable;

/// The longest life that a token is believed to have.
pub const TOKEN_LIFETIME_MAX: Duration = token::LIFETIME_MAX;

fn reply(status: u16, body: &[u8]) -> Reply {
    Reply { status, headers: HeaderMap::new(), body: body.to_vec() }
}

/// What a `$batch` of `count` items came to.
#[must_use]
pub fn batch(status: u16, body: &[u8], count: usize) -> Vec<Answer> {
    batch::answers(&reply(status, body), count, Unavailable::default())
}

/// What a token endpoint gave, and for how long.
///
/// # Errors
/// As [`TokenSource::token`](super::TokenSource::token).
pub fn token(status: u16, body: &[u8]) -> Result<(String, Duration), TokenError> {
    match StatusCode::from_u16(status) {
        Ok(StatusCode::OK) => token::granted(body),
        other => Err(token::refused(other.unwrap_or(StatusCode::BAD_GATEWAY), None, body)),
    }
}

/// The ids of drafts that an answer names: the one that was created, and the one that was looked for.
#[must_use]
pub fn drafts(status: u16, body: &[u8], message_id: &str) -> [Option<Arc<str>>; 2] {
    let reply = reply(status, body);
    let found = match reply.draft(message_id) {
        Some(reconcile::Look::Found(id)) => Some(id),
        Some(reconcile::Look::Nothing) | None => None,
    };
    [reply.created(), found]
}

/// Whether an email is in Sent Items; `None`: the answer does not say.
#[must_use]
pub fn found(status: u16, body: &[u8], message_id: &str) -> Option<bool> {
    reconcile::found(&reply(status, body), message_id)
}
