//! An id that was given out and has no row: whoever had it died, or its call was lost, between the two steps of an insert.
//!
//! It is taken over at once from an earlier call of this process, and from another process when that has had far more time
//! than it may use. The key that had it is marked first, so that its row cannot come after all.

use std::time::Duration;

use redis::{Cmd, Value};

use super::context::Context;
use super::entry::{Posts, begin, fresh, meet, note, written};
use super::fault::{damaged, unavailable};
use super::names::key_text;
use super::row::{self, Holder};
use super::{scripts, value};
use crate::store::{Inserted, NewOperation, StoreError};

/// How long another process may take from an id to its row.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a key stays marked: far longer than a row may come late.
const MARKED_FOR: Duration = Duration::from_secs(60);

/// Stores one operation, one question at a time.
pub(super) async fn mend(context: &Context, new: &NewOperation, posts: Posts) -> Result<Inserted, StoreError> {
    let (mut given_at, held) = reserve(context, new, "").await?;
    if let Some((holder, value, waiting)) = held {
        let (key, mailbox) = (holder.key, std::sync::Arc::clone(&holder.mailbox));
        let mut command = begin(context, &mailbox, 0, latest(context, new), posts);
        meet(&mut command, new, &holder);
        note(&mut command, new, &mailbox, context.translation()).map_err(damaged)?;
        let there = value::items(context.link.one(command).await?)?.pop().unwrap_or(Value::Int(0));
        if let Some(inserted) = written(context, new, key, &mailbox, there)? {
            return Ok(inserted);
        }
        let is_mine = holder.generation == context.generation;
        if !is_mine && (0..PATIENCE.as_micros() as i64).contains(&waiting) {
            return Err(unavailable("another process is storing an operation with this id: try again"));
        }
        context.link.one(mark(context, &holder)).await?;
        given_at = match reserve(context, new, &value).await? {
            (given_at, None) => given_at,
            (_, Some(_)) => return Err(unavailable("another process is storing an operation with this id: try again")),
        };
    }
    store(context, new, posts, given_at).await
}

async fn store(context: &Context, new: &NewOperation, posts: Posts, given_at: u64) -> Result<Inserted, StoreError> {
    let mut route = scripts::call(&scripts::ROUTE, &[&context.names.bucket(new.key)]);
    route.arg(key_text(new.key)).arg(&*new.mailbox);
    let mut commands = vec![route];
    context.list(Some(&new.mailbox), &mut commands);
    let to = context.translation();
    let mut command = begin(context, &new.mailbox, given_at, latest(context, new), posts);
    fresh(&mut command, context, new, to).and_then(|()| note(&mut command, new, &new.mailbox, to)).map_err(damaged)?;
    commands.push(command);
    let last = context.link.run(&commands).await?.pop().unwrap_or(Ok(Value::Nil))?;
    let item = value::items(last)?.pop().unwrap_or(Value::Int(0));
    let inserted = written(context, new, new.key, &new.mailbox, item)?;
    inserted.ok_or_else(|| unavailable("another process has stored an operation with this id: try again"))
}

fn latest(context: &Context, new: &NewOperation) -> u64 {
    context.latest(new.note.iter().map(|note| note.at))
}

/// The row of this key must not come any more.
fn mark(context: &Context, holder: &Holder) -> Cmd {
    let mut command = redis::cmd("SET");
    command.arg(format!("{}:gone:{}", context.names.base(Some(&holder.mailbox)), key_text(holder.key)));
    command.arg(1).arg("PX").arg(MARKED_FOR.as_millis() as u64);
    command
}

/// Asks for an id: since when it is ours, or who has it, as it is stored, and how long it has waited for its row.
async fn reserve(
    context: &Context,
    new: &NewOperation,
    old: &str,
) -> Result<(u64, Option<(Holder, String, i64)>), StoreError> {
    let mut command = scripts::call(&scripts::RESERVE, &[&context.names.shard(&new.id)]);
    let ours = row::holder(context.generation, new.key, &new.mailbox);
    command.arg(&*new.id).arg(&ours).arg(old);
    let mut items = value::items(context.link.one(command).await?)?.into_iter();
    let now = value::number(items.next())?.unsigned_abs();
    let found = value::some_bytes(items.next())?;
    let waiting = value::number(items.next())?;
    if found.is_empty() || found == ours.as_bytes() {
        return Ok((now, None));
    }
    let holder = row::holder_of(&found).map_err(damaged)?;
    Ok((now, Some((holder, String::from_utf8_lossy(&found).into_owned(), waiting))))
}
