//! What is told when it is written: ends that a crash could undo until then.
//!
//! A store may not answer for long. Whoever waits for an operation is told at its deadline all the same: nothing is sent
//! after that whatever becomes of this process, so what is known of it then stays true.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::desk::Listeners;
use super::fleet::Membership;
use super::question::OrderAnswer;
use crate::engine::Timestamp;
use crate::engine::mailbox::{Outcome, Refusal};
use crate::store::fleet::OrderBody;

/// Pause before what a store did not take is written again; and how long what is on its way to it when a deadline passes
/// may take until it is told all the same.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Something to be told when what it speaks of is written.
#[derive(Debug)]
pub(crate) enum News {
    /// How an operation ended, and by when those who wait are told at the latest.
    Outcome { waiting: Listeners, outcome: Outcome, tell_by: Timestamp },
    /// How it ended, for other processes.
    Ended { fleet: Arc<Membership>, id: Arc<str>, outcome: Outcome },
    /// How an attempt ended, for the mailbox's new owner.
    Landed { fleet: Arc<Membership>, mailbox: Arc<str>, body: OrderBody },
    /// The process is to end.
    Abort,
    /// An order is obeyed, and what the engine remembers of it is written. Dropped untold where that fails: whoever gave it
    /// may give it again.
    Obeyed(oneshot::Sender<()>),
    /// What an order did.
    Ordered(oneshot::Sender<Result<OrderAnswer, Refusal>>, OrderAnswer),
}

impl News {
    fn tell(self) {
        match self {
            Self::Outcome { mut waiting, outcome, .. } => waiting.tell(&outcome),
            Self::Ended { fleet, id, outcome } => fleet.ended(id, &outcome),
            Self::Landed { fleet, mailbox, body } => fleet.hand_on(mailbox, body),
            Self::Abort => std::process::abort(),
            Self::Obeyed(answer) => drop(answer.send(())),
            Self::Ordered(answer, done) => drop(answer.send(Ok(done))),
        }
    }

    const fn tell_by(&self) -> Option<Timestamp> {
        match self {
            Self::Outcome { tell_by, waiting, .. } if !waiting.is_none() => Some(*tell_by),
            _ => None,
        }
    }
}

/// What waits to be told, in the order of the records it speaks of.
#[derive(Debug, Default)]
pub(super) struct Bulletin {
    news: Vec<News>,
    /// How many of them the call under way, or the last one that failed, speaks for.
    spoken_for: usize,
    /// The first instant by which one of them is told, or an earlier one; `None`: no such.
    tell_by: Option<Timestamp>,
}

impl Bulletin {
    pub(super) fn put(&mut self, news: News) {
        self.tell_by = [self.tell_by, news.tell_by()].into_iter().flatten().min();
        self.news.push(news);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.news.is_empty()
    }

    /// The call that begins writes what all of them speak of.
    pub(super) const fn speak(&mut self) {
        self.spoken_for = self.news.len();
    }

    /// What the last call recorded is written.
    pub(super) fn tell(&mut self) {
        self.news.drain(..std::mem::take(&mut self.spoken_for)).for_each(News::tell);
        if self.news.is_empty() {
            self.tell_by = None;
        }
    }

    /// What the last call was to write is not written: whoever can give his order again is not kept waiting.
    pub(super) fn disappoint(&mut self) {
        let spoken_for = self.spoken_for;
        let mut place = 0;
        self.news.retain(|news| {
            let is_concerned = place < spoken_for && matches!(news, News::Obeyed(_));
            place += 1;
            self.spoken_for -= usize::from(is_concerned);
            !is_concerned
        });
    }

    /// When somebody is to be told although nothing was written.
    pub(super) const fn tell_by(&self) -> Option<Timestamp> {
        self.tell_by
    }

    /// Tells those whose time has come.
    pub(super) fn tell_overdue(&mut self, now: Timestamp) {
        if self.tell_by.is_none_or(|at| at > now) {
            return;
        }
        for news in &mut self.news {
            if let News::Outcome { waiting, outcome, tell_by } = news
                && *tell_by <= now
            {
                waiting.tell(outcome);
            }
        }
        self.tell_by = self.news.iter().filter_map(News::tell_by).min();
    }

    pub(super) fn shrink(&mut self) {
        self.news.shrink_to_fit();
    }
}
