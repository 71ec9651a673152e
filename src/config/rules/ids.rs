//! The ids that a configuration gives: what a submission may not name, its table may not name either.

use crate::config::error::{Problem, ProblemKind};
use crate::config::id::{IdFault, LABEL_BYTES_MAX, MAILBOX_ID_BYTES_MAX, check_id};
use crate::config::mailboxes::TENANT;
use crate::config::value::{Value, quoted};
use crate::config::{Config, mailbox_key};

/// The id of one mailbox's table, and the tenant in it.
pub(super) fn of_mailbox_ids(config: &Config, id: &str) -> Vec<Problem> {
    let tenant = config.tenant_of(id);
    let tenant = tenant.and_then(|tenant| problem(config, mailbox_key(id, TENANT), tenant, LABEL_BYTES_MAX));
    let mailbox = problem(config, format!("mailboxes.{}", quoted(id)), id, MAILBOX_ID_BYTES_MAX);
    mailbox.into_iter().chain(tenant).collect()
}

fn problem(config: &Config, key: String, id: &str, bytes_max: usize) -> Option<Problem> {
    let (kind, detail) = match check_id(id, bytes_max).err()? {
        IdFault::Empty => (ProblemKind::OutOfRange, "it is empty".to_owned()),
        IdFault::TooLong(bytes) => (ProblemKind::OutOfRange, format!("it is {bytes} bytes long")),
        IdFault::Control(at, c) => {
            (ProblemKind::Malformed, format!("control character U+{:04X} at byte {at}", u32::from(c)))
        }
    };
    let (place, value) = (config.origins.place_in_file(&key), Value::Text(id.to_owned()).to_string());
    Some(Problem { kind, key, place, value, detail, allowed: format!("one line of 1 to {bytes_max} bytes") })
}
