//! A world in virtual time: the real engines against the upstream model, every run replayable from its seed.
//!
//! There is no runtime, no thread and no clock here, only an agenda of happenings in order of instant, so a
//! mailbox-hour costs microseconds and a failing run is its seed. The engines see a clock that may run fast or slow
//! against the upstream's. What the checkers read is the upstream's log, never the engines' own opinion.

mod load;
mod step;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use load::Load;

use crate::engine::mailbox::{Effect, Input, Mailbox, Outcome};
use crate::engine::operation::Transition;
use crate::engine::policy::{MailboxPolicy, SharedPolicy};
use crate::engine::shared::Shared;
use crate::engine::{Cost, Event, Lane, Operation, OperationKey, Timestamp};
use crate::upstream::Upstream;

/// What happens next.
#[derive(Debug)]
enum Happening {
    Submit(Operation),
    Arrive { key: OperationKey, row: u32 },
    Answer { key: OperationKey, row: u32, answer: crate::engine::Answer },
    TimeOut { key: OperationKey, row: u32 },
    Wake(usize),
    WakeShared,
}

/// One operation the world follows.
#[derive(Debug)]
struct Traced {
    mailbox: usize,
    lane: Lane,
    cost: Cost,
    tenant: Option<Arc<str>>,
    submitted_at: Timestamp,
    row: u32,
    live: bool,
    down: std::time::Duration,
}

/// How one operation ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// Which.
    pub key: OperationKey,
    /// The mailbox's number.
    pub mailbox: usize,
    /// Its lane.
    pub lane: Lane,
    /// When it was submitted, in true time.
    pub submitted_at: Timestamp,
    /// When it ended, in true time.
    pub ended_at: Timestamp,
    /// How.
    pub outcome: Outcome,
}

/// The world.
#[derive(Debug)]
pub struct World {
    start: Timestamp,
    now: Timestamp,
    clock_ppm: i32,
    mailboxes: Vec<Mailbox>,
    names: Vec<Arc<str>>,
    shared: Option<Shared>,
    upstream: Upstream,
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    sequence: u64,
    armed: Vec<Option<(Timestamp, u64)>>,
    armed_shared: Option<(Timestamp, u64)>,
    traced: HashMap<OperationKey, Traced>,
    last_key: u64,
    ended: Vec<Ended>,
    events: Vec<(Timestamp, Event)>,
    keep_events: KeepEvents,
    order: Vec<(usize, Lane, OperationKey)>,
    wakes: u64,
    histories: BTreeMap<OperationKey, Vec<Transition>>,
    sends: BTreeMap<OperationKey, u64>,
}

/// Whether the world keeps the engines' events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepEvents {
    /// They are dropped as they come.
    #[default]
    No,
    /// All of them.
    Yes,
}

impl World {
    /// `mailboxes` mailboxes with one policy each the same, under shared scopes if there is a policy for them.
    #[must_use]
    pub fn new(
        mailboxes: usize,
        policy: &Arc<MailboxPolicy>,
        shared: Option<Arc<SharedPolicy>>,
        upstream: Upstream,
    ) -> Self {
        let start = Timestamp::from_micros(1_700_000_000_000_000);
        let names: Vec<Arc<str>> = (0..mailboxes).map(|n| Arc::from(format!("m{n}@contoso.example"))).collect();
        let shared = shared.map(Shared::new);
        let ask = shared.as_ref().map_or(crate::engine::mailbox::AskShared::OnTrouble, Shared::ask);
        let make = |name: &Arc<str>| {
            let mut mailbox = Mailbox::new(Arc::clone(name), Arc::clone(policy));
            mailbox.handle(start, Input::AskShared(ask));
            mailbox
        };
        Self {
            start,
            now: start,
            clock_ppm: 0,
            mailboxes: names.iter().map(make).collect(),
            armed: vec![None; names.len()],
            names,
            shared,
            upstream,
            agenda: BTreeMap::new(),
            sequence: 0,
            armed_shared: None,
            traced: HashMap::new(),
            last_key: 0,
            ended: Vec::new(),
            events: Vec::new(),
            keep_events: KeepEvents::No,
            order: Vec::new(),
            wakes: 0,
            histories: BTreeMap::new(),
            sends: BTreeMap::new(),
        }
    }

    /// Lets the engines' clock run `ppm` parts per million fast (or slow, below zero) against the upstream's.
    #[must_use]
    pub fn clock_ppm(mut self, ppm: i32) -> Self {
        self.clock_ppm = ppm.clamp(-100_000, 100_000);
        self
    }

    /// Keeps events for [`World::events`].
    #[must_use]
    pub fn keep_events(mut self, keep: KeepEvents) -> Self {
        self.keep_events = keep;
        self
    }

    /// The instant at which the world began.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The instant it is now, in true time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The upstream, with its log.
    #[must_use]
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// The upstream, to be interfered with.
    pub fn upstream_mut(&mut self) -> &mut Upstream {
        &mut self.upstream
    }

    /// One mailbox's engine.
    #[must_use]
    pub fn mailbox(&self, number: usize) -> &Mailbox {
        &self.mailboxes[number]
    }

    /// The name of a mailbox.
    #[must_use]
    pub fn name(&self, number: usize) -> &Arc<str> {
        &self.names[number]
    }

    /// The engine of the shared scopes, if there is one.
    #[must_use]
    pub fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// Operations that have ended, in order of their end.
    #[must_use]
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// Events with their instants, if they are kept.
    #[must_use]
    pub fn events(&self) -> &[(Timestamp, Event)] {
        &self.events
    }

    /// First attempts, in order: mailbox, lane, operation.
    #[must_use]
    pub fn order(&self) -> &[(usize, Lane, OperationKey)] {
        &self.order
    }

    /// How often a timer woke an engine.
    #[must_use]
    pub fn wakes(&self) -> u64 {
        self.wakes
    }

    /// The transitions of every operation so far, those of its submission left out.
    #[must_use]
    pub fn histories(&self) -> &BTreeMap<OperationKey, Vec<Transition>> {
        &self.histories
    }

    /// How often each operation was handed to the transport.
    #[must_use]
    pub fn sends(&self) -> &BTreeMap<OperationKey, u64> {
        &self.sends
    }

    /// Operations that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.traced.len()
    }

    /// What an engine's clock shows at a true instant.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> Timestamp {
        let elapsed = i128::from(at.as_micros()) - i128::from(self.start.as_micros());
        let shown = elapsed + elapsed * i128::from(self.clock_ppm) / 1_000_000;
        let micros = i128::from(self.start.as_micros()) + shown;
        Timestamp::from_micros(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
    }

    /// The first true instant at which an engine's clock has reached `shown`.
    fn true_instant(&self, shown: Timestamp) -> Timestamp {
        let elapsed = i128::from(shown.as_micros()) - i128::from(self.start.as_micros());
        let elapsed = (elapsed * 1_000_000 / (1_000_000 + i128::from(self.clock_ppm))).max(0);
        let mut at = Timestamp::from_micros(
            self.start.as_micros().saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX / 4)),
        );
        while self.local(at) < shown {
            at = at.after(std::time::Duration::from_micros(1));
        }
        at
    }

    fn put(&mut self, at: Timestamp, happening: Happening) -> (Timestamp, u64) {
        self.sequence += 1;
        let place = (at.max(self.now), self.sequence);
        self.agenda.insert(place, happening);
        place
    }

    fn keep(&mut self, event: Event) {
        if self.keep_events == KeepEvents::Yes {
            self.events.push((self.now, event));
        }
    }

    fn drain(&mut self, number: usize) -> Vec<Effect> {
        std::iter::from_fn(|| self.mailboxes[number].poll_effect()).collect()
    }
}
