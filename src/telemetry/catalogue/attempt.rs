//! The part of the catalogue that is about attempts.

use tracing::{debug, field, warn};

use super::{ATTEMPT_FINISHED, SEND, is_unknown, millis, shown};
use crate::telemetry::{EventKind, Redaction};

pub(super) fn trace(kind: &EventKind, redaction: Redaction) {
    let EventKind::AttemptFinished { operation_id, mailbox, lane, outcome, status, attempt, waited } = kind else {
        return;
    };
    // The level is part of a call site, so the two levels of this event need one each.
    macro_rules! attempt_finished {
        ($level:ident) => {
            $level!(
                name: ATTEMPT_FINISHED, target: SEND, {
                    operation.id = operation_id.as_deref(),
                    mailbox = shown(mailbox.as_deref(), redaction).map(field::display),
                    %lane,
                    send.outcome = outcome,
                    http.response.status_code = status,
                    attempt,
                    wait_ms = millis(*waited),
                },
                "attempt finished"
            )
        };
    }
    if is_unknown(outcome) { attempt_finished!(warn) } else { attempt_finished!(debug) }
}
