//! A scenario: what is configured, what the provider really does, who submits what, and what goes wrong when.
//!
//! A file of TOML, so that an incident can be kept, replayed and argued about: the same file and the same seed give
//! the same run on every machine. Everything in it is declared; there is no script, so a scenario can be read by
//! somebody who has never seen this program.
//!
//! Instants are spans from the start of the run. Keys that are not known are refused, as in a configuration.
//!
//! Not promised: that the provider behaves like the model. Run a scenario on all four profiles before you believe it.

mod codecs;
mod loads;
mod provider;
mod read;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use loads::{Arrivals, LoadSpec};
pub use provider::Provider;

use super::{KeepEvents, KeepOutbox, LookUps, World};
use crate::config::{Config, ConfigError, text_of};
use crate::engine::policy::{MailboxPolicy, SharedPolicy};
use crate::upstream::Profile;

/// So many times a run tells how far it has come.
const PARTS: u32 = 200;

/// One scenario, checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, in a sentence.
    pub about: String,
    /// The one number that decides every draw.
    pub seed: u64,
    /// When the run is cut off.
    pub until: Duration,
    /// Whether it ends earlier, when everything submitted has ended.
    pub stop: Stop,
    /// By how many parts per million our clock runs fast.
    pub clock_ppm: i32,
    /// Whether the provider can be asked what became of an unknown.
    pub look_ups: LookUps,
    /// What is declared.
    pub config: Config,
    /// What the provider does.
    pub provider: Provider,
    /// Who submits what.
    pub loads: Vec<LoadSpec>,
    /// When the process dies.
    pub restarts: Vec<Restart>,
    /// When the configuration changes.
    pub changes: Vec<Change>,
    /// Every mailbox, in the order in which the loads name them.
    pub mailboxes: Vec<Arc<str>>,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// When everything submitted has ended, at the latest at the cut-off.
    #[default]
    WhenDone,
    /// At the cut-off.
    AtCutOff,
}

/// The process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When.
    pub at: Duration,
    /// How long it is gone.
    pub down: Duration,
}

/// The configuration changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// All of it, as it is from then on.
    pub config: Config,
}

impl Scenario {
    /// Reads and checks a file. A configuration that it names is looked for beside it.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] when it cannot be read, [`ConfigError::Invalid`] with every problem of its content.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new(""));
        read::scenario(&text_of(path)?, &path.display().to_string(), &name, folder)
    }

    /// Reads and checks a text; errors call it `name`. A configuration that it names is looked for in the current
    /// folder.
    ///
    /// # Errors
    /// As [`Scenario::from_path`].
    pub fn from_toml(text: &str, name: &str) -> Result<Self, ConfigError> {
        read::scenario(text, name, name, Path::new(""))
    }

    /// The same against another kind of provider.
    #[must_use]
    pub fn on_profile(mut self, profile: Profile) -> Self {
        self.provider.profile = profile;
        self
    }

    /// The policies of every mailbox and of the shared scopes under a configuration.
    pub(super) fn policies(&self, config: &Config) -> (Vec<Arc<MailboxPolicy>>, Arc<SharedPolicy>) {
        let base = config.mailbox_policy("");
        let of = |id: &Arc<str>| match config.mailboxes.contains_key(id) {
            true => config.mailbox_policy(id),
            false => Arc::clone(&base),
        };
        (self.mailboxes.iter().map(of).collect(), config.shared_policy())
    }

    /// The world at its start, with everything planned that the scenario says. Its events are changes of state.
    #[must_use]
    pub fn world(&self, seed: u64) -> World {
        let (policies, shared) = self.policies(&self.config);
        let upstream = self.upstream(seed);
        let mailboxes = self.mailboxes.iter().cloned().zip(policies);
        let keep = if self.restarts.is_empty() { KeepOutbox::No } else { KeepOutbox::Yes };
        let mut world = World::with_mailboxes(mailboxes, Some(shared), upstream)
            .clock_ppm(self.clock_ppm)
            .keep_events(KeepEvents::Changes)
            .keep_outbox(keep)
            .look_ups(self.look_ups);
        let start = world.start();
        for (number, load) in self.loads.iter().enumerate() {
            load.plan(&mut world, seed, number as u64, start.after(self.until), &self.config);
        }
        for burn in &self.provider.burns {
            world.burn(start.after(burn.at), burn.mailbox.clone(), burn.tenant.clone(), burn.cost);
        }
        for restart in &self.restarts {
            world.crash(start.after(restart.at), restart.down);
        }
        for change in &self.changes {
            let (mailboxes, shared) = self.policies(&change.config);
            world.reconfigure(start.after(change.at), mailboxes, Some(shared));
        }
        world
    }

    /// Runs it from its start to its end; `progress` is called now and then.
    pub fn run(&self, seed: u64, mut progress: impl FnMut(&World)) -> World {
        let mut world = self.world(seed);
        let (start, end) = (world.start(), world.start().after(self.until));
        for part in 1..=PARTS {
            let until = start.after(self.until * part / PARTS);
            match self.stop {
                Stop::WhenDone => world.run_to_end(until),
                Stop::AtCutOff => world.run_until(until),
            }
            progress(&world);
            if self.stop == Stop::WhenDone && world.pending() == 0 {
                return world;
            }
        }
        world.run_until(end);
        world
    }

    /// Spans in which something goes wrong on purpose, by name; an instant is a span of no length.
    #[must_use]
    pub fn troubles(&self) -> Vec<Trouble> {
        let mut troubles = self.provider.troubles(self.until);
        troubles.extend(self.restarts.iter().map(|restart| {
            let until = (restart.at + restart.down).min(self.until);
            Trouble { name: "process gone".to_owned(), from: restart.at, until }
        }));
        troubles.sort_by_key(|trouble| (trouble.from, trouble.until));
        troubles
    }
}

/// Something that goes wrong on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// What.
    pub name: String,
    /// From when, counted from the start.
    pub from: Duration,
    /// Until when.
    pub until: Duration,
}
