//! One living scheduler per store, for stores that one alone may use.
//!
//! Two schedulers over one such store would each claim what the other sends: a repeated claim is answered with the
//! email again, since its first answer may have been lost.

use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A scheduler's hold on its store. It lets go when it is dropped.
#[derive(Debug, Default)]
#[must_use = "the store is let go of when it is dropped"]
pub struct Attachment(#[expect(dead_code, reason = "its life is what it says")] Option<Arc<()>>);

/// Where the hold of the scheduler that lives is remembered; clones remember together.
#[derive(Clone, Debug, Default)]
pub(super) struct Place(Arc<Mutex<Weak<()>>>);

impl Place {
    /// Takes the place; `None` while somebody has it.
    pub(super) fn take(&self) -> Option<Attachment> {
        let mut holder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if holder.strong_count() > 0 {
            return None;
        }
        let held = Arc::new(());
        *holder = Arc::downgrade(&held);
        Some(Attachment(Some(held)))
    }
}
