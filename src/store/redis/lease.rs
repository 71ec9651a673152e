//! Who owns a mailbox: leases, who lives, and whether the server may have forgotten something.
//!
//! A lease lies with its mailbox and its scripts decide alone. Beside it, in the place of what belongs to no mailbox, an
//! index says when leases end: from it orphans are found. It is written after the fact, so whoever reads it asks the
//! mailbox.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use super::context::Context;
use super::fault::damaged;
use super::link::Answer;
use super::news::word;
use super::read;
use super::{scripts, value};
use crate::clock::Clock;
use crate::engine::{OperationKey, Timestamp};
use crate::store::fleet::{
    Acquired, Agreement, Joined, Lapsed, Lease, MemberId, News, Place, Renewals, Renewed, Terms, Token,
};
use crate::store::{Recovery, StoreError};

/// Mailboxes looked at for one that nobody owns, at most, in one call.
const ORPHANS_LOOKED_AT: usize = 512;
/// Beyond this a difference between two clocks is a step of one of them.
pub(super) const STEP: Duration = Duration::from_secs(2);

/// What a call of a member is told about the server.
struct Present {
    time: Timestamp,
    members: u32,
    failover_ago: Option<Duration>,
}

const fn micros(span: Duration) -> u64 {
    let micros = span.as_micros();
    if micros > super::instant::NEVER as u128 { super::instant::NEVER } else { micros as u64 }
}

/// Shows that a member lives.
async fn present(context: &Context, member: Option<MemberId>, terms: Terms) -> Result<Present, StoreError> {
    let mut first = ask_present(context, member, terms, "").await?;
    if context.link.server().unwrap_or_default() != context.met() {
        // It was asked over a new connection, which leads elsewhere.
        first = ask_present(context, member, terms, "").await?;
    }
    let steps = context.link.take_step() || terms.clock == Agreement::Differs;
    let told = if steps { ask_present(context, member, terms, "step").await? } else { first };
    let (time, members, failover) = told;
    let ago = u64::try_from(failover).ok().map(Duration::from_micros).filter(|ago| *ago <= terms.memory);
    Ok(Present { time: context.forward(time), members: u32::try_from(members).unwrap_or(u32::MAX), failover_ago: ago })
}

async fn ask_present(
    context: &Context,
    member: Option<MemberId>,
    terms: Terms,
    step: &str,
) -> Result<(u64, i64, i64), StoreError> {
    let asked = context.link.clock().now();
    // The connection is made by the first call; then it is known where it leads.
    let run = match context.link.server() {
        Some(run) => run,
        None => {
            context.link.one(redis::cmd("PING")).await?;
            context.link.server().unwrap_or_default()
        }
    };
    let before = if step.is_empty() { context.met() } else { step.to_owned() };
    let keys = [context.names.global("members"), context.names.global("server")];
    let mut command = scripts::call(&scripts::PRESENT, &[&keys[0], &keys[1]]);
    command.arg(member.map(|member| member.0.to_string()).unwrap_or_default());
    command.arg(micros(terms.ttl)).arg(&run).arg(before);
    let mut items = value::items(context.link.one(command).await?)?.into_iter();
    let now = value::number(items.next())?.unsigned_abs();
    context.link.watch(asked, now);
    context.meet(run);
    Ok((now, value::number(items.next())?, value::number(items.next())?))
}

pub(super) async fn join(context: &Context) -> Result<Joined, StoreError> {
    let generation = scripts::call(&scripts::GENERATION, &[&context.names.global("generation")]);
    let member = MemberId(value::number(Some(context.link.one(generation).await?))?.unsigned_abs());
    // From here on instants are the server's own: members set their clocks by it.
    context.offset.align();
    context.join();
    let terms = Terms { ttl: Duration::ZERO, memory: Duration::ZERO, clock: Agreement::Agrees };
    let time = present(context, Some(member), terms).await?.time;
    let (ends, mailboxes) = (context.names.global("ends"), context.names.global("mailboxes"));
    let mut seed = redis::cmd("ZUNIONSTORE");
    seed.arg(&ends).arg(2).arg(&ends).arg(&mailboxes).arg("AGGREGATE").arg("MAX");
    context.link.one(seed).await?;
    let mut found = Recovery::default();
    read::notes(context, None, &mut found).await?;
    let keys_after = OperationKey(member.0 << 32);
    let (notes, unreadable) = (found.notes, found.unreadable);
    Ok(Joined { member, keys_after, time, notes, unreadable, secret: read::secret(context).await? })
}

pub(super) async fn acquire(
    context: &Context,
    member: MemberId,
    terms: Terms,
    lapsed: Lapsed,
    mailboxes: &[Arc<str>],
) -> Result<Vec<Acquired>, StoreError> {
    let present = present(context, Some(member), terms).await?;
    let ask = |mailbox: &Arc<str>| {
        let mut command = scripts::call(&scripts::ACQUIRE, &[&context.names.base(Some(mailbox))]);
        command.arg(member.0).arg(micros(terms.ttl)).arg(micros(terms.memory));
        command.arg(if lapsed == Lapsed::Leave { "1" } else { "" });
        command
    };
    let commands: Vec<Cmd> = mailboxes.iter().map(ask).collect();
    let (mut answers, mut ends) = (Vec::new(), Vec::new());
    for (answer, mailbox) in context.link.run(&commands).await?.into_iter().zip(mailboxes) {
        let (acquired, until) = acquired(answer, present.failover_ago)?;
        answers.push(acquired);
        ends.push((until, mailbox));
    }
    note_ends(context, &ends).await?;
    Ok(answers)
}

fn acquired(answer: Answer, failover_ago: Option<Duration>) -> Result<(Acquired, u64), StoreError> {
    let mut items = value::items(answer?)?.into_iter();
    let mut number = || value::number(items.next());
    if number()? == 0 {
        let ends_in = Duration::from_micros(number()?.unsigned_abs());
        return Ok((Acquired::Elsewhere { ends_in }, number()?.unsigned_abs()));
    }
    let token = Token(number()?.unsigned_abs());
    let unclean_ago = u64::try_from(number()?).ok().map(Duration::from_micros);
    let inbox = Place(number()?.unsigned_abs());
    Ok((Acquired::Owner { token, unclean_ago, failover_ago, inbox }, number()?.unsigned_abs()))
}

/// Writes down when leases end, for those who look for orphans.
async fn note_ends(context: &Context, ends: &[(u64, &Arc<str>)]) -> Result<(), StoreError> {
    if ends.is_empty() {
        return Ok(());
    }
    let mut command = redis::cmd("ZADD");
    command.arg(context.names.global("ends"));
    for (until, mailbox) in ends {
        command.arg(until).arg(&***mailbox);
    }
    context.link.one(command).await.map(drop)
}

pub(super) async fn renew(
    context: &Context,
    member: MemberId,
    terms: Terms,
    leases: &[Lease],
) -> Result<Renewals, StoreError> {
    let present = present(context, Some(member), terms).await?;
    let (mut answers, mut ends) = (Vec::with_capacity(leases.len()), Vec::new());
    // A member may have very many: each call stays short.
    for some in leases.chunks(RENEWED_MAX) {
        let ask = |lease: &Lease| {
            let mut command = scripts::call(&scripts::RENEW, &[&context.names.base(Some(&lease.mailbox))]);
            command.arg(lease.token.0).arg(micros(terms.ttl)).arg(micros(terms.memory));
            command
        };
        let commands: Vec<Cmd> = some.iter().map(ask).collect();
        for (answer, lease) in context.link.run(&commands).await?.into_iter().zip(some) {
            let mut items = value::items(answer?)?.into_iter();
            let mut number = || value::number(items.next()).map(i64::unsigned_abs);
            if number()? == 0 {
                answers.push(Renewed::Lost);
                continue;
            }
            answers.push(Renewed::Kept { inbox: Place(number()?) });
            ends.push((number()?, &lease.mailbox));
        }
        note_ends(context, &ends).await?;
        ends.clear();
    }
    Ok(Renewals { time: present.time, members: present.members, failover_ago: present.failover_ago, answers })
}

/// Leases prolonged in one go.
const RENEWED_MAX: usize = 1_000;

pub(super) async fn release(context: &Context, leases: &[Lease]) -> Result<(), StoreError> {
    let ask = |lease: &Lease| {
        let mut command = scripts::call(&scripts::FREE, &[&context.names.base(Some(&lease.mailbox))]);
        let news = News::Released { mailbox: Arc::clone(&lease.mailbox) };
        command.arg(lease.token.0).arg(context.names.news()).arg(word(None, &news));
        command
    };
    let commands: Vec<Cmd> = leases.iter().map(ask).collect();
    let mut ends = Vec::new();
    for (answer, lease) in context.link.run(&commands).await?.into_iter().zip(leases) {
        if value::number(Some(answer?))? == 1 {
            ends.push((0, &lease.mailbox));
        }
    }
    note_ends(context, &ends).await
}

pub(super) async fn orphans(context: &Context, limit: usize) -> Result<Vec<Arc<str>>, StoreError> {
    let ends = context.names.global("ends");
    let mut command = redis::cmd("ZRANGEBYSCORE");
    command.arg(&ends).arg("-inf").arg(context.now()).arg("LIMIT").arg(0).arg(ORPHANS_LOOKED_AT);
    let found = value::items(context.link.one(command).await?)?;
    let mut mailboxes: Vec<Arc<str>> = Vec::with_capacity(found.len());
    for mailbox in found {
        mailboxes.push(String::from_utf8_lossy(&value::some_bytes(Some(mailbox))?).into());
    }
    let ask = |mailbox: &Arc<str>| scripts::call(&scripts::ORPHAN, &[&context.names.base(Some(mailbox))]);
    let commands: Vec<Cmd> = mailboxes.iter().map(ask).collect();
    let (mut orphans, mut owned, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for (answer, mailbox) in context.link.run(&commands).await?.into_iter().zip(&mailboxes) {
        match value::number(Some(answer?))? {
            -1 => idle.push(mailbox),
            0 if orphans.len() < limit => orphans.push(Arc::clone(mailbox)),
            0 => {}
            until => owned.push((until.unsigned_abs(), mailbox)),
        }
    }
    note_ends(context, &owned).await?;
    if !idle.is_empty() {
        let mut command = redis::cmd("ZREM");
        command.arg(&ends);
        for mailbox in &idle {
            command.arg(&***mailbox);
        }
        context.link.one(command).await?;
        // Something may have been submitted in between.
        let commands: Vec<Cmd> = idle.iter().map(|mailbox| ask(mailbox)).collect();
        let mut busy = Vec::new();
        for (answer, mailbox) in context.link.run(&commands).await?.into_iter().zip(&idle) {
            if value::number(Some(answer?))? != -1 {
                busy.push((0, *mailbox));
            }
        }
        note_ends(context, &busy).await?;
    }
    Ok(orphans)
}

/// A place in an answer.
pub(super) fn place(value: Option<Value>) -> Result<Place, StoreError> {
    value::number(value).map(|place| Place(place.unsigned_abs())).map_err(|_| damaged("a letter without a place"))
}
