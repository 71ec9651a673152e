//! A world in virtual time: the real engines against the upstream model, every run replayable from its seed.
//!
//! There is no runtime, no thread and no clock here, only an agenda of happenings in order of instant, so a
//! mailbox-hour costs microseconds and a failing run is its seed. The engines see a clock that may run fast or slow
//! against the upstream's. What the checkers read is the upstream's log, never the engines' own opinion.

mod agenda;
mod clock;
mod cost;
mod interference;
mod load;
mod lost;
mod outbox;
mod pause;
mod played;
mod recording;
pub mod report;
pub mod scenario;
mod step;
mod store;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use clock::Step;
pub use cost::StoreUse;
#[cfg(feature = "test-util")]
pub(crate) use cost::{Comes, Commits};
pub use load::Load;
pub use outbox::KeepOutbox;
pub use played::{Planned, PlannedBurn, Played};
pub use recording::{Recording, Replayed};
pub use store::StoreFaults;

use self::agenda::{Agenda, Happening, Place};
use self::clock::Wall;
use self::cost::Tally;
use self::interference::Told;
use self::load::Traced;
use self::lost::Keeper;
use self::outbox::Outbox;
use self::pause::{Busy, Pause};
use self::step::Work;
use self::store::Store;
use crate::engine::mailbox::{AskShared, Input, Mailbox, Outcome};
use crate::engine::operation::Transition;
use crate::engine::policy::{MailboxPolicy, SharedPolicy};
use crate::engine::shared::Shared;
use crate::engine::{Cost, Event, Lane, OperationKey, Timestamp};
use crate::upstream::Upstream;

/// The instant at which every world begins, in true time: an ordinary day.
pub const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

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
    now: Timestamp,
    clock_ppm: i32,
    mailboxes: Vec<Mailbox>,
    names: Vec<Arc<str>>,
    policies: Vec<Arc<MailboxPolicy>>,
    shared: Option<Shared>,
    shared_policy: Option<Arc<SharedPolicy>>,
    upstream: Upstream,
    agenda: Agenda,
    armed: Vec<Option<Place>>,
    armed_shared: Option<Place>,
    /// Every operation there ever was; the key is the place, counted from 1.
    traced: Vec<Traced>,
    pending: usize,
    ended: Vec<Ended>,
    events: Vec<(Timestamp, Event)>,
    keep_events: KeepEvents,
    order: Vec<(usize, Lane, OperationKey)>,
    decisions: u64,
    tally: Tally,
    transitions: Vec<(OperationKey, Transition)>,
    changes: Vec<Change>,
    changed: Vec<(Timestamp, usize)>,
    burns: Vec<(Arc<str>, Option<Arc<str>>, Cost)>,
    outbox: Outbox,
    keeper: Keeper,
    store: Store,
    told: Vec<Told>,
    wall: Wall,
    look_ups: LookUps,
    /// Until when the process is gone, and what is submitted meanwhile waits outside.
    down_until: Option<Timestamp>,
    pause: Pause,
    recording: Option<Recording>,
    busy: Busy,
    /// Work inside one instant; kept for its room.
    work: VecDeque<Work>,
    /// Operations submitted and not over.
    live: usize,
    /// Wakes at one instant.
    woken: (Timestamp, usize),
}

/// New policies, to take effect at an instant.
#[derive(Debug)]
struct Change {
    mailboxes: Vec<Arc<MailboxPolicy>>,
    shared: Option<Arc<SharedPolicy>>,
}

/// Which of the engines' events the world keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepEvents {
    /// None: they are dropped as they come.
    #[default]
    No,
    /// Changes of state: breakers, waves, full lanes, suspensions. Not those of single operations.
    Changes,
    /// All of them.
    Yes,
}

/// Whether the provider can be asked what became of an unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookUps {
    /// It cannot: unknowns are given up in the end.
    #[default]
    Unanswered,
    /// It answers with the truth, as Graph does by the email's id.
    Answered,
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
        let named = |n| (Arc::from(format!("m{n}@contoso.example")), Arc::clone(policy));
        Self::with_mailboxes((0..mailboxes).map(named), shared, upstream)
    }

    /// Mailboxes with names and policies of their own, under shared scopes if there is a policy for them.
    #[must_use]
    pub fn with_mailboxes(
        mailboxes: impl IntoIterator<Item = (Arc<str>, Arc<MailboxPolicy>)>,
        shared: Option<Arc<SharedPolicy>>,
        upstream: Upstream,
    ) -> Self {
        let (names, policies): (Vec<_>, Vec<_>) = mailboxes.into_iter().unzip();
        let mut world = Self {
            now: START,
            clock_ppm: 0,
            mailboxes: Vec::new(),
            armed: vec![None; names.len()],
            names,
            policies,
            shared: None,
            shared_policy: shared,
            upstream,
            agenda: Agenda::default(),
            armed_shared: None,
            traced: Vec::new(),
            pending: 0,
            ended: Vec::new(),
            events: Vec::new(),
            keep_events: KeepEvents::No,
            order: Vec::new(),
            decisions: 0,
            tally: Tally::default(),
            transitions: Vec::new(),
            changes: Vec::new(),
            changed: Vec::new(),
            burns: Vec::new(),
            outbox: Outbox::default(),
            keeper: Keeper::default(),
            store: Store::default(),
            told: Vec::new(),
            wall: Wall::default(),
            look_ups: LookUps::Unanswered,
            down_until: None,
            pause: Pause::default(),
            recording: None,
            busy: Busy::default(),
            work: VecDeque::new(),
            live: 0,
            woken: (START, 0),
        };
        world.make_engines();
        let ask = world.asks();
        for mailbox in &mut world.mailboxes {
            mailbox.handle(START, Input::AskShared(ask));
        }
        world
    }

    /// Engines with nothing in them, by the policies in force.
    fn make_engines(&mut self) {
        self.shared = self.shared_policy.clone().map(Shared::new);
        self.mailboxes = (0..self.names.len()).map(|number| self.make_engine(number)).collect();
    }

    fn make_engine(&self, number: usize) -> Mailbox {
        Mailbox::new(Arc::clone(&self.names[number]), Arc::clone(&self.policies[number]))
    }

    fn asks(&self) -> AskShared {
        self.shared.as_ref().map_or(AskShared::OnTrouble, Shared::ask)
    }

    /// Lets the provider answer, or not, what became of an unknown.
    #[must_use]
    pub fn look_ups(mut self, look_ups: LookUps) -> Self {
        self.look_ups = look_ups;
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
    pub const fn start(&self) -> Timestamp {
        START
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

    /// How many mailboxes there are.
    #[must_use]
    pub fn mailboxes(&self) -> usize {
        self.names.len()
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

    /// The transitions of every operation so far, those of its submission left out. Gathers them anew.
    #[must_use]
    pub fn histories(&self) -> BTreeMap<OperationKey, Vec<Transition>> {
        let mut histories = BTreeMap::<_, Vec<_>>::new();
        for (key, transition) in &self.transitions {
            histories.entry(*key).or_default().push(*transition);
        }
        histories
    }

    /// How often an operation was handed to the transport.
    #[must_use]
    pub fn sends(&self, key: OperationKey) -> u64 {
        self.get(key).map_or(0, |traced| u64::from(traced.sends))
    }

    /// Operations submitted, or to be submitted.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.traced.len()
    }

    /// Operations that have not ended.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Operations submitted of which something may still come: those that have not ended, and unknowns.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// The instant of the next happening, in true time.
    #[must_use]
    pub fn next_instant(&self) -> Option<Timestamp> {
        self.agenda.next_instant()
    }

    /// Lets new policies take effect at `at`: one for each mailbox, in order, and those of the shared scopes.
    ///
    /// # Panics
    /// When there is not one policy per mailbox.
    pub fn reconfigure(
        &mut self,
        at: Timestamp,
        mailboxes: Vec<Arc<MailboxPolicy>>,
        shared: Option<Arc<SharedPolicy>>,
    ) {
        assert_eq!(mailboxes.len(), self.names.len(), "one policy per mailbox");
        self.changes.push(Change { mailboxes, shared });
        self.put(at, Happening::Change(self.changes.len() - 1));
    }

    fn put(&mut self, at: Timestamp, happening: Happening) -> Place {
        self.agenda.put(at.max(self.now), happening)
    }

    fn get(&self, key: OperationKey) -> Option<&Traced> {
        self.traced.get(place_of(key))
    }

    fn get_mut(&mut self, key: OperationKey) -> Option<&mut Traced> {
        self.traced.get_mut(place_of(key))
    }

    fn keep(&mut self, event: Event) {
        let single = || {
            matches!(
                event,
                Event::AttemptFinished { .. }
                    | Event::OperationDeferred { .. }
                    | Event::ReservationDenied { .. }
                    | Event::BackgroundCapped { .. }
            )
        };
        match self.keep_events {
            KeepEvents::No => {}
            KeepEvents::Changes if single() => {}
            KeepEvents::Changes | KeepEvents::Yes => self.events.push((self.now, event)),
        }
    }
}

/// Where an operation is kept; beyond every place for the key 0, which is nobody's.
fn place_of(key: OperationKey) -> usize {
    usize::try_from(key.0.wrapping_sub(1)).unwrap_or(usize::MAX)
}
