//! Drives one ledger against one provider in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use mailweir::engine::ledger::{Counted, Earliest, Ledger};
use mailweir::engine::policy::GuardPolicy;
use mailweir::engine::{Lane, Limit, Timestamp};

use crate::providers::Provider;

pub(crate) const SECOND: u64 = 1_000_000;
/// Where virtual time starts, on both clocks.
pub(crate) const START: u64 = 1_700_000_000 * SECOND;
const TIMEOUT: u64 = 60 * SECOND;
const TAIL: u64 = 30 * SECOND;

/// Numbers that follow from one seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// `least` and up to `spread` more, mostly little more.
    fn skewed(&mut self, least: u64, spread: u64) -> u64 {
        let x = self.below(1 << 20);
        least + u64::try_from((u128::from(spread) * u128::from(x) * u128::from(x)) >> 40).unwrap()
    }
}

/// From which instant the sender counts. All but the first are faults that the tests must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// As built.
    Sound,
    /// Counts from the send instant.
    KeyedOnSend,
    /// Takes the charge of an unknown outcome back.
    ReleasesUnknowns,
}

/// What waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Saturated,
    /// So many at once, at random instants.
    Bursts(u64),
}

/// Whose sends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    Foreground,
    /// Either, and background may use nine tenths.
    Both,
}

/// The network and what goes wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// Least and spread of the way up, the service and the way down, in microseconds.
    pub(crate) up: (u64, u64),
    pub(crate) service: (u64, u64),
    pub(crate) down: (u64, u64),
    /// Of 1,000 ways, so many take up to 30 s more.
    pub(crate) tails: u64,
    /// Of 1,000 attempts, so many get no answer, and so many are never sent.
    pub(crate) lost: u64,
    pub(crate) unsent: u64,
}

impl Network {
    pub(crate) const CALM: Self =
        Self { up: (40_000, 0), service: (250_000, 0), down: (40_000, 0), tails: 0, lost: 0, unsent: 0 };
    pub(crate) const WILD: Self = Self {
        up: (5_000, 200_000),
        service: (50_000, 2_000_000),
        down: (5_000, 200_000),
        tails: 20,
        lost: 10,
        unsent: 20,
    };
}

#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) limit: Limit,
    pub(crate) guard: GuardPolicy,
    pub(crate) sender: Sender,
    /// Error of our clock and of the provider's, in ppm.
    pub(crate) drift: (i64, i64),
    pub(crate) load: Load,
    pub(crate) lanes: Lanes,
    pub(crate) network: Network,
    pub(crate) concurrency: usize,
    pub(crate) cost_max: u64,
    pub(crate) span: Duration,
    pub(crate) sends_max: usize,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sends: usize,
    pub(crate) refused: usize,
    pub(crate) accepted_cost: u64,
    /// Wake-ups at a named instant, with nothing changed meanwhile, that did not lead to a send.
    pub(crate) phantom_wakes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrival(usize),
    End(usize),
    Wake(u64),
    Burst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Unanswered,
    Unsent,
}

#[derive(Debug)]
struct Flight {
    sent_at: u64,
    lane: Lane,
    cost: u64,
    fate: Fate,
    counted: Counted,
}

struct Drive<'a> {
    scenario: &'a Scenario,
    ledger: Ledger,
    provider: Provider,
    dice: Dice,
    agenda: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    order: u64,
    flights: Vec<Flight>,
    open: usize,
    waiting: u64,
    head: (Lane, u64),
    /// Counts the changes of the ledger, so that a wake-up can tell whether it stands where it was armed.
    changes: u64,
    tally: Tally,
}

/// Runs `scenario` to its end.
pub(crate) fn run(scenario: &Scenario, provider: Provider) -> Tally {
    let mut drive = Drive {
        ledger: Ledger::new(scenario.limit, &scenario.guard),
        provider,
        dice: Dice(scenario.seed),
        agenda: BinaryHeap::new(),
        order: 0,
        flights: Vec::new(),
        open: 0,
        waiting: if scenario.load == Load::Saturated { u64::MAX } else { 0 },
        head: (Lane::Foreground, 1),
        changes: 0,
        tally: Tally::default(),
        scenario,
    };
    drive.next_head();
    drive.plan(START, if scenario.load == Load::Saturated { Happening::Wake(u64::MAX) } else { Happening::Burst });
    let end = START + u64::try_from(scenario.span.as_micros()).unwrap();
    while let Some(Reverse((now, _, happening))) = drive.agenda.pop() {
        if now > end || drive.flights.len() >= scenario.sends_max {
            break;
        }
        drive.happen(now, happening);
    }
    drive.tally
}

impl Drive<'_> {
    fn plan(&mut self, at: u64, happening: Happening) {
        self.order += 1;
        self.agenda.push(Reverse((at, self.order, happening)));
    }

    fn happen(&mut self, now: u64, happening: Happening) {
        let sends_before = self.tally.sends;
        match happening {
            Happening::Arrival(id) => return self.arrive(now, id),
            Happening::End(id) => self.end(now, id),
            Happening::Wake(_) => {}
            Happening::Burst => {
                let Load::Bursts(size) = self.scenario.load else { unreachable!() };
                self.waiting += size;
                let window = u64::try_from(self.scenario.limit.window().as_micros()).unwrap();
                let pause = self.dice.below(6 * window);
                self.plan(now + pause, Happening::Burst);
            }
        }
        let changes = self.changes;
        self.pump(now);
        if happening == Happening::Wake(changes) && self.tally.sends == sends_before {
            self.tally.phantom_wakes += 1;
        }
    }

    fn pump(&mut self, now: u64) {
        let at = Timestamp::from_micros(now);
        self.ledger.expire(at);
        while self.waiting > 0 && self.open < self.scenario.concurrency {
            let (lane, cost) = self.head;
            let amount = self.scenario.limit.amount();
            let amount = if lane == Lane::Background { amount - amount / 10 } else { amount };
            match self.ledger.earliest(at, cost, amount) {
                Earliest::Now => self.send(now),
                Earliest::At(ready) => {
                    assert!(ready > at, "an instant in the past was named");
                    return self.plan(ready.as_micros(), Happening::Wake(self.changes));
                }
                Earliest::AfterCompletion { .. } => {
                    assert!(self.ledger.in_flight() > 0, "waits for a completion with nothing in flight");
                    return;
                }
                Earliest::Never { .. } => self.head = (Lane::Foreground, cost),
            }
        }
    }

    fn send(&mut self, now: u64) {
        let (lane, cost) = self.head;
        let (network, id) = (self.scenario.network, self.flights.len());
        self.ledger.reserve(Timestamp::from_micros(now), lane, cost);
        let mut way = |(least, spread)| {
            let tail = if self.dice.below(1_000) < network.tails { self.dice.below(TAIL) } else { 0 };
            self.dice.skewed(least, spread) + tail
        };
        let (up, rest) = (way(network.up), way(network.service) + way(network.down));
        let luck = self.dice.below(1_000);
        let fate = if luck < network.unsent {
            Fate::Unsent
        } else if luck < network.unsent + network.lost || up + rest > TIMEOUT {
            Fate::Unanswered
        } else {
            Fate::Answered
        };
        match fate {
            Fate::Unsent => self.plan(now + up, Happening::End(id)),
            Fate::Unanswered => {
                let up = if up + rest > TIMEOUT { up } else { self.dice.below(TIMEOUT + 5 * SECOND) };
                self.plan(now + up, Happening::Arrival(id));
                self.plan(now + TIMEOUT, Happening::End(id));
            }
            Fate::Answered => {
                self.plan(now + up, Happening::Arrival(id));
                self.plan(now + up + rest, Happening::End(id));
            }
        }
        self.flights.push(Flight { sent_at: now, lane, cost, fate, counted: Counted::Accepted });
        if self.scenario.sender == Sender::KeyedOnSend {
            let at = Timestamp::from_micros(now);
            self.ledger.complete(at, lane, cost, at, at, Counted::Accepted);
        }
        self.open += 1;
        self.changes += 1;
        self.tally.sends += 1;
        self.waiting = self.waiting.saturating_sub(u64::from(self.waiting != u64::MAX));
        self.next_head();
    }

    fn next_head(&mut self) {
        let lane = match self.scenario.lanes {
            Lanes::Foreground => Lane::Foreground,
            Lanes::Both => Lane::ALL[usize::try_from(self.dice.below(2)).unwrap()],
        };
        self.head = (lane, 1 + self.dice.below(self.scenario.cost_max));
    }

    /// The provider's clock at our instant `now`.
    fn theirs(&self, now: u64) -> u64 {
        let (ours, theirs) = self.scenario.drift;
        let since = i128::from(now - START) * i128::from(1_000_000 + theirs) / i128::from(1_000_000 + ours);
        START + u64::try_from(since).unwrap()
    }

    fn arrive(&mut self, now: u64, id: usize) {
        let at = self.theirs(now);
        let flight = &mut self.flights[id];
        if self.provider.arrive(at, flight.cost) {
            self.tally.accepted_cost += flight.cost;
        } else {
            self.tally.refused += 1;
            flight.counted = Counted::Refused;
        }
    }

    fn end(&mut self, now: u64, id: usize) {
        let Flight { sent_at, lane, cost, fate, counted } = self.flights[id];
        let (at, sent) = (Timestamp::from_micros(now), Timestamp::from_micros(sent_at));
        self.open -= 1;
        self.changes += 1;
        match (self.scenario.sender, fate) {
            (Sender::KeyedOnSend, _) => {}
            (_, Fate::Unsent) | (Sender::ReleasesUnknowns, Fate::Unanswered) => self.ledger.release(at, lane, cost),
            (_, Fate::Answered) => self.ledger.complete(at, lane, cost, sent, at, counted),
            (_, Fate::Unanswered) => {
                let until = sent.after(self.scenario.guard.request_deadline_max);
                self.ledger.complete(at, lane, cost, sent, until, Counted::Accepted);
            }
        }
    }
}
