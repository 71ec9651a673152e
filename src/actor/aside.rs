//! What a mailbox's next actor starts from, while none is live.
//!
//! An engine that was passivated lies here while a charge in it counts; without that a mailbox could win a fresh budget
//! by being quiet. One that is blank is dropped: looked at a few at a time, so that no departure walks them all. Ids are
//! callers' input, so there is a bound, and what lies here longest is dropped above it. As long as its charges could
//! count, a mailbox that is not here is then read back from the store before it sends.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Timestamp;
use crate::engine::mailbox::Rested;
use crate::store::Recovery;

/// Looked at per departure: two for each that comes, so the heap of them cannot grow unseen.
const LOOKED_AT: usize = 2;

/// What an actor starts from.
#[derive(Debug)]
pub(super) enum Origin {
    /// Nothing is known of the mailbox.
    Fresh,
    /// It was passivated in this process.
    Passivated(Rested),
    /// The store had something when the process started.
    Recovered(Box<Recovery>),
    /// The store had something when the process started, and it is to be read.
    Stored,
    /// Its last actor was lost.
    Lost,
    /// Its actors were lost too often: it waits for an operator.
    Held,
}

#[derive(Debug)]
pub(super) struct Aside {
    laid: HashMap<Arc<str>, Laid>,
    /// What was laid aside, oldest first; entries that `laid` does not confirm are old.
    oldest: VecDeque<(u64, Arc<str>)>,
    last: u64,
    max: usize,
    /// Until then a mailbox that does not lie here may have charges that only the store knows.
    forgotten_until: Timestamp,
}

#[derive(Debug)]
struct Laid {
    number: u64,
    at: Timestamp,
    notes_until: Timestamp,
    origin: Origin,
}

impl Aside {
    /// Room for `max` mailboxes.
    pub(super) fn new(max: usize) -> Self {
        Self { laid: HashMap::new(), oldest: VecDeque::new(), last: 0, max, forgotten_until: Timestamp::EPOCH }
    }

    /// Lays aside what a mailbox's next actor starts from. `reach` is how long a charge can count.
    /// Until `notes_until` what the store keeps of it beside its charges can count.
    pub(super) fn lay(
        &mut self,
        now: Timestamp,
        id: &Arc<str>,
        origin: Origin,
        notes_until: Timestamp,
        reach: impl FnOnce() -> Duration,
    ) {
        self.last += 1;
        self.laid.insert(Arc::clone(id), Laid { number: self.last, at: now, notes_until, origin });
        self.oldest.push_back((self.last, Arc::clone(id)));
        if self.laid.len() > self.max {
            self.forgotten_until = self.forgotten_until.max(now.after(reach()));
        }
        while self.laid.len() > self.max {
            let Some((number, id)) = self.oldest.pop_front() else { return };
            if self.is_laid(number, &id)
                && let Some(laid) = self.laid.remove(&id)
            {
                self.forgotten_until = self.forgotten_until.max(laid.notes_until);
            }
        }
    }

    /// What a mailbox's new actor starts from.
    pub(super) fn take(&mut self, now: Timestamp, id: &str) -> Origin {
        match self.laid.remove(id) {
            Some(laid) => laid.origin,
            None if now < self.forgotten_until => Origin::Lost,
            None => Origin::Fresh,
        }
    }

    /// Drops some of those in which nothing counts any more.
    pub(super) fn look_at_some(&mut self, now: Timestamp, reach: impl Fn() -> Duration) {
        for _ in 0..LOOKED_AT {
            let Some((number, id)) = self.oldest.pop_front() else { return };
            match self.laid.get(&id).filter(|laid| laid.number == number) {
                Some(laid) if laid.is_over(now, &reach) => drop(self.laid.remove(&id)),
                Some(_) => self.oldest.push_back((number, id)),
                None => {}
            }
        }
    }

    fn is_laid(&self, number: u64, id: &str) -> bool {
        self.laid.get(id).is_some_and(|laid| laid.number == number)
    }
}

impl Laid {
    /// Whether a fresh engine would be the same.
    fn is_over(&self, now: Timestamp, reach: impl Fn() -> Duration) -> bool {
        match &self.origin {
            Origin::Fresh => true,
            Origin::Passivated(rested) => rested.is_blank(now),
            Origin::Recovered(recovery) if recovery.operations.is_empty() => {
                let horizon = now.before(reach());
                recovery.attempts.iter().all(|attempt| attempt.claimed_at < horizon) && self.notes_until <= now
            }
            Origin::Recovered(_) | Origin::Held => false,
            Origin::Stored | Origin::Lost => self.at < now.before(reach()) && self.notes_until <= now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Settings;
    use crate::config::Config;
    use crate::engine::mailbox::Mailbox;
    use crate::engine::{Cost, Lane, OperationKey};
    use crate::store::AttemptRecord;

    const REACH: Duration = Duration::from_secs(100);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000 + seconds * 1_000_000)
    }

    fn passivated(id: &Arc<str>) -> Origin {
        let policy = Settings::new(Config::default()).expect("valid").mailbox(id);
        Origin::Passivated(Mailbox::new(Arc::clone(id), policy).rested(at(0)))
    }

    fn recovered(id: &Arc<str>, claimed_at: Timestamp) -> Origin {
        let attempt = AttemptRecord {
            key: OperationKey(1),
            attempt: 1,
            mailbox: Arc::clone(id),
            lane: Lane::Foreground,
            tenant: None,
            cost: Cost::ONE_REQUEST,
            claimed_at,
            finished_at: None,
            leaves: crate::engine::Leaves::All,
        };
        Origin::Recovered(Box::new(Recovery { attempts: vec![attempt], ..Recovery::default() }))
    }

    fn ids(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|number| Arc::from(format!("m{number}@contoso.example"))).collect()
    }

    #[test]
    fn above_the_bound_the_oldest_is_dropped_and_read_back_from_the_store_while_it_may_count() {
        let ids = ids(4);
        let mut aside = Aside::new(2);
        for (second, id) in (0..).zip(&ids[..2]) {
            aside.lay(at(second), id, passivated(id), Timestamp::EPOCH, || panic!("within the bound"));
        }
        assert!(matches!(aside.take(at(2), &ids[3]), Origin::Fresh), "nothing was dropped so far");
        aside.lay(at(2), &ids[2], passivated(&ids[2]), Timestamp::EPOCH, || REACH);
        assert_eq!(aside.laid.len(), 2);
        assert!(matches!(aside.take(at(3), &ids[0]), Origin::Lost));
        assert!(matches!(aside.take(at(3), &ids[1]), Origin::Passivated(_)));
        assert!(matches!(aside.take(at(101), &ids[3]), Origin::Lost), "it may have been the one that was dropped");
        assert!(matches!(aside.take(at(102), &ids[3]), Origin::Fresh), "no charge reaches as far");
    }

    #[test]
    fn one_that_was_taken_and_laid_aside_again_is_as_old_as_the_last_time() {
        let ids = ids(3);
        let mut aside = Aside::new(2);
        aside.lay(at(0), &ids[0], passivated(&ids[0]), Timestamp::EPOCH, || REACH);
        aside.lay(at(1), &ids[1], passivated(&ids[1]), Timestamp::EPOCH, || REACH);
        let again = aside.take(at(2), &ids[0]);
        aside.lay(at(2), &ids[0], again, Timestamp::EPOCH, || REACH);
        aside.lay(at(3), &ids[2], passivated(&ids[2]), Timestamp::EPOCH, || REACH);
        assert!(matches!(aside.take(at(4), &ids[1]), Origin::Lost), "now the oldest");
        assert!(matches!(aside.take(at(4), &ids[0]), Origin::Passivated(_)));
    }

    #[test]
    fn what_the_store_had_and_what_was_lost_is_dropped_when_it_counts_no_more() {
        let ids = ids(3);
        let mut aside = Aside::new(10);
        aside.lay(at(0), &ids[0], recovered(&ids[0], at(0)), Timestamp::EPOCH, || REACH);
        aside.lay(at(0), &ids[1], Origin::Stored, at(101), || REACH);
        for _ in 0..3 {
            aside.look_at_some(at(100), || REACH);
        }
        assert_eq!(aside.laid.len(), 2, "at the limit both may count");
        aside.look_at_some(at(101), || REACH);
        assert!(aside.laid.is_empty() && aside.oldest.is_empty());
    }
}
