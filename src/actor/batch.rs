//! One call of a mailbox to its store: what its turns have produced since the last one.

use std::sync::Arc;

use futures::future::{OptionFuture, try_join_all};

use super::journal::{Newcomer, Written, guard};
use super::lookup::Lookups;
use super::room::{insert, keep};
use crate::engine::OperationKey;
use crate::engine::mailbox::Record;
use crate::store::{Claim, NewOperation, NoteChange, Store, StoreError};

/// What one call takes to the store.
pub(super) struct Batch {
    pub(super) records: Option<Arc<[Record]>>,
    pub(super) notes: Option<Arc<[NoteChange]>>,
    pub(super) permits: Vec<OperationKey>,
    pub(super) claims: Vec<Claim>,
    pub(super) newcomers: Vec<Newcomer>,
    pub(super) inserts: Vec<NewOperation>,
    pub(super) lookups: Lookups,
}

impl Batch {
    /// Records go first, and what builds on them counts for nothing without them: a claim that another order or a loss
    /// precedes, or a note that is dropped because its operation has ended.
    pub(super) async fn write(self, store: Arc<dyn Store>) -> Written {
        let Self { records, notes, permits, claims, newcomers, inserts, lookups } = self;
        let (claims_sent, inserts_sent) = (!claims.is_empty(), !inserts.is_empty());
        let drops = |notes: &Arc<[NoteChange]>| notes.iter().any(|change| matches!(change, NoteChange::Drop(_)));
        let (early, late) = match notes.clone() {
            Some(notes) if records.is_some() && drops(&notes) => (None, Some(notes)),
            notes => (notes, None),
        };
        let record_first = async {
            let recorded = OptionFuture::from(records.clone().map(|batch| guard(|| store.record(batch)))).await;
            let kept = match late {
                Some(_) if is_lost(recorded.as_ref()) => Some(Err(not_before_records())),
                late => OptionFuture::from(late.map(|batch| keep(&store, batch))).await,
            };
            (recorded, kept)
        };
        let ((recorded, kept_late), kept, claimed, inserted) = futures::join!(
            record_first,
            OptionFuture::from(early.map(|batch| keep(&store, batch))),
            OptionFuture::from(claims_sent.then(|| guard(|| store.claim(claims.clone())))),
            OptionFuture::from(inserts_sent.then(|| insert(&store, newcomers, inserts))),
        );
        let kept = kept.or(kept_late);
        // Their rows may be written all the same: the next claim of each has a higher number.
        let claimed = claimed.map(|answer| if is_lost(recorded.as_ref()) { Err(not_before_records()) } else { answer });
        let found = match &recorded {
            _ if lookups.is_empty() => None,
            // What would be read now would be old.
            Some(Err(error)) if is_lost(recorded.as_ref()) => Some(Err(error.clone())),
            _ => Some(try_join_all(lookups.keys().map(|id| guard(|| store.operation(id)))).await),
        };
        Written {
            records: records.zip(recorded),
            notes: notes.zip(kept),
            permits,
            claims: claimed.map(|answer| (claims, answer)),
            inserts: inserted.unwrap_or_default(),
            lookups: found.map(|answer| (lookups, answer)),
        }
    }
}

/// Whether records were not written, and will be written again.
fn is_lost(recorded: Option<&Result<(), StoreError>>) -> bool {
    matches!(recorded, Some(Err(error)) if !error.is_contradiction())
}

fn not_before_records() -> StoreError {
    StoreError::Unavailable { reason: "what is to be written before it was not written".to_owned() }
}
