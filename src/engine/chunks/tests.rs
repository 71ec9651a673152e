//! Several processes with engines of the shared scopes, one table, and a provider that counts.
//!
//! Everything random: latencies, who wants how much, lost answers, deaths, pauses, failovers that forget. The provider's log
//! is the judge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{ChunkRules, Part, take};
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::limit::Limit;
use crate::engine::mailbox::PastAttempt;
use crate::engine::operation::{OperationKey, OperationKind};
use crate::engine::policy::{FleetPolicy, ScopePolicy, SharedPolicy};
use crate::engine::scope::Scope;
use crate::engine::shared::{Asker, Effect, Input, MailboxKey, Shared};
use crate::engine::time::Timestamp;
use crate::engine::verdict::Verdict;

mod cases;

const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const MS: u64 = 1_000;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A small generator: the same run from the same number.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        many > 0 && self.below(many) == 0
    }
}

/// What may go wrong, one time in so many; zero: never.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    reply_lost: u64,
    call_lost: u64,
    /// An attempt whose end is never known: it arrives as late as it can.
    unknown: u64,
}

enum Event {
    Wake(usize),
    Read(usize, Scope, Box<super::Ask>),
    Write(usize, Scope, u64, Box<super::Taken>, Timestamp),
    Answer(usize, Scope, Timestamp, Option<Vec<super::Gained>>),
    Arrive(u64),
    Complete(usize, Asker, Timestamp, Verdict),
    Submit(usize),
}

#[derive(Clone, Default)]
struct Table {
    version: u64,
    parts: BTreeMap<u64, Part>,
    failover_at: Option<Timestamp>,
}

struct Process {
    shared: Option<Shared>,
    /// Operations that wait, and how many are to.
    waiting: usize,
    wants: usize,
    lane: Lane,
    woken_at: Timestamp,
    exchanges: u64,
}

struct Bench {
    dice: Dice,
    faults: Faults,
    now: Timestamp,
    agenda: BTreeMap<(Timestamp, u64), Event>,
    number: u64,
    table: Table,
    processes: Vec<Process>,
    policy: Arc<SharedPolicy>,
    fleet: FleetPolicy,
    cost: Cost,
    arrivals: Vec<(Timestamp, usize)>,
    arrived: Vec<u64>,
    latency: u64,
    /// Sizes of emails, in turn; none: as `cost` says.
    sizes: Vec<u64>,
    bytes: BTreeMap<u64, u64>,
    attempts: BTreeMap<u64, PastAttempt>,
    last_key: u64,
    senders: BTreeMap<u64, usize>,
    /// What processes that were overtaken read again for.
    retries: BTreeMap<usize, Box<super::Ask>>,
}

impl Bench {
    fn new(seed: u64, limits: &[&str], processes: usize) -> Self {
        let limits = limits.iter().map(|text| text.parse().expect("a limit")).collect();
        let application = ScopePolicy { limits, concurrency: None };
        let policy = Arc::new(SharedPolicy { application, ..SharedPolicy::default() });
        let mut bench = Self {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            faults: Faults::default(),
            now: T0,
            agenda: BTreeMap::new(),
            number: 0,
            table: Table::default(),
            processes: Vec::new(),
            policy,
            fleet: FleetPolicy::default(),
            cost: Cost::email(1, 1_000),
            arrivals: Vec::new(),
            arrived: Vec::new(),
            latency: 200,
            sizes: Vec::new(),
            bytes: BTreeMap::new(),
            attempts: BTreeMap::new(),
            last_key: 0,
            senders: BTreeMap::new(),
            retries: BTreeMap::new(),
        };
        (0..processes).for_each(|_| bench.join());
        bench
    }

    fn join(&mut self) {
        let shared = Shared::new(Arc::clone(&self.policy)).one_of_many().leasing(&self.fleet);
        self.processes.push(Process {
            shared: Some(shared),
            waiting: 0,
            wants: 0,
            lane: Lane::Foreground,
            woken_at: Timestamp::NEVER,
            exchanges: 0,
        });
    }

    fn at(&mut self, at: Timestamp, event: Event) {
        self.number += 1;
        self.agenda.insert((at.max(self.now), self.number), event);
    }

    fn after_ms(&mut self, most: u64) -> Timestamp {
        let micros = self.dice.below(most * MS) + 100;
        self.now.after(Duration::from_micros(micros))
    }

    /// One operation, once.
    fn one(&mut self, process: usize) {
        self.processes[process].waiting += 1;
        self.ask(process);
    }

    /// Another copy of the table took over, and everybody hears of it.
    fn fail_over(&mut self, mut to: Table) {
        to.failover_at = Some(self.now);
        to.version = self.table.version + 1_000;
        self.table = to;
        (0..self.processes.len()).for_each(|process| self.input(process, Input::Forgotten));
    }

    /// Its engine is lost, and made anew from its attempts.
    fn rebuild(&mut self, process: usize) {
        if self.processes[process].shared.is_none() {
            return;
        }
        let mut shared = Shared::new(Arc::clone(&self.policy)).one_of_many().leasing(&self.fleet);
        let of = |attempt: &&PastAttempt| self.senders.get(&attempt.key.0) == Some(&process);
        shared.restore(self.now, self.attempts.values().filter(of).map(|attempt| (None, *attempt)));
        self.processes[process].shared = Some(shared);
        self.processes[process].waiting = 0;
        self.submit(process);
    }

    /// It does nothing for a while, and what it was to do comes late; what has left arrives.
    fn pause(&mut self, process: usize, span: Duration) {
        let until = self.now.after(span);
        let of = |event: &Event| match event {
            Event::Wake(of) | Event::Read(of, ..) | Event::Write(of, ..) | Event::Answer(of, ..) => *of == process,
            Event::Complete(of, ..) | Event::Submit(of) => *of == process,
            Event::Arrive(_) => false,
        };
        let all = std::mem::take(&mut self.agenda);
        for ((at, number), event) in all {
            let at = if of(&event) { at.max(until) } else { at };
            self.agenda.insert((at, number), event);
        }
    }

    /// Has a process keep so many operations waiting.
    fn want(&mut self, process: usize, count: usize, lane: Lane) {
        self.processes[process].wants = count;
        self.processes[process].lane = lane;
        self.at(self.now, Event::Submit(process));
    }

    fn die(&mut self, process: usize) {
        self.processes[process].shared = None;
    }

    fn input(&mut self, process: usize, input: Input) {
        let now = self.now;
        let Some(shared) = &mut self.processes[process].shared else { return };
        shared.handle(now, input);
        let mut effects = VecDeque::new();
        effects.extend(std::iter::from_fn(|| shared.poll_effect()));
        let deadline = shared.poll_deadline();
        for effect in effects {
            self.perform(process, effect);
        }
        if let Some(at) = deadline
            && (at < self.processes[process].woken_at || self.processes[process].woken_at <= now)
        {
            self.processes[process].woken_at = at;
            self.at(at, Event::Wake(process));
        }
    }

    fn perform(&mut self, process: usize, effect: Effect) {
        match effect {
            Effect::Grant(asker) => {
                self.processes[process].waiting -= 1;
                let shared = self.processes[process].shared.as_ref().expect("it has just answered");
                let leaves_by = shared.leaves_by(asker.key).expect("it is leased");
                let leaves_at = self.after_ms(5);
                if leaves_at >= leaves_by {
                    let late = Verdict::Transient { sent: crate::engine::verdict::Sent::No, retry_after: None };
                    return self.at(leaves_at, Event::Complete(process, asker, leaves_at, late));
                }
                self.send(process, asker, leaves_at);
            }
            Effect::Exchange { scope, ask } => {
                self.processes[process].exchanges += 1;
                let at = self.after_ms(5);
                self.at(at, Event::Read(process, scope, ask));
            }
            _ => {}
        }
    }

    fn send(&mut self, process: usize, asker: Asker, leaves_at: Timestamp) {
        let (key, lane, cost) = (asker.key, self.processes[process].lane, self.cost);
        let kind = OperationKind::Send;
        let attempt = PastAttempt { key, lane, cost, claimed_at: self.now, finished_at: None, kind };
        self.attempts.insert(key.0, attempt);
        self.senders.insert(asker.key.0, process);
        let d_max = self.policy.guard.request_deadline_max;
        if self.dice.one_in(self.faults.unknown) {
            self.at(leaves_at.after(d_max), Event::Arrive(asker.key.0));
            let given_up_at = leaves_at.after(seconds(60));
            return self.at(given_up_at, Event::Complete(process, asker, leaves_at, Verdict::Unknown));
        }
        let there = Duration::from_micros(self.dice.below(self.latency * MS));
        let back = Duration::from_micros(self.dice.below(self.latency * MS));
        self.at(leaves_at.after(there), Event::Arrive(asker.key.0));
        self.at(leaves_at.after(there + back), Event::Complete(process, asker, leaves_at, Verdict::Accepted));
        self.at(leaves_at, Event::Submit(process));
    }

    fn exchange(&mut self, event: Event) {
        match event {
            Event::Read(process, scope, ask) => {
                if self.dice.one_in(self.faults.call_lost) {
                    let at = self.after_ms(250);
                    return self.at(at, Event::Answer(process, scope, ask.asked_at, None));
                }
                let rules = ChunkRules::new(&self.fleet, &self.policy);
                let me = process as u64;
                let taken = take(self.now, (me, &ask), &self.table.parts, self.table.failover_at, &rules);
                let at = self.after_ms(5);
                // Whoever was overtaken reads again, as of now: the ask comes along.
                let version = self.table.version;
                self.at(at, Event::Write(process, scope.clone(), version, Box::new(taken), ask.asked_at));
                self.retries.insert(process, ask);
            }
            Event::Write(process, scope, version, taken, asked_at) => {
                if self.table.version != version {
                    // One that an engine asked for that is gone is not tried again.
                    let Some(ask) = self.retries.get(&process).filter(|ask| ask.asked_at == asked_at).cloned() else {
                        return;
                    };
                    let at = self.after_ms(5);
                    return self.at(at, Event::Read(process, scope, ask));
                }
                self.table.version += 1;
                self.table.parts.retain(|member, _| !taken.over.contains(member));
                self.table.parts.insert(process as u64, taken.part);
                let heard = !self.dice.one_in(self.faults.reply_lost);
                let at = self.after_ms(5);
                self.at(at, Event::Answer(process, scope, asked_at, heard.then_some(taken.gained)));
            }
            _ => {}
        }
    }

    fn run(&mut self, span: Duration) {
        let until = self.now.after(span);
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= until
        {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            match event {
                Event::Wake(process) => {
                    if self.processes[process].woken_at <= at {
                        self.processes[process].woken_at = Timestamp::NEVER;
                    }
                    self.input(process, Input::Wake);
                }
                Event::Read(..) | Event::Write(..) => self.exchange(event),
                Event::Answer(process, scope, asked_at, gained) => {
                    self.input(process, Input::Chunk { scope, asked_at, gained });
                }
                Event::Arrive(key) => {
                    self.arrivals.push((at, self.senders[&key]));
                    self.arrived.push(key);
                }
                Event::Complete(process, asker, sent_at, verdict) => {
                    self.input(process, Input::Settle { asker, tenant: None, sent_at, answer: verdict.into() });
                    self.submit(process);
                }
                Event::Submit(process) => self.submit(process),
            }
        }
        self.now = until;
    }

    fn submit(&mut self, process: usize) {
        while self.processes[process].shared.is_some()
            && self.processes[process].waiting < self.processes[process].wants
        {
            self.processes[process].waiting += 1;
            self.ask(process);
        }
    }

    /// One more operation of a process asks.
    fn ask(&mut self, process: usize) {
        self.last_key += 1;
        let mailbox =
            MailboxKey(u32::try_from(process).expect("few") * 10 + u32::try_from(self.last_key % 7).expect("few"));
        let asker = Asker { mailbox, key: OperationKey(self.last_key) };
        let (lane, mut cost) = (self.processes[process].lane, self.cost);
        if !self.sizes.is_empty() {
            // One in twenty is of the next size.
            let size = usize::from(self.dice.one_in(20)) % self.sizes.len();
            cost.bytes = self.sizes[size];
        }
        self.bytes.insert(self.last_key, cost.bytes);
        self.input(process, Input::Reserve { asker, lane, tenant: None, cost });
    }

    /// The most that arrived in any window of a limit.
    fn most(&self, limit: &str) -> u64 {
        let limit: Limit = limit.parse().expect("a limit");
        let cost = |key: &u64| Cost { bytes: self.bytes[key], ..self.cost }.of(limit.unit());
        let all: Vec<(Timestamp, u64)> =
            self.arrivals.iter().map(|(at, _)| *at).zip(self.arrived.iter().map(cost)).collect();
        let (mut first, mut sum, mut most) = (0, 0, 0);
        for (at, cost) in &all {
            sum += cost;
            while at.since(all[first].0) >= limit.window() {
                sum -= all[first].1;
                first += 1;
            }
            most = most.max(sum);
        }
        most
    }

    /// Arrivals since an instant, of everybody or of one.
    fn sent(&self, since: Timestamp, by: Option<usize>) -> usize {
        self.arrivals.iter().filter(|(at, of)| *at >= since && by.is_none_or(|by| by == *of)).count()
    }
}
