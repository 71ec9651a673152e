//! An attempt ends after the wait for its connection, so that "no connection" is told from "may have been sent".

use super::{Broken, show_duration};
use crate::config::settings::{TransportConfig, TransportKind};
use crate::engine::policy::RetryPolicy;

pub(super) fn of_connect(retry: &RetryPolicy, transport: &TransportConfig) -> Option<Broken> {
    let (attempt, connect) = (retry.attempt_timeout, transport.graph.connect_timeout);
    (transport.kind == TransportKind::Graph && connect >= attempt).then(|| {
        Broken::conflict(
            &["retry.attempt_timeout", "transport.graph.connect_timeout"],
            format!(
                "an attempt ends after {}, before a connection is given up after transport.graph.connect_timeout = {}: \
                 it would count as perhaps sent, and nothing has left",
                show_duration(attempt),
                show_duration(connect)
            ),
            format!("above {}, or a shorter transport.graph.connect_timeout", show_duration(connect)),
        )
    })
}
