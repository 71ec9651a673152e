//! The thread that talks to Redis: it takes what has arrived and sends it together.
//!
//! It has a runtime of its own, so that a store can be opened and called from anywhere, and a call that nobody waits for
//! is executed all the same. Writes go in rounds: everything that has arrived goes out in one pipeline, and what arrives
//! meanwhile waits for the next one. Within a round calls of one mailbox keep their order; those of different mailboxes
//! have none. An insert takes two steps (`insert`), so what comes after it in its mailbox goes into the next round. Reads
//! begin after the round before them, and do not hold up the next.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use redis::Cmd;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use super::claim::Claims;
use super::context::Context;
use super::entry::Posts;
use super::insert::Incoming;
use super::job::Job;
use super::link::Keep;
use super::news::{self, Board};
use super::purge;
use super::read::Read;
use super::write::{Keeping, Records, needs_room};
use crate::email::Email;
use crate::engine::OperationKey;
use crate::engine::mailbox::Record;
use crate::store::fleet::{Claimed, FencedClaim};
use crate::store::{Claim, Inserted, NewOperation, NoteChange, StoreError};

/// Calls that wait for the thread at most; above it callers wait.
pub(super) const CALLS_MAX: usize = 1_024;
/// Calls in one round.
const ROUND_CALLS: usize = 256;
/// Bytes of new emails in one round: what a slow network moves within a response timeout.
const ROUND_BYTES: usize = 1 << 20;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What is asked of the thread.
pub(super) enum Call {
    Insert(Vec<NewOperation>, Reply<Vec<Inserted>>),
    /// As an insert, and what is new is posted to the mailbox's owner.
    Submit(Vec<NewOperation>, Reply<Vec<Inserted>>),
    Claim(Vec<Claim>, Reply<Vec<Option<Email>>>),
    Fenced(Vec<FencedClaim>, Reply<Vec<Claimed>>),
    Record(Arc<[Record]>, Reply<()>),
    Keep(Arc<[NoteChange]>, Reply<()>),
    Read(Read),
}

impl Call {
    fn bytes(&self) -> usize {
        match self {
            Self::Insert(batch, _) | Self::Submit(batch, _) => {
                batch.iter().map(|new| new.email.mime().len() + 512).sum()
            }
            _ => 0,
        }
    }

    fn keys(&self) -> Vec<OperationKey> {
        match self {
            Self::Claim(batch, _) => batch.iter().map(|claim| claim.key).collect(),
            Self::Record(batch, _) => batch.iter().map(|record| record.key).collect(),
            Self::Insert(..) | Self::Submit(..) | Self::Fenced(..) | Self::Keep(..) | Self::Read(_) => Vec::new(),
        }
    }

    /// A claim in the same turn finds the mailbox of an operation that is about to be stored.
    fn learn(&self, context: &Context) {
        let (Self::Insert(batch, _) | Self::Submit(batch, _)) = self else { return };
        for new in batch.iter().filter(|new| context.routes.find(new.key).is_none()) {
            context.routes.learn(new.key, &new.mailbox);
        }
    }

    /// Whether it has to ask before it writes.
    fn takes_two_steps(&self) -> bool {
        match self {
            Self::Insert(..) | Self::Submit(..) => true,
            Self::Keep(batch, _) => batch.iter().any(needs_room),
            Self::Claim(..) | Self::Fenced(..) | Self::Record(..) | Self::Read(_) => false,
        }
    }

    fn fail(self, error: &StoreError) {
        // Who has stopped listening is told nothing.
        match self {
            Self::Insert(_, reply) | Self::Submit(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Fenced(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Claim(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Record(_, reply) | Self::Keep(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Read(read) => read.fail(error),
        }
    }

    /// The mailboxes it touches; `None`: what belongs to none.
    fn mailboxes(&self, context: &Context) -> Vec<Option<Arc<str>>> {
        match self {
            Self::Fenced(batch, _) => batch.iter().map(|one| Some(Arc::clone(&one.lease.mailbox))).collect(),
            Self::Insert(batch, _) | Self::Submit(batch, _) => {
                let notes = batch.iter().filter_map(|new| new.note.as_ref()).map(|note| note.key.mailbox.clone());
                batch.iter().map(|new| Some(Arc::clone(&new.mailbox))).chain(notes).collect()
            }
            Self::Keep(batch, _) => batch.iter().map(|change| change.key().mailbox.clone()).collect(),
            Self::Claim(..) | Self::Record(..) => {
                self.keys().into_iter().filter_map(|key| context.routes.find(key)).map(Some).collect()
            }
            Self::Read(_) => Vec::new(),
        }
    }
}

/// Runs until the store is dropped and everything it was asked is done.
pub(super) async fn run(context: Context, mut calls: mpsc::Receiver<Call>, board: Arc<Board>) {
    let context = Rc::new(context);
    let local = LocalSet::new();
    local
        .run_until(async {
            let listener = tokio::task::spawn_local(news::listen(Rc::clone(&context), board));
            let mut held: Vec<Call> = Vec::new();
            loop {
                if held.is_empty() && !wait(&context, &mut calls, &mut held).await {
                    break;
                }
                while held.len() < ROUND_CALLS {
                    let Ok(call) = calls.try_recv() else { break };
                    held.push(call);
                }
                held = round(&context, held).await;
                look_after(&context);
            }
            listener.abort();
        })
        .await;
    // Reads that have begun are answered.
    local.await;
}

/// Waits for a call, and looks after the house meanwhile. `false`: there will be none.
async fn wait(context: &Rc<Context>, calls: &mut mpsc::Receiver<Call>, held: &mut Vec<Call>) -> bool {
    loop {
        match tokio::time::timeout(context.options.clock_refresh, calls.recv()).await {
            Ok(Some(call)) => {
                held.push(call);
                return true;
            }
            Ok(None) => return false,
            Err(_) => look_after(context),
        }
    }
}

/// Begins to look after the house, when it is time. Nobody waits for it.
fn look_after(context: &Rc<Context>) {
    if context.is_due() {
        let context = Rc::clone(context);
        drop(tokio::task::spawn_local(async move { context.look_after().await }));
    }
}

/// One round. Answers with what has to wait for the next.
async fn round(context: &Rc<Context>, calls: Vec<Call>) -> Vec<Call> {
    for call in &calls {
        call.learn(context);
    }
    if let Err(error) = context.resolve(calls.iter().flat_map(Call::keys)).await {
        for call in calls {
            call.fail(&error);
        }
        return Vec::new();
    }
    let Sorted { jobs, reads, rest } = sort(context, calls);
    for mailbox in run_jobs(context, jobs).await {
        purge::ended(context, &mailbox).await;
    }
    for read in reads {
        let context = Rc::clone(context);
        drop(tokio::task::spawn_local(async move { read.answer(&context).await }));
    }
    rest
}

/// Both steps of the jobs of one round. Answers with mailboxes in which something may be due to be forgotten.
async fn run_jobs(context: &Rc<Context>, mut jobs: Vec<Job>) -> Vec<Arc<str>> {
    let mut due = Vec::new();
    let mut commands: Vec<Cmd> = context.confirmations();
    let confirmed = commands.len();
    let counts: Vec<usize> =
        jobs.iter_mut().map(|job| added(&mut commands, |commands| job.first(context, commands))).collect();
    let mut answers = match context.link.run_kept(&commands, Keep::Replicas).await {
        Ok(answers) => answers.into_iter().skip(confirmed),
        Err(error) => {
            jobs.into_iter().for_each(|job| job.fail(context, &error));
            return due;
        }
    };
    let mut second = Vec::new();
    for (job, count) in jobs.into_iter().zip(counts) {
        second.extend(job.first_done(context, answers.by_ref().take(count).collect(), &mut due));
    }
    let mut commands = Vec::new();
    let counts: Vec<usize> =
        second.iter_mut().map(|job| added(&mut commands, |commands| job.second(context, commands))).collect();
    match context.link.run_kept(&commands, Keep::Replicas).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (job, count) in second.into_iter().zip(counts) {
                job.second_done(context, answers.by_ref().take(count).collect()).await;
            }
        }
        Err(error) => second.into_iter().for_each(|job| job.fail(context, &error)),
    }
    due
}

/// How many commands `add` has added.
fn added(commands: &mut Vec<Cmd>, add: impl FnOnce(&mut Vec<Cmd>)) -> usize {
    let before = commands.len();
    add(commands);
    commands.len() - before
}

/// What goes into a round, and what waits for the next.
#[derive(Default)]
struct Sorted {
    jobs: Vec<Job>,
    reads: Vec<Read>,
    rest: Vec<Call>,
}

fn sort(context: &Context, calls: Vec<Call>) -> Sorted {
    let mut sorted = Sorted::default();
    let mut blocked: HashSet<Option<Arc<str>>> = HashSet::new();
    let mut bytes = 0;
    for call in calls {
        bytes += call.bytes();
        let mailboxes = call.mailboxes(context);
        let full = bytes > ROUND_BYTES && !sorted.jobs.is_empty();
        // A read sees all that was handed over before it.
        let waits = matches!(call, Call::Read(_)) && !sorted.rest.is_empty();
        if full || waits || mailboxes.iter().any(|mailbox| blocked.contains(mailbox)) {
            blocked.extend(mailboxes);
            sorted.rest.push(call);
            continue;
        }
        if call.takes_two_steps() {
            blocked.extend(mailboxes);
        }
        let job = match call {
            Call::Read(read) => {
                sorted.reads.push(read);
                continue;
            }
            Call::Insert(batch, reply) => Job::Insert(Box::new(Incoming::new(context, batch, Posts::Nothing, reply))),
            Call::Submit(batch, reply) => Job::Insert(Box::new(Incoming::new(context, batch, Posts::New, reply))),
            Call::Claim(batch, reply) => Job::Claims(Claims::plain(batch, reply)),
            Call::Fenced(batch, reply) => Job::Claims(Claims::fenced(batch, reply)),
            Call::Record(batch, reply) => Job::Records(Records::new(batch, reply)),
            Call::Keep(batch, reply) => Job::Keep(Keeping::new(batch, reply)),
        };
        sorted.jobs.push(job);
    }
    sorted
}
