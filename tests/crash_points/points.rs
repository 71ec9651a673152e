//! Which writes are died at.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::acts::Scenario;
use crate::book::What;
use crate::checks::{Executions, check};
use crate::mortal::{Fate, Plan, UnderWay};
use crate::scenarios;
use crate::shelf::Shelf;
use crate::sights::{self, Sights};
use crate::world::{Course, Run, run};

/// Seeds per scenario: as many as there are kinds of commits, so that each scenario meets each.
const SEEDS: u64 = 3;

/// One death.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) scenario: Scenario,
    pub(crate) seed: u64,
    /// From 0.
    pub(crate) write: usize,
    pub(crate) fate: Fate,
}

/// Dies at one write, and perhaps at a later one.
#[derive(Debug)]
struct Deaths {
    at: usize,
    fate: Fate,
    again_at: Option<usize>,
}

impl Plan for Deaths {
    fn fate(&self, number: usize, _: What) -> Fate {
        if number == self.at || self.again_at == Some(number) { self.fate } else { Fate::GoOn }
    }
}

/// Nothing happens.
#[derive(Debug)]
pub(crate) struct Peace;

impl Plan for Peace {
    fn fate(&self, _: usize, _: What) -> Fate {
        Fate::GoOn
    }
}

/// How a run without a death goes.
pub(crate) fn undisturbed(seed: u64) -> Course {
    Course { seed, plan: Arc::new(Peace), under_way: UnderWay::Arrives, downtime: Duration::ZERO }
}

impl Point {
    fn course(&self) -> Course {
        let again_at = self.write.is_multiple_of(5).then(|| self.write + 1 + self.write % 7);
        Course {
            seed: self.seed,
            plan: Arc::new(Deaths { at: self.write, fate: self.fate, again_at }),
            under_way: if self.write.is_multiple_of(2) { UnderWay::Arrives } else { UnderWay::IsLost },
            downtime: self.scenario.downtimes[self.write / 2 % 4],
        }
    }

    /// Dies there, and looks at what became of it.
    pub(crate) fn run(&self) -> Result<(Run, Executions), String> {
        self.run_on(&Shelf::memory())
    }

    pub(crate) fn run_on(&self, shelf: &Shelf) -> Result<(Run, Executions), String> {
        let named = |what: String| {
            format!(
                "{self}: {what}\nreplay: MAILWEIR_CRASH_POINT={self} cargo test --features \"sqlite test-util\" --test \
                 crash_points -- --nocapture one_point"
            )
        };
        let run = run(&self.scenario, &self.course(), shelf).map_err(named)?;
        if run.lives < 2 {
            return Err(named("it did not die".to_owned()));
        }
        let executions = check(&self.scenario, &run).map_err(named)?;
        Ok((run, executions))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = if self.fate == Fate::DieBefore { "before" } else { "after" };
        write!(f, "{}:{}:{}:{fate}", self.scenario.name, self.seed, self.write)
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not SCENARIO:SEED:WRITE:before or :after");
        let parts: Vec<_> = text.split(':').collect();
        let [name, seed, write, fate] = parts[..] else { return Err(wrong()) };
        Ok(Self {
            scenario: *scenario(name).ok_or_else(wrong)?,
            seed: seed.parse().map_err(|_| wrong())?,
            write: write.parse().map_err(|_| wrong())?,
            fate: match fate {
                "before" => Fate::DieBefore,
                "after" => Fate::DieAfter,
                _ => return Err(wrong()),
            },
        })
    }
}

pub(crate) fn scenario(name: &str) -> Option<&'static Scenario> {
    scenarios::ALL.iter().find(|scenario| scenario.name == name)
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number")))
}

/// A run without a death; every durable write of it.
pub(crate) fn count(scenario: &Scenario, seed: u64) -> Vec<What> {
    let run = run(scenario, &undisturbed(seed), &Shelf::memory()).unwrap_or_else(|what| panic!("{what}"));
    check(scenario, &run).unwrap_or_else(|what| panic!("{} seed {seed}, undisturbed: {what}", scenario.name));
    run.book.writes
}

/// Every point of one seed.
pub(crate) fn points(scenario: &Scenario, seed: u64, writes: usize) -> impl Iterator<Item = Point> + use<> {
    let scenario = *scenario;
    let fates = [Fate::DieBefore, Fate::DieAfter];
    (0..writes).flat_map(move |write| fates.map(|fate| Point { scenario, seed, write, fate }))
}

/// Dies at every point of a scenario, or at every so many.
pub(crate) fn enumerate(name: &str) {
    let scenario = scenario(name).unwrap_or_else(|| panic!("no scenario {name}"));
    // Odd, so that a stride meets both kinds of deaths, and another offset for each seed.
    let stride = number("MAILWEIR_CRASH_STRIDE").map(|stride| usize::try_from(stride).expect("small"));
    let stride = stride.unwrap_or(scenario.stride).max(1) | 1;
    let seeds = number("MAILWEIR_CRASH_SEEDS").unwrap_or(SEEDS);
    let (mut died, mut all, mut lives, mut seen) = (0, 0, 0, Sights::new());
    for seed in 0..seeds {
        let writes = count(scenario, seed);
        all += 2 * writes.len();
        let offset = usize::try_from(seed).expect("small") % stride;
        for point in points(scenario, seed, writes.len()).skip(offset).step_by(stride) {
            let (run, executions) = point.run().unwrap_or_else(|what| panic!("{what}"));
            let until = point.write + 1;
            assert_eq!(run.book.writes[..until], writes[..until], "{point}: the same run until it dies");
            died += 1;
            lives += run.lives;
            sights::add(&mut seen, &run, &executions);
        }
    }
    println!("{name}: {died} of {all} points, {lives} processes; {seen:?}");
    assert!(died > 0);
    for sight in scenario.sees {
        assert!(seen.get(sight).is_some_and(|times| *times > 0), "{name} is to show {sight:?}, and never did");
    }
}
