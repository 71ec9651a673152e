//! What is kept all the same when a store has no room for all of a batch.

use std::sync::Arc;

use super::journal::{Answered, Newcomer, guard};
use crate::store::{Inserted, NewOperation, NoteBody, NoteChange, Store, StoreError};

/// Keeps notes. Where there is no room for what begins, the rest is kept without it, and the answer still says *full*:
/// ends, orders and breakers must not go with it.
pub(super) async fn keep(store: &Arc<dyn Store>, batch: Arc<[NoteChange]>) -> Result<(), StoreError> {
    let mut answer = guard(|| store.keep(Arc::clone(&batch))).await;
    for is_left_out in [begins_permit, needs_room] {
        let Err(full @ StoreError::Full { .. }) = answer else { break };
        let rest: Arc<[NoteChange]> = batch.iter().filter(|change| !is_left_out(change)).cloned().collect();
        answer = Err(full.clone());
        if !rest.is_empty() && rest.len() < batch.len() {
            match guard(|| store.keep(rest)).await {
                Ok(()) => return Err(full),
                failed => answer = failed,
            }
        }
    }
    match answer {
        // Not the room of a bound, then: what an end, an order or a breaker says is written when there is some.
        Err(full @ StoreError::Full { .. }) if !batch.iter().all(needs_room) => {
            Err(StoreError::Unavailable { reason: full.to_string() })
        }
        answer => answer,
    }
}

/// Whether it is the charge of a permit that waits for it.
pub(super) fn begins_permit(change: &NoteChange) -> bool {
    let NoteChange::Keep(note) = change else { return false };
    matches!(&note.body, NoteBody::Permit(permit) if permit.finished_at.is_none())
}

fn needs_room(change: &NoteChange) -> bool {
    matches!(change, NoteChange::Keep(note) if note.key.kind.needs_room())
}

/// Stores newcomers. Where the notes of admission keys find no room, those without a key are stored all the same.
pub(super) async fn insert(
    store: &Arc<dyn Store>,
    newcomers: Vec<Newcomer>,
    inserts: Vec<NewOperation>,
) -> Vec<Answered<Vec<Newcomer>, Vec<Inserted>>> {
    let has_key = |new: &&NewOperation| new.note.is_some();
    let keys = inserts.iter().filter(has_key).count();
    let plain: Vec<NewOperation> = match keys {
        0 => Vec::new(),
        _ => inserts.iter().filter(|new| !has_key(new)).cloned().collect(),
    };
    match guard(|| store.insert(inserts)).await {
        Err(full @ StoreError::Full { .. }) if !plain.is_empty() => {
            let has_key = |newcomer: &Newcomer| newcomer.handed.submission.admission.is_some();
            let (refused, others) = newcomers.into_iter().partition(has_key);
            let answer = guard(|| store.insert(plain)).await;
            vec![(others, answer), (refused, Err(full))]
        }
        answer => vec![(newcomers, answer)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::journal::{Flush, Journal};
    use crate::actor::kept::permit;
    use crate::engine::{Cost, Lane, OperationKey, Timestamp};
    use crate::store::{MemoryStore, PermitNote};

    #[test]
    fn a_permit_whose_charge_was_not_kept_leaves_nothing_that_fails_for_ever() {
        let at = Timestamp::from_micros;
        let charge = PermitNote {
            key: OperationKey(1),
            lane: Lane::Foreground,
            tenant: None,
            cost: Cost::email(1, 1),
            claimed_at: at(1),
            finished_at: None,
            leaves: crate::engine::Leaves::All,
        };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut journal = Journal::default();
        journal.keep_notes(&[permit(&"a@contoso.example".into(), charge, at(1), at(2))], at(1));
        assert!(journal.is_failing());
        let retry_at = journal.retry_at().expect("the store is given a while");
        assert!(matches!(journal.flush(&store, retry_at), Flush::Nothing));
        assert!(!journal.is_failing() && journal.is_settled());
    }
}
