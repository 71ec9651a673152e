//! What is posted to a mailbox's owner, what shared scopes have in common, and words among members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::context::Context;
use super::fault::damaged;
use super::lease::place;
use super::names::{key_of, key_text};
use super::news::word;
use super::{row, scripts, value};
use crate::engine::{Scope, Timestamp};
use crate::store::StoreError;
use crate::store::fleet::{Lease, Letter, LetterName, MemberId, News, Order, Place, Posted, Probe};

/// Letters in one answer of the server.
const LETTERS_MAX: usize = 256;

pub(super) async fn post(context: &Context, orders: &[Order]) -> Result<(), StoreError> {
    let mut by_mailbox: BTreeMap<&Arc<str>, Vec<&Order>> = BTreeMap::new();
    for order in orders {
        by_mailbox.entry(&order.mailbox).or_default().push(order);
    }
    let to = context.translation();
    let mut commands = Vec::new();
    for (mailbox, orders) in by_mailbox {
        context.list(Some(mailbox), &mut commands);
        let mut command = scripts::call(&scripts::POST, &[&context.names.base(Some(mailbox))]);
        command.arg(context.names.news()).arg(word(None, &News::Posted { mailbox: Arc::clone(mailbox) }));
        for order in orders {
            command.arg(format!("{:032x}", order.id.0)).arg(to.server(order.until));
            command.arg(row::json(order).map_err(damaged)?);
        }
        commands.push(command);
    }
    context.link.run(&commands).await?.into_iter().try_for_each(|answer| answer.map(drop))
}

/// A letter as the inbox has it.
fn letter_text(name: &LetterName) -> String {
    match name {
        LetterName::Arrived(key) => format!("a:{}", key_text(*key)),
        LetterName::Order(id) => format!("o:{:032x}", id.0),
    }
}

pub(super) async fn inbox(
    context: &Context,
    read: &[(Lease, Vec<LetterName>)],
) -> Result<Vec<Vec<Letter>>, StoreError> {
    let mut inboxes: Vec<Vec<Letter>> = read.iter().map(|_| Vec::new()).collect();
    // Inboxes that are not at their end, and where they go on.
    let mut open: Vec<(usize, Place)> = (0..read.len()).map(|at| (at, Place::default())).collect();
    while !open.is_empty() {
        let ask = |(at, from): &(usize, Place)| {
            let (lease, names) = &read[*at];
            let mut command = scripts::call(&scripts::INBOX, &[&context.names.base(Some(&lease.mailbox))]);
            command.arg(lease.token.0).arg(from.0).arg(LETTERS_MAX);
            if *from == Place::default() {
                command.arg(names.iter().map(letter_text).collect::<Vec<_>>());
            }
            command
        };
        let commands: Vec<Cmd> = open.iter().map(ask).collect();
        let mut next = Vec::new();
        for (answer, (at, _)) in context.link.run(&commands).await?.into_iter().zip(open) {
            let mut items = value::items(answer?)?.into_iter();
            let last = place(items.next())?;
            if last > Place::default() {
                next.push((at, last));
            }
            for found in items {
                inboxes[at].push(letter(context, &read[at].0.mailbox, value::items(found)?)?);
            }
        }
        open = next;
    }
    Ok(inboxes)
}

fn letter(context: &Context, mailbox: &Arc<str>, found: Vec<redis::Value>) -> Result<Letter, StoreError> {
    let mut items = found.into_iter();
    let place = place(items.next())?;
    let (kind, name) = (value::some_bytes(items.next())?, value::some_bytes(items.next())?);
    let body = value::some_bytes(items.next())?;
    let posted = if kind == b"a" {
        let key = key_of(&name).ok_or_else(|| damaged("a letter about no operation"))?;
        context.routes.learn(key, mailbox);
        let found = row::operation(key, mailbox, &body, context.translation()).map_err(damaged)?;
        Posted::Arrived(Box::new(found.record))
    } else {
        Posted::Order(serde_json::from_slice(&body).map_err(|error| damaged(error.to_string()))?)
    };
    Ok(Letter { place, posted })
}

pub(super) async fn cool(context: &Context, scope: Scope, until: Timestamp) -> Result<Timestamp, StoreError> {
    let to = context.translation();
    let key = context.names.global(&format!("cool:{scope}"));
    let mut command = scripts::call(&scripts::COOL, &[&key]);
    command.arg(to.server(until)).arg(context.names.news()).arg(word(None, &News::Cooldown { scope, until }));
    let kept = value::number(Some(context.link.one(command).await?))?;
    Ok(to.local(kept.unsigned_abs()))
}

pub(super) async fn probe(
    context: &Context,
    member: MemberId,
    scope: &Scope,
    span: Duration,
) -> Result<Probe, StoreError> {
    let key = context.names.global(&format!("probe:{scope}"));
    let mut command = scripts::call(&scripts::PROBE, &[&key]);
    command.arg(member.0).arg(u64::try_from(span.as_millis()).unwrap_or(u64::MAX).clamp(1, 86_400_000));
    let left = value::number(Some(context.link.one(command).await?))?;
    let theirs = u64::try_from(left).ok().map(Duration::from_millis);
    Ok(theirs.map_or(Probe::Yours, |ends_in| Probe::Theirs { ends_in }))
}

pub(super) async fn publish(context: &Context, member: MemberId, news: &[News]) -> Result<(), StoreError> {
    let say = |news: &News| {
        let mut command = redis::cmd("PUBLISH");
        command.arg(context.names.news()).arg(word(Some(member), news));
        command
    };
    let commands: Vec<Cmd> = news.iter().map(say).collect();
    context.link.run(&commands).await?.into_iter().try_for_each(|answer| answer.map(drop))
}
