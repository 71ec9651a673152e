//! Providers to test against: each counts arrivals by one algorithm, on its own clock, weighted.

use std::collections::VecDeque;

/// How a provider counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Windows at `phase + k·W`.
    Fixed { phase: u64 },
    /// A window opens at the first arrival after the last one ended.
    Anchored,
    /// The last W.
    Rolling,
    /// Two counters, the older one fading out.
    SlidingCounter { phase: u64 },
    /// Refills at N/W.
    Bucket { depth: u64 },
}

/// Whether a refused request counts like an accepted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusals {
    Counted,
    Free,
}

/// One provider with one limit.
#[derive(Debug)]
pub(crate) struct Provider {
    algorithm: Algorithm,
    refusals: Refusals,
    amount: u64,
    window: u64,
    /// Rolling: arrivals of the last W.
    arrivals: VecDeque<(u64, u64)>,
    /// Fixed and sliding: index of the window, its count, the count before. Anchored: start, count.
    index: u64,
    count: u64,
    before: u64,
    /// Bucket: instant at which it is full again, times the amount.
    full_at: u128,
}

impl Provider {
    pub(crate) fn new(algorithm: Algorithm, refusals: Refusals, amount: u64, window_micros: u64) -> Self {
        Self {
            algorithm,
            refusals,
            amount,
            window: window_micros,
            arrivals: VecDeque::new(),
            index: 0,
            count: 0,
            before: 0,
            full_at: 0,
        }
    }

    /// Whether it takes an arrival at `at` on its clock; `at` never decreases.
    pub(crate) fn arrive(&mut self, at: u64, cost: u64) -> bool {
        self.turn(at);
        let taken = self.fits(at, cost);
        if taken || self.refusals == Refusals::Counted {
            self.charge(at, cost);
        }
        taken
    }

    fn turn(&mut self, at: u64) {
        match self.algorithm {
            Algorithm::Fixed { phase } | Algorithm::SlidingCounter { phase } => {
                let index = (at + phase) / self.window;
                if index != self.index {
                    self.before = if index == self.index + 1 { self.count } else { 0 };
                    (self.index, self.count) = (index, 0);
                }
            }
            Algorithm::Anchored => {
                if at >= self.index + self.window {
                    (self.index, self.count) = (at, 0);
                }
            }
            Algorithm::Rolling => {
                while self.arrivals.front().is_some_and(|(then, _)| then + self.window <= at) {
                    self.count -= self.arrivals.pop_front().unwrap().1;
                }
            }
            Algorithm::Bucket { .. } => {}
        }
    }

    fn fits(&self, at: u64, cost: u64) -> bool {
        let (amount, window) = (u128::from(self.amount), u128::from(self.window));
        match self.algorithm {
            Algorithm::SlidingCounter { phase } => {
                let left = window - u128::from((at + phase) % self.window);
                u128::from(self.before) * left + u128::from(self.count + cost) * window <= amount * window
            }
            Algorithm::Bucket { depth } => {
                let level = self.full_at.saturating_sub(u128::from(at) * amount);
                level + u128::from(cost) * window <= u128::from(depth) * window
            }
            _ => self.count + cost <= self.amount,
        }
    }

    fn charge(&mut self, at: u64, cost: u64) {
        self.count += cost;
        if self.algorithm == Algorithm::Rolling {
            self.arrivals.push_back((at, cost));
        }
        if matches!(self.algorithm, Algorithm::Bucket { .. }) {
            let now = u128::from(at) * u128::from(self.amount);
            self.full_at = self.full_at.max(now) + u128::from(cost) * u128::from(self.window);
        }
    }
}
