//! The callers' ledgers, shared by all mailboxes, and a charge on its way to the store.
//!
//! A submission is charged last, when nothing but the store can refuse it any more: a repeat under an admission key, a
//! full queue or a hopeless deadline never touches the ledger. From then on the charge travels with it and settles
//! itself wherever it ends: given back where it certainly was not stored, kept where it was or may have been.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::Timestamp;
use crate::engine::callers::{CallerRefusal, Callers, CallersPolicy, Charge, OperationName};

/// The ledgers of all callers.
#[derive(Debug, Default)]
pub(crate) struct CallerBook(Mutex<Callers>);

impl CallerBook {
    /// Judges and charges a submission of `caller`; a submission without a caller has no ceiling.
    pub(crate) fn charge(
        self: &Arc<Self>,
        now: Timestamp,
        policy: &CallersPolicy,
        caller: Option<&Arc<str>>,
        operation: OperationName,
        recipients: usize,
    ) -> Result<CallerCharge, CallerRefusal> {
        let Some(caller) = caller else { return Ok(CallerCharge::none()) };
        let recipients = u32::try_from(recipients).unwrap_or(u32::MAX);
        let charge = self.with(|callers| callers.charge(now, policy, caller, operation, recipients))?;
        Ok(CallerCharge(charge.map(|charge| Open { charge, book: Arc::clone(self), fate: Fate::NotStored })))
    }

    fn with<T>(&self, call: impl FnOnce(&mut Callers) -> T) -> T {
        // Nothing panics between two changes of a ledger, so a poisoned lock is still good.
        call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A charge that is open. Dropped, it settles as its submission then stands.
#[derive(Debug)]
pub(crate) struct CallerCharge(Option<Open>);

#[derive(Debug)]
struct Open {
    charge: Charge,
    book: Arc<CallerBook>,
    fate: Fate,
}

/// Whether the store has the submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Certainly not by this submission.
    NotStored,
    /// It has, or nobody knows.
    Stored,
}

impl CallerCharge {
    /// Nothing is charged.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// What is known of the submission from now on.
    pub(crate) fn set(&mut self, fate: Fate) {
        if let Some(open) = &mut self.0 {
            open.fate = fate;
        }
    }
}

impl Drop for CallerCharge {
    fn drop(&mut self) {
        let Some(Open { charge, book, fate }) = self.0.take() else { return };
        book.with(|callers| match fate {
            Fate::NotStored => callers.give_back(charge),
            Fate::Stored => callers.keep(charge),
        });
    }
}
