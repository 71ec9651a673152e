//! The tokens of a shared scope in the process that holds them, and when it asks for more.

use std::collections::VecDeque;

use super::{Ask, ChunkRules, Gained};
use crate::engine::limit::Limit;
use crate::engine::time::Timestamp;

/// Where an exchange stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Exchange {
    #[default]
    None,
    /// It was begun then.
    UnderWay(Timestamp),
}

/// The tokens of one scope.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    rules: ChunkRules,
    /// One per limit.
    tokens: Vec<Tokens>,
    exchange: Exchange,
    /// When to look whether the table is to be asked.
    look_at: Option<Timestamp>,
    /// Not before this.
    not_before: Timestamp,
    /// What the table says is held here and may not be so any more.
    stated: u64,
}

/// The tokens of one limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    held: u64,
    /// Usable from then on.
    later: VecDeque<(Timestamp, u64)>,
    until: Timestamp,
    since: Option<Timestamp>,
    missing: u64,
}

impl Tokens {
    fn sum(&self) -> u64 {
        self.later.iter().map(|(_, count)| *count).fold(self.held, u64::saturating_add)
    }

    /// When so many are there; `None`: not with these.
    fn earliest(&self, now: Timestamp, cost: u64) -> Option<Timestamp> {
        let mut there = self.held;
        if there >= cost && now < self.until {
            return Some(now);
        }
        for (from, count) in &self.later {
            there = there.saturating_add(*count);
            if there >= cost {
                let at = now.max(*from);
                return (at < self.until).then_some(at);
            }
        }
        None
    }

    fn ripen(&mut self, now: Timestamp) {
        while let Some((_, count)) = self.later.front().filter(|(from, _)| *from <= now) {
            self.held = self.held.saturating_add(*count);
            self.later.pop_front();
        }
    }

    /// Lets go of all but `keep`, those first that are usable last.
    fn keep(&mut self, keep: u64) {
        let mut over = self.sum().saturating_sub(keep);
        while over > 0
            && let Some((from, count)) = self.later.pop_back()
        {
            if count > over {
                self.later.push_back((from, count - over));
            }
            over = over.saturating_sub(count);
        }
        self.held = self.held.saturating_sub(over);
    }
}

impl Allowance {
    pub(crate) fn new(rules: ChunkRules, limits: usize) -> Self {
        let mut new = Self {
            rules,
            tokens: Vec::new(),
            exchange: Exchange::None,
            look_at: None,
            not_before: Timestamp::EPOCH,
            stated: 0,
        };
        new.clear(limits);
        new
    }

    /// Whether a limit is leased: one with a bucket is divided instead.
    pub(crate) const fn leases(limit: &Limit) -> bool {
        !limit.has_bucket()
    }

    fn clear(&mut self, limits: usize) {
        self.tokens = (0..limits).map(|_| Tokens::default()).collect();
        self.exchange = Exchange::None;
    }

    /// The limits have changed: nothing that was held is used under the new ones.
    pub(crate) fn reset(&mut self, now: Timestamp, limits: usize) {
        self.clear(limits);
        self.forgotten(now);
    }

    /// The table may not say any more what it was told: it is to be told again.
    pub(crate) fn forgotten(&mut self, now: Timestamp) {
        self.stated = self.stated.max(1);
        self.hurry(now);
    }

    /// When `cost` may go by the tokens of a limit, or when it is worth while to look again.
    pub(crate) fn earliest(&self, now: Timestamp, index: usize, cost: u64) -> Timestamp {
        let soon = || now.after(self.rules.chunk / 10).max(self.look_at.unwrap_or(now));
        self.tokens.get(index).and_then(|tokens| tokens.earliest(now, cost)).unwrap_or_else(soon)
    }

    pub(crate) fn spend(&mut self, now: Timestamp, index: usize, cost: u64) {
        if let Some(tokens) = self.tokens.get_mut(index) {
            tokens.ripen(now);
            tokens.held = tokens.held.saturating_sub(cost);
        }
    }

    /// Nothing of it was used.
    pub(crate) fn give_back(&mut self, index: usize, cost: u64) {
        if let Some(tokens) = self.tokens.get_mut(index) {
            tokens.held = tokens.held.saturating_add(cost);
        }
    }

    /// What is held of a limit, and until when.
    pub(crate) fn held(&self, index: usize) -> (u64, Timestamp) {
        self.tokens.get(index).map_or((0, Timestamp::EPOCH), |tokens| (tokens.sum(), tokens.until))
    }

    /// Lets go of all that is not needed of a limit, and returns what is left and since when more is waited for. Who holds
    /// less than is of use, and got nothing more the last time, lets go of all.
    pub(crate) fn let_go(&mut self, index: usize, keep: u64, least: u64) -> (u64, Option<Timestamp>) {
        let Some(tokens) = self.tokens.get_mut(index) else { return (0, None) };
        let useless = tokens.missing > 0 && tokens.sum() < least;
        tokens.keep(if useless { 0 } else { keep });
        (tokens.sum(), tokens.since)
    }

    /// How much a process has at hand for what may come: a chunk.
    pub(crate) fn spare(&self, limit: &Limit) -> u64 {
        let whole = u128::from(limit.amount()).saturating_mul(self.rules.chunk.as_micros());
        u64::try_from(whole.div_ceil(limit.window().as_micros().max(1))).unwrap_or(u64::MAX).min(limit.amount())
    }

    /// What comes within this time is worth a token.
    pub(crate) const fn chunk(&self) -> std::time::Duration {
        self.rules.chunk
    }

    pub(crate) fn begin(&mut self, ask: &Ask) {
        self.exchange = Exchange::UnderWay(ask.asked_at);
        self.look_at = None;
    }

    /// The answer to the ask of that instant; `gained`: by the place of each limit. Where the store could not be asked
    /// nobody knows whether the table says it. Late ones count for nothing.
    pub(crate) fn on_answer(&mut self, now: Timestamp, asked_at: Timestamp, gained: Option<&[(usize, Gained)]>) {
        if self.exchange != Exchange::UnderWay(asked_at) {
            return;
        }
        self.exchange = Exchange::None;
        self.stated = self.stated.max(1);
        let Some(gained) = gained else {
            self.not_before = now.after(self.rules.retry_after);
            self.look_at = Some(self.not_before);
            return;
        };
        let mut short = false;
        for (index, gained) in gained {
            let Some(tokens) = self.tokens.get_mut(*index) else { continue };
            for (from, count) in &gained.tokens {
                let after = tokens.later.iter().rev().take_while(|(other, _)| other > from).count();
                tokens.later.insert(tokens.later.len() - after, (*from, *count));
            }
            tokens.until = gained.until.unwrap_or(tokens.until);
            (tokens.since, tokens.missing) = (gained.since, gained.missing);
            tokens.ripen(now);
            short |= gained.missing > 0 || gained.until.is_none();
        }
        self.stated = gained.iter().map(|(_, gained)| gained.stated).fold(0, u64::saturating_add);
        let pause = if short { self.rules.chunk } else { self.rules.chunk / 10 };
        self.not_before = asked_at.after(pause).max(now);
        self.look_at = Some(self.not_before);
    }

    /// Something new waits.
    pub(crate) fn hurry(&mut self, now: Timestamp) {
        if self.exchange == Exchange::None {
            let soon = self.not_before.max(now);
            self.look_at = Some(self.look_at.map_or(soon, |at| at.min(soon)));
        }
    }

    /// There is nothing to ask for now: something waits, but not for tokens, or not yet.
    pub(crate) fn put_off(&mut self, now: Timestamp) {
        let again_at = now.after(self.rules.chunk);
        self.look_at = Some(self.look_at.filter(|at| *at > now).map_or(again_at, |at| at.min(again_at)));
        self.not_before = self.not_before.max(now.after(self.rules.chunk / 10));
    }

    /// Nothing waits for tokens. Whether what is held is to be handed back now.
    pub(crate) fn rest(&mut self, now: Timestamp) -> Rest {
        if self.stated == 0 {
            self.look_at = None;
            return Rest::Idle;
        }
        let end = self.tokens.iter().map(|tokens| tokens.until).max().unwrap_or(Timestamp::EPOCH);
        if end <= now {
            return Rest::HandBack;
        }
        self.look_at = Some(end);
        Rest::Holding
    }

    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        self.look_at
    }

    /// Whether there is nothing here that the table does not know.
    pub(crate) fn is_blank(&self) -> bool {
        self.exchange == Exchange::None && self.stated == 0
    }
}

/// What to do while nothing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: the table knows all.
    Idle,
    /// Keep it until it ends.
    Holding,
    /// Tell the table what is not held any more.
    HandBack,
}
