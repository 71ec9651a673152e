//! What a test of seeded runs needs: which seeds to run, and the command that replays the one that failed.
//!
//! A run may fail by its result or by any assertion, those of the engine among them; whichever it is, the last line of the
//! failure is the command.

#![allow(dead_code, reason = "each test that shares this uses what it needs")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number in an environment variable.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}: a whole number is wanted")))
}

/// The test that runs seeds, as cargo is asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    /// What is built.
    pub(crate) features: &'static str,
    /// The file, or folder, of `tests/`.
    pub(crate) test: &'static str,
    /// The test in it that runs `MAILWEIR_SEED` alone.
    pub(crate) name: &'static str,
}

/// The same with further variables that decide the run.
#[derive(Clone, Debug)]
pub(crate) struct Wordy {
    replay: Replay,
    words: Option<String>,
}

impl Replay {
    /// The seeds to run: `MAILWEIR_SEED` alone, or the first `MAILWEIR_SEEDS` of them, or as many as are `usual`.
    pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
        match number("MAILWEIR_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..number("MAILWEIR_SEEDS").unwrap_or(usual),
        }
    }

    /// With `NAME=value` before the command, where there is one.
    pub(crate) fn with(self, words: Option<String>) -> Wordy {
        Wordy { replay: self, words }
    }

    /// The command that runs this seed alone.
    pub(crate) fn command(&self, seed: u64) -> String {
        let Self { features, test, name } = self;
        format!("MAILWEIR_SEED={seed} cargo test --features \"{features}\" --test {test} -- --nocapture {name}")
    }

    /// Runs one seed.
    ///
    /// # Panics
    /// As the run does, in its words, with the command below them.
    #[track_caller]
    pub(crate) fn run<T>(self, seed: u64, run: impl FnOnce(u64) -> T) -> T {
        self.with(None).run(seed, run)
    }
}

impl Wordy {
    /// As [`Replay::run`].
    #[track_caller]
    pub(crate) fn run<T>(&self, seed: u64, run: impl FnOnce(u64) -> T) -> T {
        catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
            let command = self.replay.command(seed);
            let command = self.words.iter().cloned().chain([command]).collect::<Vec<_>>().join(" ");
            panic!("seed {seed}: {}\nreplay: {command}", words(&*panic))
        })
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
