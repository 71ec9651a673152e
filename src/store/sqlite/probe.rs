//! A look at every commit, for tests: count them, hold one back, let one fail, or end the writer there.
//!
//! Crash points are enumerated with it: a scenario is run once per commit, and the writer dies before or after it.

use std::fmt;
use std::sync::Arc;

/// Where the writer stands. Commits are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitPoint {
    /// Everything is written; the commit has not begun.
    Before(u64),
    /// It is durable; nobody has been told.
    After(u64),
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// Nothing special.
    GoOn,
    /// The writer ends here, as in a crash: what is not committed is undone, and nobody is told anything.
    Die,
}

/// Called at every [`CommitPoint`], on the writer's thread.
#[derive(Clone)]
pub struct CommitProbe(Arc<dyn Fn(CommitPoint) -> Fate + Send + Sync>);

impl CommitProbe {
    /// A probe from a function.
    pub fn new(look: impl Fn(CommitPoint) -> Fate + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub(super) fn look(&self, point: CommitPoint) -> Fate {
        (self.0)(point)
    }
}

impl fmt::Debug for CommitProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitProbe")
    }
}
