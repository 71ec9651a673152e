//! One mailbox's way to the store: what one turn produced goes in one call, and one call is under way at a time.
//!
//! While a call runs, the next batch gathers behind it, so a slow store gets larger batches instead of more calls, and
//! what is written stays in order: records, then notes, then claims, then inserts. A store that answers at the first poll (memory)
//! never leaves the actor's turn. Records that could not be written are kept and written again before anything newer;
//! claims and inserts fail to their askers, who know what to do; a claim also where the records before it failed, whatever
//! became of it itself. Notes are as records, but for permits that a store has no room for, which are let go.
//!
//! Whoever waits to hear of an end that we decided hears of it when that is written: told before, a crash in between would
//! make it untrue.
//!
//! What has to be read of an operation is read last, when the records of the call are written: a row that is read
//! before the record of its end is an old one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::batch::Batch;
use super::callers::{CallerCharge, Fate};
use super::entrance::Handed;
use super::lookup::{Lookup, Lookups};
use super::news::{Bulletin, News, PATIENCE};
use super::orders::PersonOrder;
use super::room::begins_permit;
use super::slip::Teller;
use super::unfit::Unfit;
use crate::email::Email;
use crate::engine::mailbox::{Coming, Record};
use crate::engine::{Cost, Lane, Operation, OperationKey, OperationState, Timestamp};
use crate::store::{Claim, Inserted, NewOperation, NoteChange, OperationRecord, Store, StoreError};

/// A submission that waits for its insert.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) handed: Box<Handed>,
    pub(crate) operation: Operation,
    pub(crate) charge: CallerCharge,
}

/// What one call wrote, or failed to.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) records: Option<Answered<Arc<[Record]>, ()>>,
    pub(crate) notes: Option<Answered<Arc<[NoteChange]>, ()>>,
    /// Permits whose charges are among the notes.
    pub(crate) permits: Vec<OperationKey>,
    pub(crate) claims: Option<Answered<Vec<Claim>, Vec<Option<Email>>>>,
    /// One answer, or two where admission keys found no room.
    pub(crate) inserts: Vec<Answered<Vec<Newcomer>, Vec<Inserted>>>,
    pub(crate) lookups: Option<Answered<Lookups, Vec<Option<OperationRecord>>>>,
}

/// What was asked, and what the store said.
pub(super) type Answered<Q, A> = (Q, Result<A, StoreError>);

/// How a flush went.
#[derive(Debug)]
pub(crate) enum Flush {
    /// There was nothing to do, or a call is under way already.
    Nothing,
    /// Done, without waiting.
    Done(Box<Written>),
    /// Under way. Poll the rest elsewhere and bring the answer to [`Journal::landed`].
    Waiting(Call),
}

pub(crate) struct Call(pub(crate) BoxFuture<'static, Written>);

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    records: Vec<Record>,
    notes: Vec<NoteChange>,
    permits: Vec<OperationKey>,
    claims: Vec<Claim>,
    inserts: Vec<(Newcomer, NewOperation)>,
    lookups: Lookups,
    /// Notes that were not written. They go before newer ones.
    failed_notes: Vec<NoteChange>,
    /// To be told when what was recorded before it is written.
    bulletin: Bulletin,
    /// Records that were not written. They go first.
    failed: Option<Arc<[Record]>>,
    /// After a failure: when the store is called again.
    retry_at: Option<Timestamp>,
    busy: bool,
    coming: [Coming; 2],
}

impl Journal {
    pub(crate) fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Keeps or forgets a note.
    pub(crate) fn note(&mut self, change: NoteChange) {
        self.notes.push(change);
    }

    /// Keeps the charge of a permit, which waits for that.
    pub(crate) fn permit(&mut self, key: OperationKey, change: NoteChange) {
        self.notes.push(change);
        self.permits.push(key);
    }

    /// Records that are not written yet, of operations that came to this state.
    pub(crate) fn unwritten(&self, state: OperationState) -> Vec<Record> {
        let failed = self.failed.iter().flat_map(|failed| failed.iter());
        failed.chain(&self.records).filter(|record| record.state == state).cloned().collect()
    }

    /// Tells it when the records of this turn are written.
    pub(crate) fn tell_when_written(&mut self, news: News) {
        self.bulletin.put(news);
    }

    /// What the last call recorded is written.
    pub(crate) fn tell(&mut self) {
        self.bulletin.tell();
    }

    /// Tells whoever waits for the end of an operation whose deadline has passed, written or not.
    pub(crate) fn tell_overdue(&mut self, now: Timestamp) {
        self.bulletin.tell_overdue(now);
    }

    /// When somebody is to be told although nothing was written.
    pub(crate) const fn tell_by(&self) -> Option<Timestamp> {
        self.bulletin.tell_by()
    }

    pub(crate) fn claim(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    pub(crate) fn insert(&mut self, newcomer: Newcomer, new: NewOperation) {
        self.coming[new.lane.index()].add(&new.cost);
        self.inserts.push((newcomer, new));
    }

    /// Submissions by lane that wait for their insert, in a call or before it.
    pub(crate) const fn coming(&self) -> &[Coming; 2] {
        &self.coming
    }

    /// Forgets claims that no call has taken up: nothing was sent on them.
    pub(crate) fn drop_claims(&mut self) {
        self.claims.clear();
        self.permits.clear();
    }

    /// Submissions that wait for their insert and are not in a call yet.
    pub(crate) fn drain_inserts(&mut self) -> Vec<Newcomer> {
        let newcomers: Vec<Newcomer> = self.inserts.drain(..).map(|(newcomer, _)| newcomer).collect();
        newcomers.iter().for_each(|newcomer| self.arrived(newcomer.operation.lane, &newcomer.operation.cost));
        newcomers
    }

    /// Submissions that the next call would bring, and whose callers have gone: nothing of them is stored. None where
    /// there is no call now.
    pub(crate) fn drain_withdrawn(&mut self, now: Timestamp) -> Vec<Newcomer> {
        let gone = |(newcomer, _): &mut (Newcomer, _)| newcomer.handed.reply.is_withdrawn();
        if self.inserts.is_empty() || !self.may_call(now) {
            return Vec::new();
        }
        let gone: Vec<Newcomer> = self.inserts.extract_if(.., gone).map(|(newcomer, _)| newcomer).collect();
        gone.iter().for_each(|newcomer| self.arrived(newcomer.operation.lane, &newcomer.operation.cost));
        gone
    }

    /// Whether no call is under way, and none waits after a failure.
    fn may_call(&self, now: Timestamp) -> bool {
        !self.busy && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Whether a call is under way or anything waits for one.
    pub(crate) fn is_settled(&self) -> bool {
        !self.busy && self.is_empty() && !self.is_failing()
    }

    /// Gives back room that nothing needs.
    pub(crate) fn shrink(&mut self) {
        self.records.shrink_to_fit();
        self.notes.shrink_to_fit();
        self.permits.shrink_to_fit();
        self.failed_notes.shrink_to_fit();
        self.claims.shrink_to_fit();
        self.inserts.shrink_to_fit();
        self.bulletin.shrink();
    }

    /// Whether a call is under way.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.notes.is_empty()
            && self.claims.is_empty()
            && self.inserts.is_empty()
            && self.lookups.is_empty()
    }

    /// Whether the last call failed, or records of an earlier one are not written yet.
    pub(crate) const fn is_failing(&self) -> bool {
        self.failed.is_some() || !self.failed_notes.is_empty() || self.retry_at.is_some()
    }

    /// When the store is called again after a failure.
    pub(crate) const fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at
    }

    /// Writes what has gathered, if no call is under way. After a failure everything waits for its instant, so that a
    /// store in trouble is not asked once per turn.
    pub(crate) fn flush(&mut self, store: &Arc<dyn Store>, now: Timestamp) -> Flush {
        let idle = self.is_empty() && self.failed.is_none() && self.failed_notes.is_empty() && self.bulletin.is_empty();
        if !self.may_call(now) {
            return Flush::Nothing;
        }
        // Also where nothing is left to write: a journal that fails for ever is waited for for ever.
        self.retry_at = None;
        if idle {
            return Flush::Nothing;
        }
        self.bulletin.speak();
        let (mut newcomers, inserts): (Vec<_>, Vec<_>) = self.inserts.drain(..).unzip();
        // From the call on it may be stored, whatever becomes of the call.
        newcomers.iter_mut().for_each(|newcomer: &mut Newcomer| newcomer.charge.set(Fate::Stored));
        let (records, notes, permits) = (self.take_records(), self.take_notes(), std::mem::take(&mut self.permits));
        let (claims, lookups) = (std::mem::take(&mut self.claims), std::mem::take(&mut self.lookups));
        let batch = Batch { records, notes, permits, claims, newcomers, inserts, lookups };
        let mut call = batch.write(Arc::clone(store)).boxed();
        match (&mut call).now_or_never() {
            Some(written) => Flush::Done(Box::new(written)),
            None => {
                self.busy = true;
                Flush::Waiting(Call(call))
            }
        }
    }

    /// The call that was under way has ended.
    pub(crate) fn landed(&mut self) {
        self.busy = false;
    }

    /// A submission's insert has ended, this way or that.
    pub(crate) fn arrived(&mut self, lane: Lane, cost: &Cost) {
        self.coming[lane.index()].remove(cost);
    }

    /// Keeps records that could not be written, and writes them again in a while.
    pub(crate) fn keep(&mut self, records: Arc<[Record]>, now: Timestamp) {
        self.bulletin.disappoint();
        (self.failed, self.retry_at) = (Some(records), Some(now.after(PATIENCE)));
    }

    /// Keeps notes that could not be written, and writes them again in a while. Not charges of permits that wait: whoever
    /// waits is told, and asks again.
    pub(crate) fn keep_notes(&mut self, notes: &[NoteChange], now: Timestamp) {
        self.bulletin.disappoint();
        self.failed_notes.extend(notes.iter().filter(|change| !begins_permit(change)).cloned());
        self.retry_at.get_or_insert(now.after(PATIENCE));
    }

    /// Keeps what the store will not take until a person mends it: nothing is called until then.
    pub(crate) fn keep_notes_until_told(&mut self, notes: &[NoteChange], now: Timestamp) {
        self.keep_notes(notes, now);
        self.retry_at = Some(Timestamp::NEVER);
    }

    /// Keeps records that the store will not take until a person mends it: nothing is called until then.
    pub(crate) fn keep_until_told(&mut self, records: Arc<[Record]>) {
        self.bulletin.disappoint();
        (self.failed, self.retry_at) = (Some(records), Some(Timestamp::NEVER));
    }

    /// A person has had a look: the store may be called.
    pub(crate) fn retry_now(&mut self) {
        self.retry_at = None;
    }

    /// Has the row of an operation read, after whatever is to be written now.
    pub(crate) fn look_up(&mut self, id: Arc<str>, waiting: Vec<Teller>) {
        self.lookups.entry(id).or_default().waiting.extend(waiting);
    }

    /// The same for an insert that may have been done.
    pub(crate) fn look_up_doubt(&mut self, id: Arc<str>, doubted: OperationKey) {
        self.lookups.entry(id).or_default().doubt = Some(doubted);
    }

    /// The same for a submission that is refused unless its id is known.
    pub(crate) fn look_up_unfit(&mut self, id: Arc<str>, unfit: Unfit) {
        self.lookups.entry(id).or_default().unfit.push(unfit);
    }

    /// Submissions that wait for that.
    pub(crate) fn unfit_waiting(&self) -> usize {
        self.lookups.values().map(|lookup| lookup.unfit.len()).sum()
    }

    /// How many wait for the row of an operation.
    pub(crate) fn looking_up(&self, id: &str) -> usize {
        self.lookups.get(id).map_or(0, |lookup| lookup.waiting.len())
    }

    /// The same for what is ordered about an operation.
    pub(crate) fn look_up_for(&mut self, order: PersonOrder) {
        self.lookups.entry(Arc::clone(&order.id)).or_default().orders.push(order);
    }

    /// Has them read again in a while.
    pub(crate) fn look_up_later(&mut self, lookups: Lookups, now: Timestamp) {
        self.retry_at.get_or_insert(now.after(PATIENCE));
        for (id, Lookup { waiting, orders, doubt, unfit }) in lookups {
            let lookup = self.lookups.entry(id).or_default();
            lookup.waiting.extend(waiting);
            lookup.orders.extend(orders);
            lookup.doubt = lookup.doubt.or(doubt);
            lookup.unfit.extend(unfit);
        }
    }

    fn take_notes(&mut self) -> Option<Arc<[NoteChange]>> {
        let (failed, notes) = (std::mem::take(&mut self.failed_notes), std::mem::take(&mut self.notes));
        let all: Vec<NoteChange> = failed.into_iter().chain(notes).collect();
        (!all.is_empty()).then(|| all.into())
    }

    fn take_records(&mut self) -> Option<Arc<[Record]>> {
        let records = std::mem::take(&mut self.records);
        match self.failed.take() {
            None if records.is_empty() => None,
            None => Some(records.into()),
            Some(failed) => Some(failed.iter().cloned().chain(records).collect()),
        }
    }
}

/// A store that panics is a store that is not available: its caller goes on.
pub(crate) async fn guard<'a, T>(call: impl FnOnce() -> BoxFuture<'a, Result<T, StoreError>>) -> Result<T, StoreError> {
    AssertUnwindSafe(async { call().await })
        .catch_unwind()
        .await
        .unwrap_or_else(|_panic| Err(StoreError::Unavailable { reason: "the store panicked".to_owned() }))
}
