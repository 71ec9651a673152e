//! What is run: small days in the life of a sender, each with its kind of trouble.
//!
//! They are small because each is run once per durable write, and strict: a refused request counts against the limits,
//! and a limit that a restart forgot would show at once.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::Lane;
use mailweir::config::Config;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{Limit, Ratio, Scope, ScopeKind, Timestamp, Unit};
use mailweir::scheduler::HoldScope;
use mailweir::upstream::{
    Algorithm, Block, Model, Profile, Random, Refusals, RetryAfterPolicy, Schedule, ScopeHeader, UpstreamLimit,
};

use crate::acts::{Act, Acts, MINUTE, NEWS, New, PERMIT, PLAIN, SECOND, Scenario};
use crate::orders::{Verb, Word};
use crate::people::{DAYS, ORDERED, POISONED, REMEMBERED, STOPPED};
use crate::sights::Sight;

const ALERTS: &str = "alerts@contoso.example";

pub(crate) const ALL: [Scenario; 16] = [
    CAMPAIGN,
    THROTTLED,
    UNKNOWNS,
    NOBODY_TELLS,
    STEERED,
    DEADLINES,
    TWO_MAILBOXES,
    AT_LEAST_ONCE,
    WIDENED,
    PERMITS,
    CLICKS,
    ORDERED,
    STOPPED,
    POISONED,
    REMEMBERED,
    DAYS,
];

const CAMPAIGN: Scenario = Scenario {
    name: "campaign",
    model: |_, seed| Profile::ALL[(seed % 4) as usize].model([UpstreamLimit::requests(30, MINUTE)], seed),
    config: || mailbox(&["30 requests / 1m"]),
    acts: |random| {
        let mut acts = vec![(Duration::ZERO, Act::SubmitMany((0..30).map(|n| bulk("bulk", n)).collect()))];
        acts.extend((0..40).map(|n| (spread(random, 120), Act::Submit(bulk("late", n)))));
        acts.extend((0..25).map(|n| (spread(random, 240), Act::Submit(code("code", n)))));
        acts
    },
    ..PLAIN
};

/// From second 30 to 55 and from 150 to 190.
const BLOCKS: [(u64, u64); 2] = [(30, 55), (150, 190)];

const THROTTLED: Scenario = Scenario {
    name: "throttled",
    model: |start, seed| {
        let mut model = strict([UpstreamLimit::requests(30, MINUTE)]);
        model.retry_after =
            if seed.is_multiple_of(2) { RetryAfterPolicy::Constant(12) } else { RetryAfterPolicy::None };
        model.scope_header = ScopeHeader::Path;
        let scope = Scope::Mailbox(Arc::from(NEWS));
        let block =
            |(from, until)| Block { scope: scope.clone(), from: after(start, from), until: after(start, until) };
        model.blocks = BLOCKS.map(block).to_vec();
        model
    },
    config: || mailbox(&["30 requests / 1m"]),
    acts: |random| {
        let mut acts: Acts = (0..60).map(|n| (spread(random, 150), Act::Submit(bulk("bulk", n)))).collect();
        acts.extend((0..25).map(|n| (spread(random, 200), Act::Submit(code("code", n)))));
        acts
    },
    is_blocked: |at| {
        BLOCKS
            .iter()
            .any(|(from, until)| after(crate::world::START, *from) <= at && at < after(crate::world::START, *until))
    },
    ..PLAIN
};

const UNKNOWNS: Scenario = Scenario {
    name: "unknowns",
    model: |_, _| faulty([UpstreamLimit::requests(30, MINUTE)]),
    config: || mailbox(&["30 requests / 1m"]),
    acts: mixed,
    ..PLAIN
};

const NOBODY_TELLS: Scenario = Scenario { name: "nobody_tells", looks_up: false, ..UNKNOWNS };

const STEERED: Scenario = Scenario {
    name: "steered",
    model: |_, _| faulty([UpstreamLimit::requests(30, MINUTE)]),
    acts: |random| {
        let mut acts = mixed(random);
        acts.extend((0..10).map(|n| {
            let new = New { not_before: Some(Duration::from_secs(60 + 7 * n)), ..bulk("later", n) };
            (spread(random, 30), Act::Submit(new))
        }));
        let ids = |name: &'static str, count: u64| (0..count).map(move |n| Arc::from(format!("{name}-{n}")));
        let cancelled = ids("bulk", 60).step_by(3).chain(ids("code", 20).step_by(4)).chain(ids("later", 10).step_by(2));
        acts.extend(cancelled.map(|id: Arc<str>| (spread(random, 180), cancel(&id))));
        acts.extend((20..28).map(|n| (at(10), Act::Midway(Word::about(&format!("bulk-{n}"), Verb::Cancel)))));
        acts.extend([
            hold(20, &HoldScope::Campaign(Arc::from("spring")), 40),
            hold(70, &HoldScope::Mailbox(Arc::from(NEWS)), 300),
            resume(95, &HoldScope::Mailbox(Arc::from(NEWS))),
            hold(100, &HoldScope::Operation(Arc::from("bulk-59")), 60),
            hold(140, &HoldScope::All, 15),
        ]);
        acts
    },
    sees: &[Sight::CancelledMidway, Sight::HoldEnded],
    ..UNKNOWNS
};

const DEADLINES: Scenario = Scenario {
    name: "deadlines",
    model: |_, _| {
        let mut model = faulty([UpstreamLimit::requests(20, MINUTE)]);
        model.faults.error_before_charge = percent(25);
        model.faults.error_after_charge = percent(10);
        model
    },
    config: || {
        let mut config = mailbox(&["20 requests / 1m"]);
        config.retry.attempts_max = NonZeroU32::new(2).expect("two");
        config
    },
    acts: |random| {
        let due = |new: New, at: Duration, random: &mut Random| {
            let deadline = Some(at + Duration::from_secs(20 + random.below(120)));
            (at, Act::Submit(New { deadline, ..new }))
        };
        let mut acts: Acts = Vec::new();
        for n in 0..70 {
            let at = spread(random, 90);
            acts.push(due(bulk("bulk", n), at, random));
        }
        for n in 0..20 {
            let at = spread(random, 120);
            acts.push(due(code("code", n), at, random));
        }
        acts
    },
    sees: &[Sight::DeadlineMidway, Sight::DeadlineInDeadTime],
    ..UNKNOWNS
};

const TWO_MAILBOXES: Scenario = Scenario {
    name: "two_mailboxes",
    model: |_, _| {
        let application = UpstreamLimit::requests(40, MINUTE).at_scope(ScopeKind::Application);
        let recipients = UpstreamLimit::new(ScopeKind::Mailbox, Unit::Recipients, 45, 2 * MINUTE, Algorithm::Rolling);
        let mut model = faulty([UpstreamLimit::requests(30, MINUTE), recipients, application]);
        model.scope_header = ScopeHeader::Path;
        model
    },
    config: || mailbox(&["30 requests / 1m", "45 recipients / 2m"]).application_limits(limits(&["40 requests / 1m"])),
    acts: |random| {
        let alerts = |new: New| New { mailbox: Arc::from(ALERTS), ..new };
        let mut acts = mixed(random);
        acts.push((Duration::ZERO, Act::SubmitMany((0..25).map(|n| alerts(bulk("alert", n))).collect())));
        acts.extend((0..15).map(|n| (spread(random, 150), Act::Submit(alerts(code("alarm", n))))));
        acts
    },
    ..UNKNOWNS
};

const AT_LEAST_ONCE: Scenario = Scenario {
    name: "at_least_once",
    model: |_, _| {
        let mut model = faulty([UpstreamLimit::requests(30, MINUTE)]);
        model.faults.request_lost = percent(10);
        model.faults.cut_before_body = percent(10);
        model
    },
    config: || {
        let mut config = mailbox(&["30 requests / 1m"]);
        config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
        config
    },
    acts: |random| {
        let mut acts = mixed(random);
        let ids = (0..60).step_by(2).map(|n| Arc::from(format!("bulk-{n}")));
        acts.extend(ids.map(|id: Arc<str>| (spread(random, 240), cancel(&id))));
        acts
    },
    // At once; late, but in time; so late that what was taken looks absent, and goes again.
    shows_after: |seed| [Duration::ZERO, 45 * SECOND, 30 * MINUTE][(seed % 3) as usize],
    sees: &[Sight::Found, Sight::Repeated, Sight::Doubled],
    ..UNKNOWNS
};

/// Holds that are lifted in part: one that goes well, one that ends meanwhile, one that a person lifts, one of everything.
const WIDENED: Scenario = Scenario {
    name: "widened",
    model: |_, _| faulty([UpstreamLimit::requests(30, MINUTE)]),
    config: || {
        let mut config = (UNKNOWNS.config)();
        // This upstream fails so often that none would go well.
        config.resume.failed_max = Ratio::ONE;
        config
    },
    acts: |random| {
        let mut acts = mixed(random);
        let (all, mailbox) = (HoldScope::All, HoldScope::Mailbox(Arc::from(NEWS)));
        let campaign = HoldScope::Campaign(Arc::from("spring"));
        let first = |second, scope: &HoldScope, first, watch| {
            (at(second), Act::Order(Word::ResumeFirst(scope.clone(), first, at(watch))))
        };
        acts.extend([
            hold(1, &campaign, 900),
            first(25, &campaign, 4, 20),
            hold(90, &mailbox, 60),
            first(100, &mailbox, 3, 300),
            hold(160, &mailbox, 600),
            first(170, &mailbox, 2, 300),
            resume(200, &mailbox),
            hold(215, &all, 900),
            first(230, &all, 3, 15),
        ]);
        acts
    },
    ..UNKNOWNS
};

/// Some send by themselves.
const PERMITS: Scenario = Scenario {
    name: "permits",
    acts: |random| {
        let mut acts: Acts = (0..25).map(|n| (spread(random, 120), Act::Submit(bulk("bulk", n)))).collect();
        acts.extend((0..40).map(|n| (spread(random, 150), Act::Permit(Arc::from(format!("{PERMIT}{n}"))))));
        acts
    },
    ..UNKNOWNS
};

/// Several clicks on the same few buttons.
const CLICKS: Scenario = Scenario {
    name: "clicks",
    acts: |random| {
        let click = |n| New { key: Some(Arc::from(format!("reset-{}", n % 7))), ..code("click", n) };
        let mut acts: Acts = (0..60).map(|n| (spread(random, 240), Act::Submit(click(n)))).collect();
        acts.push((Duration::ZERO, Act::SubmitMany((60..75).map(click).collect())));
        acts.extend((0..15).map(|n| (spread(random, 120), Act::Submit(bulk("bulk", n)))));
        acts
    },
    ..UNKNOWNS
};

fn after(start: Timestamp, seconds: u64) -> Timestamp {
    start.after(Duration::from_secs(seconds))
}

pub(crate) fn limits(texts: &[&str]) -> Vec<Limit> {
    texts.iter().map(|text| text.parse().expect("a limit")).collect()
}

pub(crate) fn mailbox(texts: &[&str]) -> Config {
    Config::default().mailbox_limits(limits(texts)).application_limits([])
}

pub(crate) fn percent(percent: u32) -> Schedule<Ratio> {
    Schedule::always(Ratio::percent(percent))
}

/// Every refusal counts.
pub(crate) fn strict(limits: impl IntoIterator<Item = UpstreamLimit>) -> Model {
    let mut model = Model::new(limits);
    model.refusals = Refusals::Counted;
    model
}

/// One request in three has some trouble.
pub(crate) fn faulty(limits: impl IntoIterator<Item = UpstreamLimit>) -> Model {
    let mut model = strict(limits);
    model.faults.request_lost = percent(4);
    model.faults.cut_before_body = percent(4);
    model.faults.cut_after_body = percent(6);
    model.faults.response_lost = percent(4);
    model.faults.response_duplicated = percent(2);
    model.faults.error_before_charge = percent(4);
    model.faults.error_after_charge = percent(4);
    model.faults.timeout_after_acceptance = percent(4);
    model.faults.timeout_lingers = Duration::from_secs(5);
    model
}

pub(crate) fn mixed(random: &mut Random) -> Acts {
    let mut acts = vec![(Duration::ZERO, Act::SubmitMany((0..20).map(|n| bulk("bulk", n)).collect()))];
    acts.extend((20..60).map(|n| (spread(random, 120), Act::Submit(bulk("bulk", n)))));
    acts.extend((0..20).map(|n| (spread(random, 180), Act::Submit(code("code", n)))));
    acts
}

/// So many seconds from the start, or long.
pub(crate) const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn cancel(id: &str) -> Act {
    Act::Order(Word::about(id, Verb::Cancel))
}

pub(crate) fn hold(second: u64, scope: &HoldScope, lasts: u64) -> (Duration, Act) {
    (at(second), Act::Order(Word::Hold(scope.clone(), at(lasts))))
}

pub(crate) fn resume(second: u64, scope: &HoldScope) -> (Duration, Act) {
    (at(second), Act::Order(Word::Resume(scope.clone())))
}

/// An instant within the first `seconds`.
pub(crate) fn spread(random: &mut Random, seconds: u64) -> Duration {
    Duration::from_micros(random.below(seconds * 1_000_000))
}

pub(crate) fn bulk(name: &str, n: u64) -> New {
    New {
        id: Arc::from(format!("{name}-{n}")),
        mailbox: Arc::from(NEWS),
        lane: Lane::Background,
        campaign: n.is_multiple_of(2).then_some("spring"),
        not_before: None,
        deadline: None,
        key: None,
    }
}

pub(crate) fn code(name: &str, n: u64) -> New {
    New { lane: Lane::Foreground, campaign: None, ..bulk(name, n) }
}
