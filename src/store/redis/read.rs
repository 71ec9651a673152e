//! Questions: one operation, many of them, everything that is not over.
//!
//! Nothing here asks for all of anything at once: indexes are read page by page, a few hundred members each, so that no
//! question holds the server up. A query goes by the index of each state and lane it wants, and stops at its limit; once
//! that many are found, mailboxes that follow are asked for older ones only. A query by tenant, or for what is eligible,
//! reads the rows of those indexes and passes over what it does not want.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::Cmd;

use super::context::Context;
use super::fault::damaged;
use super::link::Answer;
use super::member::Ask;
use super::names::{key_of, key_text};
use super::worker::Reply;
use super::{row, scripts, value};
use crate::email::Email;
use crate::engine::{Lane, OperationKey, OperationState, Timestamp};
use crate::store::{AttemptRecord, KeySecret, Note, NoteKey, OperationQuery, OperationRecord, Recovery, StoreError};

/// Members in one page.
const PAGE: usize = 256;
/// Mailboxes asked in one go.
const MAILBOXES: usize = 64;

/// What is asked.
pub(super) enum Read {
    Recover(Timestamp, Option<Arc<str>>, Reply<Recovery>),
    Email(OperationKey, Reply<Option<Email>>),
    Operation(Arc<str>, Reply<Option<OperationRecord>>),
    Operations(OperationQuery, Reply<Vec<OperationRecord>>),
    Counts(Reply<[u64; 10]>),
    Ask(Ask),
}

impl Read {
    /// Answers it. Who has stopped listening is told nothing.
    pub(super) async fn answer(self, context: &Context) {
        match self {
            Self::Recover(since, mailbox, reply) => drop(reply.send(recover(context, since, mailbox).await)),
            Self::Email(key, reply) => drop(reply.send(email(context, key).await)),
            Self::Operation(id, reply) => drop(reply.send(operation(context, &id).await)),
            Self::Operations(query, reply) => drop(reply.send(operations(context, &query).await)),
            Self::Counts(reply) => drop(reply.send(counts(context).await)),
            Self::Ask(ask) => ask.answer(context).await,
        }
    }

    pub(super) fn fail(self, error: &StoreError) {
        match self {
            Self::Recover(_, _, reply) => drop(reply.send(Err(error.clone()))),
            Self::Email(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Operation(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Operations(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Counts(reply) => drop(reply.send(Err(error.clone()))),
            Self::Ask(ask) => ask.fail(error),
        }
    }
}

async fn email(context: &Context, key: OperationKey) -> Result<Option<Email>, StoreError> {
    context.resolve(std::iter::once(key)).await?;
    let Some(mailbox) = context.routes.find(key) else { return Ok(None) };
    let mut command = redis::cmd("HGET");
    command.arg(format!("{}:mail", context.names.base(Some(&mailbox)))).arg(key_text(key));
    let mail = value::bytes(context.link.one(command).await?)?;
    mail.map(|mail| row::email(&mail)).transpose().map_err(damaged)
}

async fn operation(context: &Context, id: &str) -> Result<Option<OperationRecord>, StoreError> {
    let mut command = redis::cmd("HGET");
    command.arg(format!("{}:ids", context.names.shard(id))).arg(id);
    let Some(holder) = value::bytes(context.link.one(command).await?)? else { return Ok(None) };
    let holder = row::holder_of(&holder).map_err(damaged)?;
    let mut command = redis::cmd("HGET");
    command.arg(format!("{}:rows", context.names.base(Some(&holder.mailbox)))).arg(key_text(holder.key));
    let Some(found) = value::bytes(context.link.one(command).await?)? else { return Ok(None) };
    let found = row::operation(holder.key, &holder.mailbox, &found, context.translation()).map_err(damaged)?;
    context.routes.learn(holder.key, &holder.mailbox);
    Ok(Some(found.record))
}

/// The next mailboxes after one, in order of their names.
async fn mailboxes(context: &Context, after: &str) -> Result<Vec<Arc<str>>, StoreError> {
    let mut command = redis::cmd("ZRANGEBYLEX");
    let from = if after.is_empty() { "-".to_owned() } else { format!("({after}") };
    command.arg(context.names.global("mailboxes")).arg(from).arg("+").arg("LIMIT").arg(0).arg(MAILBOXES);
    let mut found = Vec::new();
    for mailbox in value::items(context.link.one(command).await?)? {
        found.push(String::from_utf8_lossy(&value::some_bytes(Some(mailbox))?).into());
    }
    Ok(found)
}

async fn counts(context: &Context) -> Result<[u64; 10], StoreError> {
    let mut counts = [0; 10];
    let mut found = mailboxes(context, "").await?;
    while let Some(last) = found.last().map(Arc::clone) {
        let ask = |mailbox: &Arc<str>| scripts::call(&scripts::COUNTS, &[&context.names.base(Some(mailbox))]);
        let commands: Vec<Cmd> = found.iter().map(ask).collect();
        for answer in context.link.run(&commands).await? {
            for (count, number) in counts.iter_mut().zip(value::items(answer?)?) {
                *count += value::number(Some(number))?.unsigned_abs();
            }
        }
        found = if found.len() < MAILBOXES { Vec::new() } else { mailboxes(context, &last).await? };
    }
    Ok(counts)
}

/// One page: members, scores and values.
struct Page(Vec<(Vec<u8>, u64, Option<Vec<u8>>)>);

impl Page {
    /// Members between two, in order of their text.
    fn by_text(index: &str, hash: &str, from: &str, to: &str) -> Cmd {
        let mut command = scripts::call(&scripts::PAGE, &[index, hash]);
        command.arg("lex").arg(from).arg(to).arg(0).arg(PAGE);
        command
    }

    /// Members from a score on.
    fn by_score(index: &str, hash: &str, from: &str, passed: usize) -> Cmd {
        let mut command = scripts::call(&scripts::PAGE, &[index, hash]);
        command.arg("score").arg(from).arg("+inf").arg(passed).arg(PAGE);
        command
    }

    fn read(answer: Answer) -> Result<Self, StoreError> {
        let mut items = value::items(answer?)?.into_iter();
        let mut page = Vec::new();
        while let Some(member) = items.next() {
            let (member, score) = (value::some_bytes(Some(member))?, value::some_bytes(items.next())?);
            let score = std::str::from_utf8(&score).ok().and_then(|score| score.parse::<f64>().ok());
            let found = value::bytes(items.next().unwrap_or(redis::Value::Nil))?;
            page.push((member, score.unwrap_or_default() as u64, found));
        }
        Ok(Self(page))
    }

    fn is_last(&self) -> bool {
        self.0.len() < PAGE
    }

    /// The rows of one mailbox, by key.
    fn rows(self, context: &Context, mailbox: &Arc<str>) -> Result<Vec<OperationRecord>, StoreError> {
        let mut found = Vec::with_capacity(self.0.len());
        for (member, _, value) in self.0 {
            let (Some(key), Some(value)) = (key_of(&member), value) else { continue };
            found.push(row::operation(key, mailbox, &value, context.translation()).map_err(damaged)?.record);
        }
        Ok(found)
    }
}

/// Where the indexes of one mailbox are.
fn index(context: &Context, mailbox: Option<&str>, what: &str, of: &str) -> (String, String) {
    let base = context.names.base(mailbox);
    (format!("{base}:{what}"), format!("{base}:{of}"))
}

async fn operations(context: &Context, query: &OperationQuery) -> Result<Vec<OperationRecord>, StoreError> {
    let mut best: BTreeMap<OperationKey, OperationRecord> = BTreeMap::new();
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    if let Some(mailbox) = &query.mailbox {
        look(context, query, std::slice::from_ref(mailbox), &mut best).await?;
    } else {
        let mut found = mailboxes(context, "").await?;
        while let Some(last) = found.last().map(Arc::clone) {
            look(context, query, &found, &mut best).await?;
            found = if found.len() < MAILBOXES { Vec::new() } else { mailboxes(context, &last).await? };
        }
    }
    Ok(best.into_values().collect())
}

/// Looks for older operations than `best` holds, in each mailbox, state and lane that a query wants.
async fn look(
    context: &Context,
    query: &OperationQuery,
    mailboxes: &[Arc<str>],
    best: &mut BTreeMap<OperationKey, OperationRecord>,
) -> Result<(), StoreError> {
    let any = if query.eligible_at.is_some() { &OperationQuery::ELIGIBLE[..] } else { &OperationState::ALL[..] };
    let states = any.iter().filter(|state| query.state.is_none_or(|wanted| wanted == **state));
    let lanes = query.lane.as_ref().map_or(&Lane::ALL[..], std::slice::from_ref);
    for state in states {
        if let (Some(at), OperationState::Admitted) = (query.eligible_at, *state) {
            for mailbox in mailboxes {
                admitted(context, query, mailbox, at, best).await?;
            }
            continue;
        }
        // Mailboxes whose run is not at its end, and the last member seen.
        let runs = mailboxes.iter().flat_map(|mailbox| lanes.iter().map(move |lane| (mailbox, *lane)));
        let mut open: Vec<(&Arc<str>, Lane, String)> =
            runs.map(|(mailbox, lane)| (mailbox, lane, "-".to_owned())).collect();
        while !open.is_empty() {
            let to = bound(query, best);
            let ask = |(mailbox, lane, from): &(&Arc<str>, Lane, String)| {
                let what = format!("q:{}:{}", *state as u8, *lane as u8);
                let (index, rows) = index(context, Some(mailbox), &what, "rows");
                Page::by_text(&index, &rows, from, &to)
            };
            let commands: Vec<Cmd> = open.iter().map(ask).collect();
            let answers = context.link.run(&commands).await?;
            let mut next = Vec::new();
            for ((mailbox, lane, _), answer) in open.into_iter().zip(answers) {
                let page = Page::read(answer)?;
                let last = page.0.last().map(|(member, ..)| format!("({}", String::from_utf8_lossy(member)));
                if let Some(last) = last.filter(|_| !page.is_last()) {
                    next.push((mailbox, lane, last));
                }
                page.rows(context, mailbox)?.into_iter().for_each(|record| take(query, record, best));
            }
            open = next;
        }
    }
    Ok(())
}

/// Admitted ones whose instant has come: few, because their mailbox queues them then.
async fn admitted(
    context: &Context,
    query: &OperationQuery,
    mailbox: &Arc<str>,
    at: Timestamp,
    best: &mut BTreeMap<OperationKey, OperationRecord>,
) -> Result<(), StoreError> {
    let (due, rows) = index(context, Some(mailbox), "due", "rows");
    let mut passed = 0;
    loop {
        let page = Page::read(context.link.one(Page::by_score(&due, &rows, "-inf", passed)).await)?;
        let is_last = page.is_last();
        passed += page.0.len();
        let cutoff = context.translation().server(at);
        let is_past = page.0.last().is_some_and(|(_, score, _)| *score > cutoff);
        page.rows(context, mailbox)?.into_iter().for_each(|record| take(query, record, best));
        if is_last || is_past {
            return Ok(());
        }
    }
}

/// Up to which member an index is read: below the youngest of those that are wanted already.
fn bound(query: &OperationQuery, best: &BTreeMap<OperationKey, OperationRecord>) -> String {
    match best.last_key_value() {
        Some((key, _)) if best.len() >= query.limit => format!("({}", key_text(*key)),
        _ => "+".to_owned(),
    }
}

fn take(query: &OperationQuery, record: OperationRecord, best: &mut BTreeMap<OperationKey, OperationRecord>) {
    if query.wants(&record) {
        best.insert(record.key, record);
        if best.len() > query.limit {
            best.pop_last();
        }
    }
}

async fn recover(context: &Context, since: Timestamp, mailbox: Option<Arc<str>>) -> Result<Recovery, StoreError> {
    let mut recovery = Recovery { last_key: Some(context.last_key()), ..Recovery::default() };
    recovery.secret = secret(context).await?;
    if let Some(mailbox) = mailbox {
        one(context, since, &mailbox, &mut recovery).await?;
    } else {
        notes(context, None, &mut recovery).await?;
        let mut found = mailboxes(context, "").await?;
        while let Some(last) = found.last().map(Arc::clone) {
            for mailbox in &found {
                one(context, since, mailbox, &mut recovery).await?;
            }
            found = if found.len() < MAILBOXES { Vec::new() } else { mailboxes(context, &last).await? };
        }
        // Each mailbox has told its own in order.
        let mut operations: Vec<_> = std::mem::take(&mut recovery.operations).into_iter().collect();
        operations.sort_unstable_by_key(|operation| operation.key);
        recovery.operations.extend(operations);
    }
    recovery.attempts.sort_by_key(|attempt| (attempt.claimed_at, attempt.key, attempt.attempt));
    recovery.notes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(recovery)
}

/// What one mailbox holds. Its first page of everything is one round trip.
async fn one(context: &Context, since: Timestamp, mailbox: &Arc<str>, found: &mut Recovery) -> Result<(), StoreError> {
    let (live, rows) = index(context, Some(mailbox), "live", "rows");
    let mut from = "-".to_owned();
    loop {
        let page = Page::read(context.link.one(Page::by_text(&live, &rows, &from, "+")).await)?;
        let last = page.0.last().map(|(member, ..)| format!("({}", String::from_utf8_lossy(member)));
        let is_last = page.is_last();
        for record in page.rows(context, mailbox)? {
            context.routes.learn(record.key, mailbox);
            found.operations.push(record);
        }
        match last.filter(|_| !is_last) {
            Some(last) => from = last,
            None => break,
        }
    }
    attempts(context, since, mailbox, found).await?;
    notes(context, Some(mailbox), found).await
}

async fn attempts(
    context: &Context,
    since: Timestamp,
    mailbox: &Arc<str>,
    found: &mut Recovery,
) -> Result<(), StoreError> {
    let (tried, tries) = index(context, Some(mailbox), "tried", "tries");
    let to = context.translation();
    let (from, mut passed) = (to.server(since).to_string(), 0);
    loop {
        let page = Page::read(context.link.one(Page::by_score(&tried, &tries, &from, passed)).await)?;
        let is_last = page.is_last();
        passed += page.0.len();
        for (member, claimed_at, value) in page.0 {
            let Some(value) = value else { continue };
            let attempt: AttemptRecord = row::attempt(mailbox, &member, claimed_at, &value, to).map_err(damaged)?;
            found.attempts.push(attempt);
        }
        if is_last {
            return Ok(());
        }
    }
}

pub(super) async fn notes(
    context: &Context,
    mailbox: Option<&Arc<str>>,
    found: &mut Recovery,
) -> Result<(), StoreError> {
    let (until, notes) = index(context, mailbox.map(|mailbox| &**mailbox), "until", "notes");
    let to = context.translation();
    let mut passed = 0;
    loop {
        let page = Page::read(context.link.one(Page::by_score(&until, &notes, "-inf", passed)).await)?;
        let is_last = page.is_last();
        passed += page.0.len();
        for (field, _, value) in page.0 {
            let (Some((kind, name)), Some(value)) = (row::note_kind(&field), value) else { continue };
            let key = NoteKey { kind, mailbox: mailbox.map(Arc::clone), name };
            let note: Option<Note> = row::note(key, &value, to);
            match note {
                Some(note) => found.notes.push(note),
                None => *found.unreadable.entry(kind).or_default() += 1,
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// The secret under which admission keys are hashed: drawn by whoever comes first.
pub(super) async fn secret(context: &Context) -> Result<KeySecret, StoreError> {
    let key = context.names.global("secret");
    let (mut offer, mut get) = (redis::cmd("SET"), redis::cmd("GET"));
    offer.arg(&key).arg(KeySecret::random_bytes().as_slice()).arg("NX");
    get.arg(&key);
    let bytes = value::some_bytes(context.link.run(&[offer, get]).await?.pop().transpose()?)?;
    bytes.try_into().map(KeySecret::new).map_err(|_| damaged("a secret that is not 32 bytes"))
}
