//! Submissions that would be refused now and may have been taken in before.
//!
//! Whoever lost the answer to a submission hands it over again, under the same id. Its predecessor may be what fills the
//! queue, the window, the bound on admission keys or the caller's ceiling, and "nothing was stored" would be untrue of
//! it. So its id is looked up before it is refused.

use std::sync::Arc;
use std::time::Duration;

use super::admissions::REPEATS_MAX;
use super::callers::CallerCharge;
use super::entrance::Handed;
use super::journal::Newcomer;
use super::mailbox::MailboxActor;
use crate::engine::callers::CallerRefusal;
use crate::engine::mailbox::Refusal;
use crate::submission::SubmitError;

/// A submission, and why it would not be taken in.
#[derive(Debug)]
pub(crate) struct Unfit {
    handed: Box<Handed>,
    why: Why,
}

#[derive(Debug)]
pub(super) enum Why {
    Engine(Refusal),
    Caller(CallerRefusal),
    Keys(KeysFull),
}

/// As many admission keys count as are allowed, and this one is another.
#[derive(Debug)]
pub(super) struct KeysFull {
    pub(super) keys_max: usize,
    /// When the first of them ends.
    pub(super) retry_after: Duration,
}

impl Unfit {
    pub(super) fn refuse(self) {
        match self.why {
            Why::Engine(refusal) => self.handed.refuse(|submission| SubmitError::Refused { refusal, submission }),
            Why::Caller(refusal) => self.handed.refuse(|submission| SubmitError::Caller { refusal, submission }),
            Why::Keys(KeysFull { keys_max, retry_after }) => {
                let error = |submission| SubmitError::TooManyAdmissionKeys { keys_max, retry_after, submission };
                self.handed.refuse(error);
            }
        }
    }
}

impl MailboxActor {
    /// Refuses it, unless its id turns out to be known. An id of ours is new, and too many questions are not asked.
    pub(super) fn refuse_unless_known(&mut self, handed: Box<Handed>, why: Why) {
        let is_named = handed.submission.operation_id.is_some();
        let unfit = Unfit { handed, why };
        if is_named && self.journal.unfit_waiting() < REPEATS_MAX {
            let id = Arc::clone(&unfit.handed.id);
            self.journal.look_up_unfit(id, unfit);
        } else {
            unfit.refuse();
        }
    }

    /// Its id is known: the store tells the same content from another. There is no queue to judge, unless the store
    /// forgets an operation that has ended between the look at it and this: then it is stored as a new one, and may be one
    /// more than its lane holds. Only the store can tell content from content, and it does so by storing; the window is that
    /// of one call, and lasts for those repeats that were looked up together, [`REPEATS_MAX`] at most.
    pub(super) fn meet(&mut self, Unfit { handed, .. }: Unfit) {
        let operation = self.operation_of(&handed);
        let new = self.new_operation(&handed, &operation, None);
        self.journal.insert(Newcomer { handed, operation, charge: CallerCharge::none() }, new);
    }
}
