//! The whole world: servers, processes, requests under way, and the upstream's log.
//!
//! Every time in it is a distance from now, so that the states are finitely many and no run needs an end. Processes
//! are alike: two states that differ in their names alone count as one ([`Hash`]), while a trace keeps the names.

use std::hash::{Hash, Hasher};

use crate::ledger::{Charge, Ledger, ORPHAN};
use crate::process::{Flight, Own, Process};
use crate::rules::Rules;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The ledger that is in force.
    pub(crate) ledger: Ledger,
    /// What a replica has of it: a failover puts it in force.
    pub(crate) replica: Option<Ledger>,
    /// A master that was replaced and still serves, and for how many ticks.
    pub(crate) old: Option<(Ledger, u8)>,
    pub(crate) processes: Vec<Process>,
    /// Ages of requests whose sender is dead and which may still arrive.
    pub(crate) orphans: Vec<u8>,
    /// Ages of arrivals within the last window.
    pub(crate) arrivals: Vec<u8>,
    pub(crate) failovers: u8,
}

impl State {
    pub(crate) fn new(rules: &Rules) -> Self {
        Self {
            ledger: Ledger::default(),
            replica: None,
            old: None,
            processes: vec![Process::default(); usize::from(rules.processes)],
            orphans: Vec::new(),
            arrivals: Vec::new(),
            failovers: rules.failovers,
        }
    }

    fn ledgers(&self) -> impl Iterator<Item = &Ledger> {
        [Some(&self.ledger), self.replica.as_ref(), self.old.as_ref().map(|(ledger, _)| ledger)].into_iter().flatten()
    }

    fn ledgers_mut(&mut self) -> impl Iterator<Item = &mut Ledger> {
        let old = self.old.as_mut().map(|(ledger, _)| ledger);
        [Some(&mut self.ledger), self.replica.as_mut(), old].into_iter().flatten()
    }

    /// A token that nobody has.
    pub(crate) fn fresh_token(&self) -> u8 {
        let used: Vec<_> =
            self.ledgers().map(|ledger| ledger.lease.token).chain(self.processes.iter().map(|p| p.token)).collect();
        (0..u8::MAX).find(|token| !used.contains(&Some(*token))).expect("few tokens are in use")
    }

    pub(crate) fn tick(&mut self, rules: &Rules) {
        self.ledgers_mut().for_each(|ledger| ledger.tick(rules));
        self.processes.iter_mut().for_each(|process| process.tick(rules));
        self.old = self.old.take().filter(|(_, left)| *left > 1).map(|(ledger, left)| (ledger, left - 1));
        self.orphans.iter_mut().for_each(|age| *age += 1);
        self.orphans.retain(|&age| age <= rules.latency);
        self.arrivals.iter_mut().for_each(|age| *age += 1);
        self.arrivals.retain(|&age| age < rules.window);
    }

    pub(crate) fn arrive(&mut self) {
        self.arrivals.push(0);
        self.arrivals.sort_unstable();
    }

    /// A process dies; whatever starts in its place knows nothing.
    pub(crate) fn crash(&mut self, index: usize) {
        let dead = std::mem::take(&mut self.processes[index]);
        let flying = dead.own.iter().filter(|own| own.flight == Flight::Sent).map(|own| own.age);
        self.orphans.extend(flying);
        self.orphans.sort_unstable();
        let tag = tag(index);
        for ledger in self.ledgers_mut() {
            for charge in ledger.charges.iter_mut().filter(|charge| charge.tag == tag) {
                charge.tag = ORPHAN;
            }
            ledger.charges.sort();
        }
    }

    /// Forgets differences that nothing can tell: charges nobody will report, tokens nobody will accept.
    pub(crate) fn tidy(&mut self) {
        let processes = self.processes.clone();
        for ledger in self.ledgers_mut() {
            for (index, process) in processes.iter().enumerate() {
                disown(ledger, tag(index), process);
            }
            ledger.charges.sort();
        }
        let split = self.old.is_some();
        let accepted: Vec<_> = self.ledgers().map(|ledger| ledger.lease.token).collect();
        for process in &mut self.processes {
            if process.until == 0 && !accepted.contains(&process.token) {
                process.stop();
            }
            process.moved &= split;
            process.unmerged &= process.token.is_some();
            process.own.sort();
        }
    }

    /// What a process is, whatever its name and the numbers of tokens.
    fn portrait(&self, index: usize) -> Portrait<'_> {
        let process = &self.processes[index];
        let holds = self.ledgers().map(|ledger| process.token.is_some() && ledger.lease.token == process.token);
        let charges = self.ledgers().map(|ledger| charges_of(ledger, tag(index)));
        Portrait {
            holds: holds.collect(),
            has_token: process.token.is_some(),
            times: (process.until, process.grace, process.unanswered),
            flags: (process.unmerged, process.moved),
            own: &process.own,
            found: process.found.iter().map(|charge| (charge.age, charge.done)).collect(),
            charges: charges.collect(),
        }
    }
}

/// An entry of a ledger without its tag.
type Entry = (u8, Option<u8>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Portrait<'a> {
    holds: Vec<bool>,
    has_token: bool,
    times: (u8, u8, Option<u8>),
    flags: (bool, bool),
    own: &'a [Own],
    found: Vec<Entry>,
    charges: Vec<Vec<Entry>>,
}

pub(crate) fn tag(index: usize) -> u8 {
    u8::try_from(index).expect("few processes")
}

fn charges_of(ledger: &Ledger, tag: u8) -> Vec<Entry> {
    let own = ledger.charges.iter().filter(|charge| charge.tag == tag);
    own.map(|charge| (charge.age, charge.done)).collect()
}

/// Charges beyond what the process could still report belong to nobody.
fn disown(ledger: &mut Ledger, tag: u8, process: &Process) {
    let mut seen: Vec<(u8, usize)> = Vec::new();
    for charge in ledger.charges.iter_mut().filter(|charge| charge.tag == tag) {
        let mine = |age: u8| process.count(age) + usize::from(process.unanswered == Some(age));
        match seen.iter_mut().find(|(age, _)| *age == charge.age) {
            Some((age, count)) if *count < mine(*age) => *count += 1,
            None if mine(charge.age) > 0 => seen.push((charge.age, 1)),
            Some(_) | None => *charge = Charge { tag: ORPHAN, ..charge.clone() },
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut portraits: Vec<_> = (0..self.processes.len()).map(|index| self.portrait(index)).collect();
        portraits.sort();
        portraits.hash(hasher);
        for ledger in self.ledgers() {
            let lease = &ledger.lease;
            let known = lease.token.is_some();
            let same: Vec<_> = self.ledgers().map(|other| known && other.lease.token == lease.token).collect();
            (known, same, lease.left, lease.ended, ledger.unclean, ledger.quarantine).hash(hasher);
            charges_of(ledger, ORPHAN).hash(hasher);
        }
        (self.replica.is_some(), self.old.as_ref().map(|(_, left)| *left)).hash(hasher);
        (&self.orphans, &self.arrivals, self.failovers).hash(hasher);
    }
}
