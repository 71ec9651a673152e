//! Entries of the script that writes rows: what is new, and what may be there already.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::context::Context;
use super::fault::damaged;
use super::instant::Translation;
use super::names::key_text;
use super::news::word;
use super::row::{self, Holder};
use super::{scripts, value};
use crate::engine::OperationKey;
use crate::store::fleet::News;
use crate::store::{Inserted, NewOperation, StoreError};

/// How long after an id was given its row may be written. Far above every wait of ours, far below the patience of `mend`.
const ROW_WITHIN: Duration = Duration::from_secs(5);

/// What the owner of the mailbox is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posts {
    /// Nothing: it stores them itself.
    Nothing,
    /// What is new.
    New,
}

/// A call of the script without its entries. 0: it is not asked when the ids were given.
pub(super) fn begin(context: &Context, mailbox: &Arc<str>, given_at: u64, latest: u64, posts: Posts) -> Cmd {
    let mut command = scripts::call(&scripts::INSERT, &[&context.names.base(Some(mailbox))]);
    command.arg(given_at).arg(ROW_WITHIN.as_micros() as u64).arg(latest);
    match posts {
        Posts::Nothing => command.arg("").arg(""),
        Posts::New => command.arg(context.names.news()).arg(word(None, &News::Posted { mailbox: Arc::clone(mailbox) })),
    };
    command
}

/// The first five arguments of an entry that is to be written.
pub(super) fn fresh(
    command: &mut Cmd,
    context: &Context,
    new: &NewOperation,
    to: Translation,
) -> Result<(), row::Wrong> {
    command.arg("n").arg(key_text(new.key)).arg(format!("{:x}", new.fingerprint));
    command.arg(row::first(new, to, context.generation)?).arg(row::mail(&new.email));
    Ok(())
}

/// The first five arguments of an entry that is there already.
pub(super) fn meet(command: &mut Cmd, new: &NewOperation, holder: &Holder) {
    command.arg("m").arg(key_text(holder.key)).arg(format!("{:x}", new.fingerprint)).arg("").arg("");
}

/// The last three arguments of an entry.
pub(super) fn note(command: &mut Cmd, new: &NewOperation, mailbox: &str, to: Translation) -> Result<(), row::Wrong> {
    match new.note.as_ref().filter(|note| note.key.mailbox.as_deref() == Some(mailbox)) {
        None => command.arg("").arg("").arg(""),
        Some(note) => {
            command.arg(row::note_field(&note.key)).arg(to.server(note.until)).arg(row::note_value(note, to)?)
        }
    };
    Ok(())
}

/// What one answer of the script says; `None`: nothing is there.
pub(super) fn written(
    context: &Context,
    new: &NewOperation,
    key: OperationKey,
    mailbox: &Arc<str>,
    item: Value,
) -> Result<Option<Inserted>, StoreError> {
    match item {
        Value::Int(0) => Ok(None),
        Value::Int(_) => {
            context.routes.learn(new.key, &new.mailbox);
            context.given_out(new.key);
            context.confirm(&new.id);
            Ok(Some(Inserted::New))
        }
        other => {
            let bytes = value::some_bytes(Some(other))?;
            let found = row::operation(key, mailbox, &bytes, context.translation()).map_err(damaged)?;
            if found.fingerprint != new.fingerprint {
                return Ok(Some(Inserted::Conflict));
            }
            context.confirm(&new.id);
            Ok(Some(Inserted::Existing(Box::new(found.record))))
        }
    }
}
