//! One process: what it believes of its lease, and its own ledger.

use crate::ledger::{Charge, Leased, Reserved};
use crate::rules::{Answers, Rule, Rules};

/// How far a send has come, as its sender sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Flight {
    /// Not arrived: it may within D of the claim, or never.
    Sent,
    /// Counted by the upstream; the sender does not know.
    Arrived,
    /// Answered, or given up at D, so many ticks ago.
    Done(u8),
}

/// An entry of the own ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Own {
    /// Ticks since the slot was claimed.
    pub(crate) age: u8,
    pub(crate) flight: Flight,
}

/// One process. Its clock is its own, but runs at the rate of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) token: Option<u8>,
    /// Ticks until lease end + G: the lease is valid while more than G are left.
    pub(crate) until: u8,
    /// Ticks of its own grace: half rate, and nothing unrecorded.
    pub(crate) grace: u8,
    /// It has sent what no ledger holds.
    pub(crate) unmerged: bool,
    /// Ticks since a RESERVE that was not answered, where it may be repeated.
    pub(crate) unanswered: Option<u8>,
    /// It has heard from the new master while the old one still serves.
    pub(crate) moved: bool,
    pub(crate) own: Vec<Own>,
    /// What it found in the ledger when it took over.
    pub(crate) found: Vec<Charge>,
}

impl Process {
    pub(crate) fn tick(&mut self, rules: &Rules) {
        self.until = self.until.saturating_sub(1);
        self.grace = self.grace.saturating_sub(1);
        self.unanswered = self.unanswered.map(|age| age + 1).filter(|&age| age <= rules.latency);
        for own in &mut self.own {
            own.age += 1;
            own.flight = match own.flight {
                // Given up at D, which is one tick ago now.
                Flight::Sent | Flight::Arrived if own.age > rules.latency => Flight::Done(1),
                Flight::Done(since) => Flight::Done(since + 1),
                Flight::Sent | Flight::Arrived => own.flight,
            };
        }
        self.own.retain(|own| !matches!(own.flight, Flight::Done(since) if since >= rules.window));
        self.own.sort();
        for charge in &mut self.found {
            charge.age += 1;
            charge.done = charge.done.map(|done| done + 1);
        }
        let (kept, window) = (rules.kept(), rules.window);
        self.found.retain(|charge| charge.age < kept && charge.done.is_none_or(|done| done < window));
    }

    pub(crate) fn count(&self, age: u8) -> usize {
        self.own.iter().filter(|own| own.age == age).count()
    }

    pub(crate) fn done_count(&self, age: u8) -> usize {
        self.own.iter().filter(|own| own.age == age && matches!(own.flight, Flight::Done(_))).count()
    }

    /// The different ages of its entries.
    pub(crate) fn ages(&self) -> Vec<u8> {
        let mut ages: Vec<_> = self.own.iter().map(|own| own.age).collect();
        ages.dedup();
        ages
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.own.iter().any(|own| !matches!(own.flight, Flight::Done(_)))
    }

    pub(crate) fn lease_valid(&self, rules: &Rules) -> bool {
        self.token.is_some() && self.until > rules.grace
    }

    pub(crate) fn may_reserve(&self, rules: &Rules) -> bool {
        self.lease_valid(rules) && !(self.unmerged && rules.has(Rule::MergeBeforeReserve))
    }

    /// Whether it may send without the ledger.
    pub(crate) fn may_send_unrecorded(&self, rules: &Rules) -> bool {
        let known = self.own.len() + self.found.len();
        if !rules.has(Rule::NothingWithoutLease) {
            return known < usize::from(rules.limit);
        }
        let was_full = self.grace == 0 || !rules.has(Rule::NothingUnrecordedInGrace);
        let limit = if rules.has(Rule::HalfWhenCutOff) { rules.half() } else { rules.limit };
        self.token.is_some() && self.until > 0 && was_full && known < usize::from(limit)
    }

    pub(crate) fn send(&mut self, age: u8) {
        self.own.push(Own { age, flight: Flight::Sent });
        self.own.sort();
    }

    /// The request at `index` reaches the upstream.
    pub(crate) fn arrive(&mut self, rules: &Rules, index: usize) {
        self.own[index].flight = match rules.answers {
            Answers::AtOnce => Flight::Done(0),
            Answers::AnyTime => Flight::Arrived,
        };
        self.own.sort();
    }

    pub(crate) fn answered(&mut self, index: usize) {
        self.own[index].flight = Flight::Done(0);
        self.own.sort();
    }

    pub(crate) fn on_leased(&mut self, rules: &Rules, answer: Leased, fresh: u8) {
        match answer {
            Leased::Lost => self.stop(),
            Leased::Renewed { unclean } => self.hold(rules, unclean),
            Leased::Acquired { unclean, found } => {
                self.token = Some(fresh);
                self.hold(rules, unclean);
                // What is over before its own grace is over needs no counting.
                let counts = rules.has(Rule::LedgerTakenOver) && unclean < rules.kept();
                self.found = if counts { found } else { Vec::new() };
            }
        }
    }

    fn hold(&mut self, rules: &Rules, unclean: u8) {
        self.until = rules.ttl + rules.grace;
        self.grace = unclean;
        self.unmerged = false;
    }

    pub(crate) fn on_reserved(&mut self, answer: Reserved) {
        match answer {
            Reserved::Fenced => self.stop(),
            Reserved::Denied { unclean } => self.grace = unclean,
            Reserved::Granted { unclean } => {
                self.grace = unclean;
                self.send(0);
            }
        }
    }

    /// It sends nothing more. What is under way stays so.
    pub(crate) fn stop(&mut self) {
        self.token = None;
        self.until = 0;
        self.grace = 0;
        self.unanswered = None;
        self.found.clear();
    }
}
