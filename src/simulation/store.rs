//! A store in trouble: what becomes of the row that is written ahead of an attempt.
//!
//! Only these rows. What is recorded afterwards is written at once here: the shell keeps it until the store takes it, and
//! `tests/crash_points` kills it at every such write.

use std::collections::BTreeMap;
use std::time::Duration;

use super::World;
use super::agenda::Happening;
use super::cost::{Comes, Write};
use super::step::Work;
use crate::engine::mailbox::{ClaimFailure, Input};
use crate::engine::{OperationKey, Ratio, Timestamp};
use crate::upstream::{Random, Schedule};

/// Which part of the attempt rows goes wrong, over time. At most one thing happens to a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreFaults {
    /// The row is not written, and the engine hears that.
    pub fails: Schedule<Ratio>,
    /// The row is written, and the engine hears that it was not.
    pub in_doubt: Schedule<Ratio>,
    /// The row is written, and the engine hears it late.
    pub slow: Schedule<Ratio>,
    /// The latest that it does.
    pub slow_max: Duration,
}

/// The store, and what it has not answered yet.
#[derive(Debug)]
pub(super) struct Store {
    faults: StoreFaults,
    random: Random,
    unanswered: BTreeMap<OperationKey, (usize, u32)>,
}

impl Default for Store {
    fn default() -> Self {
        Self { faults: StoreFaults::default(), random: Random::new(0), unanswered: BTreeMap::new() }
    }
}

enum Fate {
    Written,
    Failed,
    InDoubt,
    Slow(Duration),
}

impl Store {
    fn fate(&mut self, now: Timestamp) -> Fate {
        let faults = &self.faults;
        let parts = [&faults.fails, &faults.in_doubt, &faults.slow].map(|part| u64::from(part.at(now).as_ppm()));
        if parts == [0; 3] {
            return Fate::Written;
        }
        let draw = self.random.below(u64::from(Ratio::ONE.as_ppm()));
        match draw {
            draw if draw < parts[0] => Fate::Failed,
            draw if draw < parts[0] + parts[1] => Fate::InDoubt,
            draw if draw < parts.iter().sum() => {
                let most = u64::try_from(self.faults.slow_max.as_micros()).unwrap_or(u64::MAX);
                Fate::Slow(Duration::from_micros(self.random.below(most.max(1))))
            }
            _ => Fate::Written,
        }
    }

    /// Nobody is left to hear its answers.
    pub(super) fn forget(&mut self) {
        self.unanswered.clear();
    }

    /// Nobody of one mailbox is.
    pub(super) fn forget_of(&mut self, number: usize) {
        self.unanswered.retain(|_, (mailbox, _)| *mailbox != number);
    }
}

impl World {
    /// Lets things go wrong at the store.
    #[must_use]
    pub fn store_faults(mut self, faults: StoreFaults, seed: u64) -> Self {
        (self.store.faults, self.store.random) = (faults, Random::stream(seed, 0x5708E));
        self
    }

    /// An engine wants the row of an attempt written.
    pub(super) fn claim(&mut self, number: usize, key: OperationKey, row: u32) {
        let is_new = self.get(key).is_some_and(|traced| traced.submitted_at == self.now);
        let comes = if is_new { Comes::Second } else { Comes::First };
        self.tally.write(self.now, Some(number), Write::Claim, comes);
        let failure = ClaimFailure::Transient;
        let answer = match self.store.fate(self.now) {
            Fate::Failed => {
                self.on_no_claim(key);
                Some(Input::ClaimFailed { key, failure })
            }
            Fate::InDoubt => {
                self.on_claim(key, row);
                Some(Input::ClaimFailed { key, failure })
            }
            Fate::Slow(span) => {
                self.on_claim(key, row);
                self.store.unanswered.insert(key, (number, row));
                self.put(self.now.after(span), Happening::Written { key, row });
                None
            }
            Fate::Written => {
                self.on_claim(key, row);
                Some(Input::Claimed { key })
            }
        };
        self.work.extend(answer.map(|input| Work::Mailbox(number, input)));
    }

    /// The store answers late.
    pub(super) fn written(&mut self, key: OperationKey, row: u32) {
        let Some((number, written)) = self.store.unanswered.get(&key).copied() else { return };
        if written == row {
            self.store.unanswered.remove(&key);
            self.run(Work::Mailbox(number, Input::Claimed { key }));
        }
    }
}
