//! What went wrong, in the store's words. Nothing here repeats a URL or a command: those hold secrets and emails.

use redis::{RedisError, ServerError, ServerErrorKind};

use crate::store::StoreError;

/// It may work later.
pub(super) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into() }
}

/// Something that is stored cannot be read.
pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged { reason: format!("redis holds {}", what.into()) }
}

/// What the server answered instead of doing it.
pub(super) fn refused(error: &ServerError) -> StoreError {
    // The code alone and known words: details of a script's error may quote its arguments.
    let code = error.code();
    let unusable = |way_out: &str| StoreError::Unusable { reason: format!("redis answered {code}: {way_out}") };
    match error.kind() {
        Some(ServerErrorKind::NoPerm) => unusable("its user may not do that; allow it the commands of docs/redis.md"),
        Some(ServerErrorKind::CrossSlot) => unusable("the server is a Cluster; use redis+cluster://"),
        Some(ServerErrorKind::ResponseError | ServerErrorKind::NotBusy | ServerErrorKind::NoSub) => {
            let detail = error.details().unwrap_or_default();
            let detail: String = detail.chars().take(120).collect();
            StoreError::Damaged { reason: format!("redis answered {code} {detail}") }
        }
        Some(_) => unavailable(format!("redis answered {code}")),
        None => match code {
            "OOM" => StoreError::Full { bound: "maxmemory of redis".to_owned() },
            "NOAUTH" | "WRONGPASS" => unusable("user or password are wrong"),
            "WRONGTYPE" => {
                StoreError::Damaged { reason: "redis holds another kind of value under a key of ours".to_owned() }
            }
            // MISCONF: it cannot write to its disk. BUSY: a script runs. LATE: one of ours.
            _ => unavailable(format!("redis answered {code}")),
        },
    }
}

/// What came instead of an answer.
pub(super) fn broken(error: &RedisError) -> StoreError {
    if let Some((_, said)) = error.clone().into_server_errors().as_deref().and_then(<[_]>::first) {
        return refused(said);
    }
    if matches!(error.kind(), redis::ErrorKind::AuthenticationFailed) {
        return StoreError::Unusable { reason: "redis did not let us in: user or password are wrong".to_owned() };
    }
    if matches!(error.kind(), redis::ErrorKind::InvalidClientConfig) {
        return StoreError::Unusable { reason: format!("redis cannot be reached like this: {}", error.category()) };
    }
    let why = if error.is_timeout() {
        "it did not answer in time"
    } else if error.is_connection_refusal() {
        "it refuses the connection"
    } else if error.is_connection_dropped() {
        "the connection was lost"
    } else {
        error.category()
    };
    unavailable(format!("redis: {why}"))
}
