//! Forgetting what has ended, and what somebody left behind who died.
//!
//! The id of an operation lies in another slot than its row, so it goes first and the row last: who dies in between leaves
//! a row that the next one forgets.

use std::sync::Arc;

use redis::Cmd;

use super::context::Context;
use super::names::{SHARDS, key_of, key_text};
use super::{mend, row, scripts, value};
use crate::engine::OperationKey;
use crate::store::StoreError;

/// Operations forgotten in one go.
const ENDED_MAX: usize = 128;
/// Mailboxes looked after in one go.
const MAILBOXES_MAX: usize = 32;
/// Ids looked after in one go.
const PENDING_MAX: usize = 64;

/// Forgets what is due in a mailbox. What fails is tried again with the next operation that ends there.
pub(super) async fn ended(context: &Context, mailbox: &Arc<str>) {
    while let Ok(ENDED_MAX) = some(context, mailbox).await {}
}

async fn some(context: &Context, mailbox: &Arc<str>) -> Result<usize, StoreError> {
    let base = context.names.base(Some(mailbox));
    let mut command = scripts::call(&scripts::ENDED, &[&base]);
    command.arg(context.options.ended_max).arg(context.options.ended_for.as_micros() as u64).arg(ENDED_MAX);
    command.arg(context.options.attempts_for.as_micros() as u64);
    let mut items = value::items(context.link.one(command).await?)?.into_iter();
    let mut commands: Vec<Cmd> = Vec::new();
    let mut forget = scripts::call(&scripts::FORGET, &[&base]);
    let mut count = 0;
    while let Some(key) = items.next() {
        let (key, row) = (value::some_bytes(Some(key))?, value::some_bytes(items.next())?);
        forget.arg(&key);
        count += 1;
        if let (Some(key), Ok(id)) = (key_of(&key), row::id_of(&row)) {
            take_back(context, &id, mailbox, key, &mut commands);
        }
    }
    if count > 0 {
        context.link.run(&commands).await?.into_iter().try_for_each(|answer| answer.map(drop))?;
        context.link.one(forget).await?;
    }
    Ok(count)
}

/// Takes back an id from its holder, and the route of its key.
fn take_back(context: &Context, id: &str, mailbox: &str, key: OperationKey, commands: &mut Vec<Cmd>) {
    let mut release = scripts::call(&scripts::RELEASE, &[&context.names.shard(id)]);
    release.arg(id).arg(row::owner(key, mailbox));
    let mut route = redis::cmd("HDEL");
    route.arg(context.names.bucket(key)).arg(key_text(key));
    commands.extend([release, route]);
    context.routes.forget(key);
}

/// Ids that have waited too long for their rows: confirmed where there is one, taken back where there is none.
pub(super) async fn pending(context: &Context) -> Result<(), StoreError> {
    let cutoff = context.now().saturating_sub(3 * mend::PATIENCE.as_micros() as u64);
    let ask = |shard| {
        let mut command = redis::cmd("ZRANGEBYSCORE");
        command.arg(format!("{}:pending", context.names.shard_number(shard)));
        command.arg("-inf").arg(cutoff).arg("LIMIT").arg(0).arg(PENDING_MAX);
        command
    };
    let commands: Vec<Cmd> = (0..SHARDS).map(ask).collect();
    for answer in context.link.run(&commands).await? {
        for id in value::items(answer?)? {
            let id = String::from_utf8_lossy(&value::some_bytes(Some(id))?).into_owned();
            settle(context, &id.into()).await?;
        }
    }
    Ok(())
}

async fn settle(context: &Context, id: &Arc<str>) -> Result<(), StoreError> {
    let mut command = redis::cmd("HGET");
    command.arg(format!("{}:ids", context.names.shard(id))).arg(&**id);
    let Some(value) = value::bytes(context.link.one(command).await?)? else {
        context.confirm(id);
        return Ok(());
    };
    let holder = row::holder_of(&value).map_err(super::fault::damaged)?;
    let mut command = redis::cmd("HEXISTS");
    command.arg(format!("{}:rows", context.names.base(Some(&holder.mailbox)))).arg(key_text(holder.key));
    if value::number(Some(context.link.one(command).await?))? == 1 {
        context.confirm(id);
        return Ok(());
    }
    let mut commands = Vec::new();
    take_back(context, id, &holder.mailbox, holder.key, &mut commands);
    context.link.run(&commands).await?.into_iter().try_for_each(|answer| answer.map(drop))
}

/// Looks after the next few mailboxes: what is due there is forgotten, and one that holds nothing leaves the list.
pub(super) async fn mailboxes(context: &Context) -> Result<(), StoreError> {
    let after = context.looked_at.take();
    let mut command = redis::cmd("ZRANGEBYLEX");
    let from = if after.is_empty() { "-".to_owned() } else { format!("({after}") };
    command.arg(context.names.global("mailboxes")).arg(from).arg("+").arg("LIMIT").arg(0).arg(MAILBOXES_MAX);
    let found = value::items(context.link.one(command).await?)?;
    let is_last = found.len() < MAILBOXES_MAX;
    let mut last = String::new();
    for mailbox in found {
        let mailbox: Arc<str> = String::from_utf8_lossy(&value::some_bytes(Some(mailbox))?).into();
        ended(context, &mailbox).await;
        if is_empty(context, &mailbox).await? {
            context.link.one(listed(context, "ZREM", &[&mailbox])).await?;
            // Somebody may have stored something in between.
            if !is_empty(context, &mailbox).await? {
                context.link.one(listed(context, "ZADD", &["0", &mailbox])).await?;
            }
        }
        last = mailbox.to_string();
    }
    context.looked_at.set(if is_last { String::new() } else { last });
    Ok(())
}

fn listed(context: &Context, name: &str, arguments: &[&str]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(context.names.global("mailboxes")).arg(arguments);
    command
}

async fn is_empty(context: &Context, mailbox: &str) -> Result<bool, StoreError> {
    let base = context.names.base(Some(mailbox));
    let mut command = redis::cmd("EXISTS");
    command.arg(["rows", "tried", "notes"].map(|what| format!("{base}:{what}")).as_slice());
    Ok(value::number(Some(context.link.one(command).await?))? == 0)
}
