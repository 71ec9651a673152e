//! What earlier attempts left behind, as far as this process knows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations that are remembered; above it the oldest is forgotten, and its draft is looked for if it is needed.
const LEFT_MAX: usize = 10_000;

/// What the earlier attempts of an operation left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The draft with this id.
    Draft(Arc<str>),
    /// Nothing: the creation of a draft was refused, and nothing else was tried.
    Nothing,
}

/// What is known to be left of emails that were not accepted yet, by operation id.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    left: BTreeMap<Arc<str>, Left>,
    order: VecDeque<Arc<str>>,
}

impl Leftovers {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, operation_id: &str) -> Option<Left> {
        self.kept().left.get(operation_id).cloned()
    }

    pub(super) fn keep(&self, operation_id: &Arc<str>, left: Left) {
        let mut kept = self.kept();
        if kept.left.insert(Arc::clone(operation_id), left).is_none() {
            kept.order.push_back(Arc::clone(operation_id));
        }
        while kept.left.len() > LEFT_MAX {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.left.remove(&oldest);
        }
    }

    pub(super) fn forget(&self, operation_id: &str) {
        let mut kept = self.kept();
        if kept.left.remove(operation_id).is_some() {
            kept.order.retain(|other| **other != *operation_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_bounded_and_the_oldest_goes_first() {
        let left = Leftovers::default();
        let name = |n: usize| Arc::<str>::from(format!("{n}"));
        for n in 0..=LEFT_MAX {
            left.keep(&name(n), Left::Nothing);
            left.keep(&name(n), Left::Draft(name(n)));
        }
        assert_eq!(left.get("0"), None);
        assert_eq!((left.get("1"), left.kept().order.len()), (Some(Left::Draft(name(1))), LEFT_MAX));
        left.forget("1");
        assert_eq!((left.get("1"), left.kept().order.len()), (None, LEFT_MAX - 1));
    }
}
