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
        Some(ServerErrorKind::NoPerm) => unusable(&missing(error.details().unwrap_or_default())),
        Some(ServerErrorKind::CrossSlot) => unusable("the server is a Cluster; use redis+cluster://"),
        Some(ServerErrorKind::ResponseError | ServerErrorKind::NotBusy | ServerErrorKind::NoSub) => {
            let detail = error.details().unwrap_or_default();
            // Redis 7.0 says the one, later ones the other.
            if detail.starts_with("The user executing the script") || detail.starts_with("ACL failure in script") {
                return unusable(&missing(detail));
            }
            let detail: String = detail.chars().take(120).collect();
            StoreError::Damaged { reason: format!("redis answered {code} {detail}") }
        }
        Some(_) => unavailable(format!("redis answered {code}")),
        None => match code {
            "OOM" => StoreError::Full { bound: "maxmemory of redis".to_owned() },
            "NOAUTH" | "WRONGPASS" => unusable(LOGIN),
            "WRONGTYPE" => {
                StoreError::Damaged { reason: "redis holds another kind of value under a key of ours".to_owned() }
            }
            // MISCONF: it cannot write to its disk. BUSY: a script runs. LATE: one of ours.
            _ => unavailable(format!("redis answered {code}")),
        },
    }
}

/// What a person has to look at.
const LOGIN: &str = "user or password are wrong; they stand before the @ of store.url";

/// The right that a user lacks. Of what the server said only the name of a command is repeated.
fn missing(said: &str) -> String {
    let command = said.split('\'').nth(1).filter(|name| {
        name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"|-_".contains(&byte))
    });
    let what = match command {
        Some(command) => format!("may not run {command} (+{command})"),
        None if said.contains("subcommand") => {
            "may not run a command of a script (which one is told at a start)".to_owned()
        }
        None if said.contains("channel") => "may not use the channel of the prefix (&PREFIX:news)".to_owned(),
        None => "may not touch the keys of the prefix (~PREFIX:*)".to_owned(),
    };
    format!("the user of store.url {what}; allow it with ACL SETUSER, as docs/redis.md has it")
}

/// What is wrong with a server's certificate, and the way out.
fn of_tls(error: &RedisError) -> Option<StoreError> {
    if !error.is_io_error() {
        return None;
    }
    // The words of the library; what is told are our own.
    let said = error.to_string();
    let reason = if said.contains("UnknownIssuer") || said.contains("BadSignature") {
        "nobody who is trusted has signed the server's certificate; name the file of its CA under store.redis.ca_file"
    } else if said.contains("NotValidForName") || said.contains("not valid for name") {
        "the server's certificate is for another name than the host of store.url; write the name that it is for"
    } else if said.contains("Expired") || said.contains("expired") {
        "the server's certificate has expired; renew it"
    } else if said.contains("peer certificate") {
        "the server's certificate is not good; look at it, at store.redis.ca_file and at the host of store.url"
    } else if said.contains("corrupt message") {
        "the server does not speak TLS at the port of store.url; name its tls-port, or write redis:// for none"
    } else {
        return None;
    };
    Some(StoreError::Unusable { reason: format!("redis: {reason}") })
}

/// What came instead of an answer.
pub(super) fn broken(error: &RedisError) -> StoreError {
    if let Some(told) = of_tls(error) {
        return told;
    }
    if let Some((_, said)) = error.clone().into_server_errors().as_deref().and_then(<[_]>::first) {
        return refused(said);
    }
    if matches!(error.kind(), redis::ErrorKind::AuthenticationFailed) {
        return StoreError::Unusable { reason: format!("redis did not let us in: {LOGIN}") };
    }
    if matches!(error.kind(), redis::ErrorKind::InvalidClientConfig) {
        // Words of the library, without any of ours in it.
        if error.to_string().contains("sentinel node") {
            let reason = "redis: the URL leads to a server that is no sentinel; name sentinels, or write redis://";
            return StoreError::Unusable { reason: reason.to_owned() };
        }
        return StoreError::Unusable { reason: format!("redis cannot be reached like this: {}", error.category()) };
    }
    #[cfg(feature = "redis-sentinel")]
    if matches!(error.kind(), redis::ErrorKind::MasterNameNotFoundBySentinel) {
        return unavailable(
            "redis: no sentinel names a master that is up; when no failover is under way, look at the name after the \
             hosts of the URL",
        );
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
