//! What a scenario is made of.

use std::sync::Arc;
use std::time::Duration;

use mailweir::Lane;
use mailweir::config::Config;
use mailweir::engine::Timestamp;
use mailweir::upstream::{Model, Random};

use crate::orders::Word;
use crate::sights::Sight;

pub(crate) const NEWS: &str = "news@contoso.example";
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const COOLDOWN: Duration = Duration::from_secs(90);
/// What the ids of sends with a permit begin with.
pub(crate) const PERMIT: &str = "permit-";
/// What the ids of emails begin with of which the transport panics, so often.
pub(crate) const POISON: &str = "poison-";
pub(crate) const POISONS: u32 = 2;

/// Something that a part of the program does, or a person.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Submit(New),
    SubmitMany(Vec<New>),
    /// Sends by itself, with a permit.
    Permit(Arc<str>),
    /// Orders about scopes are given one after the other, by one person; those about operations by anybody.
    Order(Word),
    /// An order about an operation, given while an attempt of it is under way; not at all if that never happens.
    Midway(Word),
    /// A person sees to what is unknown and to what was set aside, until there is nothing of it and nothing to come.
    Rounds,
}

impl Act {
    /// Whether it has to wait for the one before.
    pub(crate) const fn is_in_turn(&self) -> bool {
        matches!(self, Self::Order(word) if !matches!(word, Word::About(..)))
    }
}

/// A submission. Instants count from the start.
#[derive(Clone, Debug)]
pub(crate) struct New {
    pub(crate) id: Arc<str>,
    pub(crate) mailbox: Arc<str>,
    pub(crate) lane: Lane,
    pub(crate) campaign: Option<&'static str>,
    pub(crate) not_before: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
    /// Its admission key, with a cooldown of [`COOLDOWN`].
    pub(crate) key: Option<Arc<str>>,
}

/// When each act begins, from the start.
pub(crate) type Acts = Vec<(Duration, Act)>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What the upstream is.
    pub(crate) model: fn(Timestamp, u64) -> Model,
    pub(crate) config: fn() -> Config,
    /// What the program does, by the seed.
    pub(crate) acts: fn(&mut Random) -> Acts,
    /// Whether the provider can be asked about an unknown.
    pub(crate) looks_up: bool,
    /// How long after it was taken an email is seen by whoever asks, by the seed.
    pub(crate) shows_after: fn(u64) -> Duration,
    /// Refusals that are the provider's own doing: it was blocked at that instant.
    pub(crate) is_blocked: fn(Timestamp) -> bool,
    /// From a death to the next process, in turn.
    pub(crate) downtimes: [Duration; 4],
    /// When everything has to have ended.
    pub(crate) ends_by: Duration,
    /// Every how many points are died at, unless said otherwise.
    pub(crate) stride: usize,
    /// What has to have happened at one of its points at least.
    pub(crate) sees: &'static [Sight],
}

/// What most of them have in common.
pub(crate) const PLAIN: Scenario = Scenario {
    name: "",
    model: |_, _| Model::new([]),
    config: Config::default,
    acts: |_| Vec::new(),
    looks_up: true,
    shows_after: |_| Duration::ZERO,
    is_blocked: |_| false,
    downtimes: [Duration::ZERO, Duration::from_millis(700), Duration::from_secs(20), Duration::from_secs(90)],
    ends_by: Duration::from_secs(6 * 3_600),
    stride: 5,
    sees: &[],
};

impl Scenario {
    /// What the program does.
    pub(crate) fn acts_of(&self, seed: u64) -> Acts {
        (self.acts)(&mut Random::stream(seed, 0xAC75))
    }

    /// Admission keys, and the ids that were submitted under them.
    pub(crate) fn keys(&self, seed: u64) -> Vec<(Arc<str>, Arc<str>)> {
        let mut found = Vec::new();
        for (_, act) in self.acts_of(seed) {
            let submitted = match act {
                Act::Submit(new) => vec![new],
                Act::SubmitMany(several) => several,
                _ => continue,
            };
            found.extend(submitted.into_iter().filter_map(|new| Some((new.key?, new.id))));
        }
        found
    }

    /// How long a commit takes: not at all, as in memory; a disk's sync; a disk in trouble.
    pub(crate) fn commit(&self, seed: u64) -> Duration {
        Duration::from_millis([0, 4, 150][(seed % 3) as usize])
    }

    /// Whether a look-up that comes after the visibility delay tells the truth.
    pub(crate) fn is_honest(&self, seed: u64) -> bool {
        (self.shows_after)(seed) <= (self.config)().transport.visibility_delay
    }
}
