//! Calls, and how they find into groups that share a commit.
//!
//! A group is the next call and everything that has arrived behind it, bounded in operations and bytes. A lone call has
//! its commit at once. But callers that were answered together mostly call again together, a microsecond after one
//! another: where the last group had several calls, the writer waits until as many are there again, or none has come for
//! a moment. Else the first of them would have a commit of its own, and the others would wait for two.

use std::hint;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::reply::{Callers, Promise};
use crate::email::Email;
use crate::engine::Timestamp;
use crate::engine::mailbox::Record;
use crate::store::{Claim, Inserted, NewOperation, NoteChange, StoreError};

/// Calls that wait for the writer, at most; above it they wait to be handed over.
pub(super) const CALLS_MAX: usize = 1_024;
/// Operations in one commit, at most, unless one call alone has more.
pub(super) const GROUP_OPERATIONS_MAX: usize = 4_096;
/// Bytes of emails in one commit, at most, unless one call alone has more.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// So often the writer looks for a call that may be on its way, and how long it pauses between two looks: some twenty
/// microseconds in all, against two hundred and more of a commit. It does not yield: on a busy machine that costs
/// milliseconds.
const PATIENCE: u32 = 128;
const PAUSE: u32 = 4;

pub(super) type Reply<T> = Promise<Result<T, StoreError>>;

/// One call.
#[derive(Debug)]
pub(super) enum Call {
    Insert(Vec<NewOperation>, Reply<Vec<Inserted>>),
    Claim(Vec<Claim>, Reply<Vec<Option<Email>>>),
    Record(Arc<[Record]>, Reply<()>),
    Keep(Arc<[NoteChange]>, Reply<()>),
    /// Answers when everything before it has been written.
    Settle(Reply<()>),
    /// The last one: writes everything before it, lets go of the file, answers.
    Close(Reply<()>),
}

/// What a call is answered with, once its transaction is durable.
pub(super) enum Answer {
    Inserted(Result<Vec<Inserted>, StoreError>),
    Claimed(Vec<Option<Email>>),
    Recorded(Result<(), StoreError>),
}

impl Call {
    pub(super) fn operations(&self) -> usize {
        match self {
            Self::Insert(batch, _) => batch.len(),
            Self::Claim(batch, _) => batch.len(),
            Self::Record(batch, _) => batch.len(),
            Self::Keep(batch, _) => batch.len(),
            Self::Settle(_) | Self::Close(_) => 0,
        }
    }

    /// The latest instant that it names.
    pub(super) fn latest(&self) -> Timestamp {
        let latest = match self {
            Self::Insert(batch, _) => batch.iter().map(|new| new.submitted_at).max(),
            Self::Claim(batch, _) => batch.iter().map(|claim| claim.at).max(),
            Self::Record(batch, _) => batch.iter().map(|record| record.at).max(),
            Self::Keep(batch, _) => batch.iter().filter_map(NoteChange::at).max(),
            Self::Settle(_) | Self::Close(_) => None,
        };
        latest.unwrap_or(Timestamp::EPOCH)
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Insert(batch, _) => batch.iter().map(|new| new.email.mime().len()).sum(),
            _ => 0,
        }
    }

    pub(super) fn fail(self, error: StoreError) {
        match self {
            Self::Insert(_, reply) => reply.keep(Err(error)),
            Self::Claim(_, reply) => reply.keep(Err(error)),
            Self::Record(_, reply) | Self::Keep(_, reply) | Self::Settle(reply) | Self::Close(reply) => {
                reply.keep(Err(error));
            }
        }
    }

    /// Lays the answer down; told when `callers` are.
    pub(super) fn answer(self, answer: Answer, callers: &Arc<Callers>) {
        match (self, answer) {
            (Self::Insert(_, reply), Answer::Inserted(answer)) => reply.keep_with(answer, callers),
            (Self::Claim(_, reply), Answer::Claimed(answer)) => reply.keep_with(Ok(answer), callers),
            (Self::Record(_, reply) | Self::Keep(_, reply) | Self::Settle(reply), Answer::Recorded(answer)) => {
                reply.keep_with(answer, callers);
            }
            (call, _) => debug_assert!(false, "an answer to another call: {call:?}"),
        }
    }
}

/// What shares a commit, and the reply of a close among it.
pub(super) struct Group {
    pub(super) calls: Vec<Call>,
    pub(super) last: Option<Reply<()>>,
}

/// The first call and what arrives behind it, within the bounds. `expected`: so many calls the last group had.
pub(super) fn gather(first: Call, calls: &mut mpsc::Receiver<Call>, expected: usize) -> Group {
    let mut group = Vec::with_capacity(expected);
    let (mut operations, mut bytes) = (0, 0);
    let mut next = Some(first);
    while let Some(call) = next {
        if let Call::Close(reply) = call {
            return Group { calls: group, last: Some(reply) };
        }
        operations += call.operations();
        bytes += call.bytes();
        group.push(call);
        let has_room = operations < GROUP_OPERATIONS_MAX && bytes < GROUP_BYTES_MAX;
        next = if has_room { arriving(calls, group.len() < expected) } else { None };
    }
    Group { calls: group, last: None }
}

/// What has arrived; where more are expected, also what arrives in a moment.
fn arriving(calls: &mut mpsc::Receiver<Call>, expects_more: bool) -> Option<Call> {
    for _ in 0..PATIENCE {
        match calls.try_recv() {
            Ok(call) => return Some(call),
            Err(_) if !expects_more => return None,
            Err(_) => (0..PAUSE).for_each(|_| hint::spin_loop()),
        }
    }
    None
}
