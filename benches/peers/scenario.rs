//! What happens to everybody alike.

use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::{Cost, Lane, Limit, Ratio, Scope, ScopeKind, Timestamp};
use mailweir::upstream::{
    Algorithm, Block, ConcurrencyLimit, Foreign, Job, Model, Profile, Random, RetryAfterPolicy, Schedule, UpstreamLimit,
};

/// Where every run begins: `World`'s start, so that the same instants mean the same.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// One scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What the operator declares, and the upstream keeps.
    pub(crate) limits: Vec<Limit>,
    pub(crate) concurrency: u32,
    pub(crate) mailboxes: usize,
    /// Declared to those who can use it.
    pub(crate) foreground_per_hour: Option<u32>,
    /// Then the run is cut off.
    pub(crate) cut_off: Duration,
    /// Another client spends this at that instant.
    pub(crate) burn: Option<(Duration, u32)>,
    pub(crate) retry_after: RetryAfterPolicy,
    load: fn(u64) -> Vec<Job>,
    change: fn(&mut Model),
}

pub(crate) fn name(number: usize) -> Arc<str> {
    Arc::from(format!("m{number}@contoso.example"))
}

fn at(seconds: u64) -> Timestamp {
    START.after(Duration::from_secs(seconds))
}

fn job(at: Timestamp, lane: Lane) -> Job {
    Job { at, mailbox: name(0), tenant: None, cost: Cost::email(1, 4_096), lane }
}

fn campaign(count: usize) -> Vec<Job> {
    vec![job(START, Lane::Background); count]
}

fn people(seed: u64, per_hour: u32, size: usize, span: Duration) -> Vec<Job> {
    let (mut random, mut at, end) = (Random::stream(seed, 0x10AD), START, START.after(span));
    let mut jobs = Vec::new();
    while let Some(gap) = random.poisson_gap(per_hour) {
        at = at.after(gap);
        if at >= end {
            break;
        }
        jobs.extend(std::iter::repeat_n(job(at, Lane::Foreground), size));
    }
    jobs
}

fn limits(texts: &[&str]) -> Vec<Limit> {
    texts.iter().map(|text| text.parse().expect("a limit")).collect()
}

impl Scenario {
    fn new(name: &'static str, about: &'static str, texts: &[&str], load: fn(u64) -> Vec<Job>) -> Self {
        Self {
            name,
            about,
            limits: limits(texts),
            concurrency: 4,
            mailboxes: 1,
            foreground_per_hour: None,
            cut_off: 2 * HOUR,
            burn: None,
            retry_after: RetryAfterPolicy::Exact,
            load,
            change: |_| {},
        }
    }

    fn changed(mut self, change: fn(&mut Model)) -> Self {
        self.change = change;
        self
    }

    /// Every operation of a run, in order of submission.
    pub(crate) fn jobs(&self, seed: u64) -> Vec<Job> {
        let mut jobs = (self.load)(seed);
        jobs.sort_by_key(|job| job.at);
        jobs
    }

    /// The upstream of a run.
    pub(crate) fn model(&self, profile: Profile, seed: u64) -> Model {
        // The profile replaces the algorithm.
        let declare = |limit| UpstreamLimit::declared(ScopeKind::Mailbox, limit, Algorithm::Rolling);
        let declared = self.limits.iter().map(declare);
        let mut model = profile.model(declared, seed);
        model.retry_after = self.retry_after.clone();
        model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, self.concurrency)];
        (self.change)(&mut model);
        model
    }

    pub(crate) fn all() -> Vec<Self> {
        let mut all = Self::healthy();
        all.extend(Self::troubled());
        all.extend(Self::weighted());
        all
    }

    fn healthy() -> Vec<Self> {
        let held_out = "Held out: the parameters were chosen on 30/min, 120/min and 400/h alone.";
        let mut s2 = Self::new(
            "S2: a migration under two windows",
            "1,300 background emails at once, 120/min and 400/h, C = 5, no Retry-After, four scans an hour of five emails \
             each in the foreground; cut off after 8 h.",
            &["120 requests / 1m", "400 requests / 1h"],
            |seed| [campaign(1_300), people(seed, 4, 5, 4 * HOUR)].concat(),
        );
        s2.concurrency = 5;
        s2.cut_off = 8 * HOUR;
        s2.foreground_per_hour = Some(20);
        s2.retry_after = RetryAfterPolicy::None;
        let mut daily = Self::new(
            "H2: a daily quota of recipients",
            held_out,
            &["20 requests / 1m", "500 recipients / 24h"],
            |seed| [campaign(900), people(seed, 6, 1, 30 * HOUR)].concat(),
        );
        daily.cut_off = 72 * HOUR;
        daily.foreground_per_hour = Some(6);
        vec![
            Self::new(
                "S0: a campaign",
                "200 background emails at once, 30/min, C = 4, exact Retry-After, two people a minute in the foreground.",
                &["30 requests / 1m"],
                |seed| [campaign(200), people(seed, 120, 1, Duration::from_secs(600))].concat(),
            ),
            s2,
            Self::new("H1: fourteen a second", held_out, &["14 requests / 1s"], |seed| {
                [campaign(10_000), people(seed, 3_600, 1, Duration::from_secs(900))].concat()
            }),
            daily,
        ]
    }

    fn troubled() -> Vec<Self> {
        const STEADY: [&str; 1] = ["60 requests / 1m"];
        let steady = |seed| [campaign(3_600), people(seed, 240, 1, HOUR)].concat();
        let new = |name, about| Self::new(name, about, &STEADY, steady);
        let mut burn = new("T4: another client spends two windows at once", "120 requests, ten minutes in.");
        burn.burn = Some((Duration::from_secs(600), 120));
        vec![
            new("T1: a brown-out", "Half of all answers are 503 for ten minutes; the charge stays.").changed(|model| {
                let half = Ratio::percent(50);
                model.faults.error_after_charge = Schedule::always(Ratio::ZERO).between(at(600), at(1_200), half);
            }),
            new("T2: a hard block", "Everything is refused for ten minutes.").changed(|model| {
                model.blocks = vec![Block { scope: Scope::Mailbox(name(0)), from: at(600), until: at(1_200) }];
            }),
            new("T3: the limit halves", "For twenty minutes.").changed(|model| {
                let scale = Schedule::always(Ratio::ONE).between(at(600), at(1_800), Ratio::percent(50));
                *model = model.clone().scaled(&scale);
            }),
            burn,
            new(
                "T5: foreign traffic",
                "Another client sends 12 a minute all the time, and the upstream tells the use.",
            )
            .changed(|model| {
                model.usage_from = Some(Ratio::percent(80));
                model.foreign = vec![Foreign {
                    mailbox: name(0),
                    tenant: None,
                    cost: Cost::email(1, 4_096),
                    per_hour: Schedule::always(720),
                }];
            }),
        ]
    }

    fn weighted() -> Vec<Self> {
        let mut tenants = Self::new(
            "W3: two tenants",
            "A campaign of 900 of one tenant, and 100 of another one five minutes later.",
            &["60 requests / 1m"],
            |seed| {
                let mut jobs = campaign(900);
                for job in &mut jobs {
                    job.tenant = Some(Arc::from("large"));
                }
                let small = job(at(300), Lane::Background);
                jobs.extend(std::iter::repeat_n(Job { tenant: Some(Arc::from("small")), ..small }, 100));
                [jobs, people(seed, 60, 1, Duration::from_secs(900))].concat()
            },
        );
        tenants.cut_off = 2 * HOUR;
        vec![
            Self::new(
                "W1: weighted recipients",
                "600 background emails of 1 to 50 recipients, 1,000 recipients a minute; people beside them.",
                &["200 requests / 1m", "1_000 recipients / 1m"],
                |seed| {
                    let mut random = Random::stream(seed, 0xEA7);
                    let mut jobs = campaign(600);
                    for job in &mut jobs {
                        job.cost = Cost::email(u32::try_from(1 + random.below(50)).expect("small"), 4_096);
                    }
                    [jobs, people(seed, 120, 1, Duration::from_secs(900))].concat()
                },
            ),
            Self::new(
                "W2: a byte window",
                "300 background emails of up to 10 MB, 150 MB in five minutes; people beside them.",
                &["60 requests / 1m", "150MB / 5m"],
                |seed| {
                    let mut random = Random::stream(seed, 0xEA8);
                    let mut jobs = campaign(300);
                    for job in &mut jobs {
                        job.cost = Cost::email(1, 1_000 + random.below(10_000_000));
                    }
                    [jobs, people(seed, 60, 1, 2 * HOUR)].concat()
                },
            ),
            tenants,
            Self::many(),
        ]
    }

    fn many() -> Self {
        let mut many = Self::new(
            "W4: 100,000 mailboxes, one in a hundred busy",
            "A thousand campaigns of 60 emails at 30/min, and one person in each of ten thousand other mailboxes.",
            &["30 requests / 1m"],
            |seed| {
                let mut random = Random::stream(seed, 0x3A11);
                let mut jobs = Vec::new();
                for busy in 0..1_000 {
                    let mailbox = name(busy * 100);
                    jobs.extend(std::iter::repeat_n(Job { mailbox, ..job(START, Lane::Background) }, 60));
                }
                for one in 0..10_000 {
                    let when = START.after(Duration::from_micros(random.below(120_000_000)));
                    jobs.push(Job { mailbox: name(one * 10), ..job(when, Lane::Foreground) });
                }
                jobs
            },
        );
        many.mailboxes = 100_000;
        many
    }

    /// The shortest declared window.
    pub(crate) fn shortest(&self) -> Duration {
        self.limits.iter().map(Limit::window).min().unwrap_or(MINUTE)
    }
}
