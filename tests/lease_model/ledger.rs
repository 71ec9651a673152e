//! What the ledger in Redis holds for one mailbox, and the scripts that run there: each is one step that nobody sees
//! half done.

use crate::process::Process;
use crate::rules::{Retention, Rule, Rules};

/// The tag of charges whose sender nobody speaks for any more.
pub(crate) const ORPHAN: u8 = u8::MAX;

/// One slot of the window that is taken. Sender and age name it: the ids of the real thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Charge {
    pub(crate) tag: u8,
    /// Ticks since the slot was claimed.
    pub(crate) age: u8,
    /// Ticks since its completion was reported.
    pub(crate) done: Option<u8>,
}

/// The record of the lease. `token: None`: there is none, or it was released cleanly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lease {
    pub(crate) token: Option<u8>,
    /// Ticks until it ends.
    pub(crate) left: u8,
    /// Ticks since it ended, where records are forgotten.
    pub(crate) ended: u8,
}

/// One Redis server's view of the mailbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) lease: Lease,
    /// Ticks for which the limit is half.
    pub(crate) unclean: u8,
    /// Ticks for which the limit is zero.
    pub(crate) quarantine: u8,
    pub(crate) charges: Vec<Charge>,
}

/// What RENEW/ACQUIRE answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leased {
    /// Somebody else owns the mailbox.
    Lost,
    /// The caller's lease goes on; its rate is half for so many ticks.
    Renewed { unclean: u8 },
    /// The caller is the new owner, and this is what it found.
    Acquired { unclean: u8, found: Vec<Charge> },
}

/// What RESERVE answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// The token is not the owner's.
    Fenced,
    Denied {
        unclean: u8,
    },
    Granted {
        unclean: u8,
    },
}

impl Ledger {
    pub(crate) fn tick(&mut self, rules: &Rules) {
        if self.lease.left > 0 {
            self.lease.left -= 1;
        } else if self.lease.token.is_some() && rules.forgotten_after.is_some() {
            self.lease.ended += 1;
        }
        let forgotten = self.lease.left == 0 && rules.forgotten_after.is_some_and(|after| self.lease.ended >= after);
        if forgotten {
            self.lease = Lease::default();
        }
        self.unclean = self.unclean.saturating_sub(1);
        self.quarantine = self.quarantine.saturating_sub(1);
        for charge in &mut self.charges {
            charge.age += 1;
            charge.done = charge.done.map(|done| done + 1);
        }
        let (kept, window) = (rules.kept(), rules.window);
        self.charges.retain(|charge| charge.age < kept && charge.done.is_none_or(|done| done < window));
    }

    fn owned_by(&self, process: &Process) -> bool {
        self.lease.left > 0 && self.lease.token.is_some() && self.lease.token == process.token
    }

    /// RENEW/ACQUIRE, with the caller's own ledger.
    pub(crate) fn acquire(&mut self, rules: &Rules, tag: u8, process: &Process, fresh: u8) -> Leased {
        if self.owned_by(process) {
            self.merge(rules, tag, process);
            self.lease.left = rules.ttl;
            return Leased::Renewed { unclean: self.unclean };
        }
        if self.lease.left > 0 {
            return Leased::Lost;
        }
        self.merge(rules, tag, process);
        let taken = if self.lease.token.is_some() { rules.unclean() } else { 0 };
        self.unclean = if rules.has(Rule::GraceSurvivesRelease) { self.unclean.max(taken) } else { taken };
        self.lease = Lease { token: Some(fresh), left: rules.ttl, ended: 0 };
        let found = self.charges.iter().filter(|charge| charge.tag != tag).cloned().collect();
        Leased::Acquired { unclean: self.unclean, found }
    }

    /// RESERVE of one slot, with the completions since the last call.
    pub(crate) fn reserve(&mut self, rules: &Rules, tag: u8, process: &Process) -> Reserved {
        if !self.owned_by(process) {
            return Reserved::Fenced;
        }
        self.report(rules, tag, process);
        let limit = if self.unclean > 0 { rules.half() } else { rules.limit };
        let limit = if self.quarantine > 0 { 0 } else { limit };
        let unclean = self.unclean;
        if self.charges.len() >= usize::from(limit) {
            return Reserved::Denied { unclean };
        }
        self.charges.push(Charge { tag, age: 0, done: None });
        self.charges.sort();
        Reserved::Granted { unclean }
    }

    /// The clean end of a lease.
    pub(crate) fn release(&mut self, rules: &Rules, tag: u8, process: &Process) {
        if self.owned_by(process) {
            if rules.has(Rule::MergeOnRelease) {
                self.merge(rules, tag, process);
            } else {
                self.report(rules, tag, process);
            }
            self.lease = Lease::default();
        }
    }

    /// Whether a RESERVE of `age` ticks ago stands under the caller's id although the caller has no such send.
    pub(crate) fn has_unanswered(&self, tag: u8, process: &Process, age: u8) -> bool {
        self.owned_by(process) && self.count(tag, age) > process.count(age)
    }

    pub(crate) fn count(&self, tag: u8, age: u8) -> usize {
        self.charges.iter().filter(|charge| charge.tag == tag && charge.age == age).count()
    }

    /// What this server becomes when it takes over from one that is gone.
    pub(crate) fn promoted(mut self, rules: &Rules) -> Self {
        self.quarantine = self.quarantine.max(rules.quarantine());
        if rules.has(Rule::LostAcquireIsUnclean) || self.lease.token.is_some() {
            self.unclean = self.unclean.max(rules.unclean_after_failover());
        }
        self
    }

    /// Charges of the caller's completed sends that stand here: kept W from now.
    fn report(&mut self, rules: &Rules, tag: u8, process: &Process) {
        if rules.retention == Retention::Fixed {
            return;
        }
        for age in process.ages() {
            let known = |charge: &&Charge| charge.tag == tag && charge.age == age && charge.done.is_some();
            let missing = process.done_count(age).saturating_sub(self.charges.iter().filter(known).count());
            let open = |charge: &&mut Charge| charge.tag == tag && charge.age == age && charge.done.is_none();
            self.charges.iter_mut().filter(open).take(missing).for_each(|charge| charge.done = Some(0));
        }
        self.charges.sort();
    }

    /// The caller's own ledger, entry by entry: what is missing here is added.
    fn merge(&mut self, rules: &Rules, tag: u8, process: &Process) {
        for age in process.ages().into_iter().filter(|&age| age < rules.kept()) {
            let missing = process.count(age).saturating_sub(self.count(tag, age));
            self.charges.extend(std::iter::repeat_n(Charge { tag, age, done: None }, missing));
        }
        self.report(rules, tag, process);
        self.charges.sort();
    }
}
