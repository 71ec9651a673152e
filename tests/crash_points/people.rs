//! Scenarios in which people step in, or time does: orders about operations, breakers and holds; emails that crash what
//! sends them; a provider that drops duplicates for a while; a limit that spans a day.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::Scope;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::scheduler::HoldScope;
use mailweir::upstream::UpstreamLimit;

use crate::acts::{Act, Acts, HOUR, MINUTE, NEWS, New, PLAIN, SECOND, Scenario};
use crate::orders::{Verb, Word};
use crate::scenarios::{at, bulk, cancel, code, faulty, hold, mailbox, percent, resume, spread, strict};
use crate::sights::Sight;

/// A limit like this and one request in three with some trouble, for all scenarios here but one.
const BASE: Scenario = Scenario {
    model: |_, _| faulty([UpstreamLimit::requests(30, MINUTE)]),
    config: || mailbox(&["30 requests / 1m"]),
    // They came later, and the day of those before them was to stay as short as it was.
    stride: 13,
    ..PLAIN
};

/// Nobody can look up what was lost but a person, who also sets aside, releases and cancels.
pub(crate) const ORDERED: Scenario = Scenario {
    name: "ordered",
    model: |_, _| {
        let mut model = faulty([UpstreamLimit::requests(30, MINUTE)]);
        model.faults.request_lost = percent(8);
        model.faults.cut_after_body = percent(12);
        model
    },
    acts: |random| {
        let mut acts: Acts = (0..28).map(|n| (spread(random, 90), Act::Submit(bulk("bulk", n)))).collect();
        acts.extend((0..8).map(|n| (spread(random, 120), Act::Submit(code("code", n)))));
        // The deadlines of some pass before they are released: they get a new one.
        acts.extend((0..4).map(|n| {
            let new = New { deadline: Some(at(150)), not_before: Some(at(100)), ..bulk("short", n) };
            (spread(random, 60), Act::Submit(new))
        }));
        let about = |id: String, verb| Act::Order(Word::about(&id, verb));
        let midway = |id: String, verb| Act::Midway(Word::about(&id, verb));
        acts.extend((0..5).map(|n| (spread(random, 90), about(format!("bulk-{n}"), Verb::Quarantine))));
        acts.extend((0..3).map(|n| (spread(random, 90), about(format!("short-{n}"), Verb::Quarantine))));
        acts.extend((5..8).map(|n| (at(1), midway(format!("bulk-{n}"), Verb::Quarantine))));
        acts.extend((8..12).map(|n| (at(1), midway(format!("bulk-{n}"), Verb::Cancel))));
        acts.extend((12..15).map(|n| (spread(random, 120), cancel(&format!("bulk-{n}")))));
        acts.extend((0..2).map(|n| (spread(random, 300), about(format!("bulk-{n}"), Verb::Release))));
        acts.push((at(240), Act::Rounds));
        acts
    },
    looks_up: false,
    sees: &[
        Sight::Quarantined,
        Sight::QuarantinedMidway,
        Sight::CancelledMidway,
        Sight::Released,
        Sight::Discarded,
        Sight::ResolvedAsSent,
        Sight::ResolvedAsAbsent,
        Sight::Doubled,
    ],
    ..BASE
};

/// Breakers opened and closed by hand, holds replaced, lifted and left to end.
pub(crate) const STOPPED: Scenario = Scenario {
    name: "stopped",
    acts: |random| {
        let mut acts: Acts = (0..30).map(|n| (spread(random, 200), Act::Submit(bulk("bulk", n)))).collect();
        acts.extend((0..10).map(|n| (spread(random, 220), Act::Submit(code("code", n)))));
        let news = Scope::Mailbox(Arc::from(NEWS));
        let trip = |second, scope: &Scope, lasts| (at(second), Act::Order(Word::Trip(scope.clone(), at(lasts))));
        let close = |second, scope: &Scope| (at(second), Act::Order(Word::Close(scope.clone())));
        let (all, of_news) = (HoldScope::All, HoldScope::Mailbox(Arc::from(NEWS)));
        let (spring, one) = (HoldScope::Campaign(Arc::from("spring")), HoldScope::Operation(Arc::from("held-0")));
        acts.extend([
            hold(1, &one, 100),
            trip(5, &news, 40),
            trip(12, &news, 7_200),
            hold(30, &spring, 90),
            close(40, &news),
            trip(55, &Scope::Application, 15),
            hold(75, &of_news, 7_200),
            // A shorter one in place of it, which ends by itself.
            hold(85, &of_news, 12),
            trip(110, &Scope::Application, 7_200),
            close(125, &Scope::Application),
            hold(130, &spring, 10),
            hold(135, &spring, 7_200),
            hold(140, &all, 7_200),
            resume(155, &spring),
            resume(165, &all),
            trip(180, &news, 20),
        ]);
        let held = New { not_before: Some(at(20)), ..code("held", 0) };
        acts.push((Duration::ZERO, Act::Submit(held)));
        acts
    },
    // A resume or a close that was forgotten would show in two hours.
    ends_by: Duration::from_secs(5_400),
    sees: &[
        Sight::HoldStood,
        Sight::TripStood,
        Sight::LiftStood,
        Sight::HoldEnded,
        Sight::TripEnded,
        Sight::HoldReplaced,
    ],
    ..BASE
};

/// Emails that crash the transport, and processes that die with some on their way: at the second time they are set aside,
/// until a person releases them.
pub(crate) const POISONED: Scenario = Scenario {
    name: "poisoned",
    config: || {
        let mut config = mailbox(&["30 requests / 1m"]);
        config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
        config.retry.crashes_max = NonZeroU32::new(2).expect("two");
        config
    },
    acts: |random| {
        let mut acts: Acts = (0..20).map(|n| (spread(random, 90), Act::Submit(bulk("bulk", n)))).collect();
        acts.extend((0..3).map(|n| (spread(random, 60), Act::Submit(code("poison", n)))));
        acts.extend((0..6).map(|n| (spread(random, 120), Act::Submit(code("code", n)))));
        acts.push((at(120), Act::Rounds));
        acts
    },
    sees: &[Sight::SetAside, Sight::Released, Sight::Repeated, Sight::Found],
    ..BASE
};

/// The provider drops duplicates for ten minutes, and shows what it took after three quarters of a minute: an operation
/// that was lost goes again blindly for two minutes, and after that when it was looked for.
pub(crate) const REMEMBERED: Scenario = Scenario {
    name: "remembered",
    model: |_, _| {
        let mut model = faulty([UpstreamLimit::requests(30, MINUTE)]);
        model.faults.request_lost = percent(8);
        model.faults.cut_after_body = percent(12);
        model
    },
    config: || {
        let mut config = mailbox(&["30 requests / 1m"]);
        config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
        config.retry.horizon = 2 * MINUTE;
        config.transport.dedupe_window = Some(10 * MINUTE);
        config
    },
    acts: |random| {
        let mut acts: Acts = (0..36).map(|n| (spread(random, 100), Act::Submit(bulk("bulk", n)))).collect();
        acts.extend((0..10).map(|n| (spread(random, 120), Act::Submit(code("code", n)))));
        acts
    },
    shows_after: |_| 45 * SECOND,
    sees: &[Sight::RepeatedBlindly, Sight::Repeated, Sight::Found, Sight::Dropped],
    ..BASE
};

const DAY_REQUESTS: u64 = 40;

/// A day's limit that takes three days of it: who dies in the evening goes on in the morning with what is left.
pub(crate) const DAYS: Scenario = Scenario {
    name: "days",
    model: |_, _| {
        let mut model = strict([UpstreamLimit::requests(12, MINUTE), UpstreamLimit::requests(DAY_REQUESTS, 24 * HOUR)]);
        model.faults.response_lost = percent(4);
        model.faults.error_after_charge = percent(4);
        model
    },
    config: || mailbox(&["12 requests / 1m", "40 requests / 24h"]),
    acts: |random| {
        let later = |new: New| New { deadline: Some(240 * HOUR), ..new };
        let mut acts = vec![(Duration::ZERO, Act::SubmitMany((0..24).map(|n| later(bulk("bulk", n))).collect()))];
        acts.extend((0..24).map(|n| (spread(random, 300), Act::Submit(later(code("evening", n))))));
        acts.extend((0..12).map(|n| (10 * HOUR + spread(random, 3_600), Act::Submit(later(code("morning", n))))));
        acts.extend((24..44).map(|n| (30 * HOUR + spread(random, 36_000), Act::Submit(later(bulk("bulk", n))))));
        acts
    },
    downtimes: [
        Duration::ZERO,
        Duration::from_secs(20),
        Duration::from_secs(4 * 3_600),
        Duration::from_secs(13 * 3_600),
    ],
    ends_by: Duration::from_secs(9 * 86_400),
    sees: &[Sight::DayIsFull],
    ..BASE
};
