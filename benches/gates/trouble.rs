//! G6, G7, G8 and G11: the limit halves, blocks, is spent by somebody else; half of the answers fail.

use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::{Cost, Lane, Limit, Ratio, Scope, Timestamp};
use mailweir::simulation::{Load, START, World};
use mailweir::upstream::{Block, Model, Profile, RetryAfterPolicy, Schedule, Upstream};

use crate::campaigns::{accepted, connections, figure, model, policy, refused};
use crate::known::once;
use crate::worst::{Gate, Good, Worst};
use crate::{PAIRS, SEEDS, limit};

/// Spans from the start to the trouble.
const BEFORE: u32 = 10;

/// Windows of ten seconds to a minute, where the specification's minutes are meant, longer ones, a second, or a second of which
/// half is a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    Usual,
    Long,
    Second,
    Fast,
}

pub(crate) fn pairs(windows: Windows) -> impl Iterator<Item = Limit> {
    let fit = move |pair: &(u64, u64)| match windows {
        Windows::Usual => pair.0 >= 10 && (10..=60).contains(&pair.1),
        Windows::Long => pair.0 >= 10 && (61..=3_600).contains(&pair.1),
        Windows::Second => pair.1 == 1,
        Windows::Fast => pair.0 >= 10 && pair.1 == 1,
    };
    PAIRS.into_iter().filter(fit).map(limit)
}

/// What a minute is here: a minute, or a window where that is longer.
pub(crate) fn span(limit: Limit) -> Duration {
    limit.window().max(Duration::from_secs(60))
}

/// What N/W comes to in one of them.
pub(crate) fn in_a_span(limit: Limit) -> f64 {
    figure(limit.amount()) * span(limit).as_secs_f64() / limit.window().as_secs_f64()
}

/// A campaign that never ends, under a model that `change` has been at.
fn saturated(profile: Profile, limit: Limit, seed: u64, windows: u32, change: impl FnOnce(&mut Model)) -> World {
    let mut model = model(profile, &[limit], seed);
    change(&mut model);
    let policy = Arc::new(policy(&[limit], connections(&limit).min(4)));
    let mut world = World::new(1, &policy, None, Upstream::new(model, seed));
    let spans = u64::try_from(span(limit).as_millis() / limit.window().as_millis()).expect("small");
    let count = usize::try_from(limit.amount() * spans * u64::from(windows + 2)).expect("small");
    world.burst(START, count, &Load::new(Lane::Background));
    world
}

fn at(limit: Limit, windows: u32) -> Timestamp {
    START.after(span(limit) * windows)
}

#[derive(Clone, Copy)]
struct Halved {
    refused: f64,
    during: f64,
    back: f64,
}

/// Half the limit for twenty windows.
fn halved(profile: Profile, limit: Limit, seed: u64) -> Halved {
    let (from, until) = (at(limit, BEFORE), at(limit, BEFORE + 20));
    let end = BEFORE + 50;
    let mut world = saturated(profile, limit, seed, end, |model| {
        *model = model.clone().scaled(&Schedule::always(Ratio::ONE).between(from, until, Ratio::percent(50)));
    });
    world.run_until(at(limit, end));
    let wanted = 0.9 * 0.9 * 2.0 * in_a_span(limit);
    let full = |windows: &u32| {
        let from = until.after(span(limit) * *windows);
        accepted(&world, Lane::Background, from, from.after(span(limit) * 2)) >= wanted
    };
    Halved {
        refused: refused(&world),
        during: accepted(&world, Lane::Background, from, until) / (10.0 * in_a_span(limit)),
        back: f64::from((0..28).find(full).unwrap_or(28)),
    }
}

#[derive(Clone, Copy)]
struct Blocked {
    refused: f64,
    first: f64,
}

/// Everything refused for ten windows.
fn blocked(profile: Profile, limit: Limit, seed: u64, hint: RetryAfterPolicy) -> Blocked {
    let (from, until) = (at(limit, BEFORE), at(limit, BEFORE + 10));
    let end = BEFORE + 40;
    let mut world = saturated(profile, limit, seed, end, |model| {
        model.blocks = vec![Block { scope: Scope::Mailbox(Arc::from("m0@contoso.example")), from, until }];
        model.retry_after = hint;
    });
    world.run_until(at(limit, end));
    let first = world.upstream().log().client().find(|arrival| arrival.executed && arrival.at >= until);
    let first = first.map_or(f64::INFINITY, |arrival| arrival.at.since(until).as_secs_f64());
    Blocked { refused: refused(&world), first }
}

#[derive(Clone, Copy)]
struct Burned {
    refused: f64,
    after: f64,
}

/// Another client spends a whole window at once.
fn burned(profile: Profile, limit: Limit, seed: u64) -> Burned {
    let mut world = saturated(profile, limit, seed, BEFORE + 32, |_| {});
    let spent = Cost { requests: u32::try_from(limit.amount()).expect("small"), ..Cost::ONE_REQUEST };
    let from = at(limit, BEFORE);
    let name = Arc::clone(world.name(0));
    world.burn(from, name, None, spent);
    world.run_until(at(limit, BEFORE + 30));
    let after = accepted(&world, Lane::Background, from, at(limit, BEFORE + 30)) / (30.0 * in_a_span(limit));
    Burned { refused: refused(&world), after }
}

#[derive(Clone, Copy)]
struct BrownOut {
    refused: f64,
    after: f64,
}

/// Half of all answers are 503 for ten windows, their charges stay.
fn brown_out(profile: Profile, limit: Limit, seed: u64) -> BrownOut {
    let (from, until) = (at(limit, BEFORE), at(limit, BEFORE + 10));
    let end = BEFORE + 50;
    let mut world = saturated(profile, limit, seed, end, |model| {
        let half = Ratio::percent(50);
        model.faults.error_after_charge = Schedule::always(Ratio::ZERO).between(from, until, half);
    });
    world.run_until(at(limit, end));
    let before = accepted(&world, Lane::Background, at(limit, 2), from) / 8.0;
    // The health breaker is open for five minutes at most.
    let settled = until.after(Duration::from_secs(300)).after(span(limit) * 10);
    let (settled, end) = (settled.min(at(limit, end - 10)), at(limit, end));
    let windows = end.since(settled).as_secs_f64() / span(limit).as_secs_f64();
    BrownOut { refused: refused(&world), after: accepted(&world, Lane::Background, settled, end) / windows / before }
}

fn over<T: Copy + 'static>(
    (profile, windows, good): (Profile, Windows, Good),
    what: &'static str,
    run: impl Fn(Limit, u64) -> T,
    figure_of: fn(&T) -> f64,
) -> Worst {
    let mut worst = Worst::new(good);
    for limit in pairs(windows) {
        for seed in 0..SEEDS {
            let found = once((profile, what, limit.to_string(), seed), || run(limit, seed));
            worst.see(figure_of(&found), &limit);
        }
    }
    worst
}

fn cut(profile: Profile, windows: Windows, good: Good, figure_of: fn(&Halved) -> f64) -> Worst {
    over((profile, windows, good), "halved", |limit, seed| halved(profile, limit, seed), figure_of)
}

fn block(profile: Profile, windows: Windows, figure_of: fn(&Blocked) -> f64) -> Worst {
    let run = |limit, seed| blocked(profile, limit, seed, RetryAfterPolicy::Exact);
    over((profile, windows, Good::AtMost), "blocked", run, figure_of)
}

fn block_unsaid(profile: Profile, windows: Windows, figure_of: fn(&Blocked) -> f64) -> Worst {
    let run = |limit, seed| blocked(profile, limit, seed, RetryAfterPolicy::None);
    over((profile, windows, Good::AtMost), "blocked, unsaid", run, figure_of)
}

fn burn(profile: Profile, windows: Windows, good: Good, figure_of: fn(&Burned) -> f64) -> Worst {
    over((profile, windows, good), "burned", |limit, seed| burned(profile, limit, seed), figure_of)
}

fn half_fails(profile: Profile, windows: Windows, good: Good, figure_of: fn(&BrownOut) -> f64) -> Worst {
    over((profile, windows, good), "brown-out", |limit, seed| brown_out(profile, limit, seed), figure_of)
}

pub(crate) fn gates() -> Vec<Gate> {
    let mut gates = cuts();
    gates.extend(blocks());
    gates.extend(others());
    gates
}

fn cuts() -> Vec<Gate> {
    use Good::{AtLeast, AtMost};
    use Windows::{Fast, Long, Usual};
    let gate = |name, target, bound, good, unit, judge| Gate { name, target, bound, good, unit, judge };
    vec![
        gate("G6 the limit halves for 20 min: 429s", "5", 5.0, AtMost, "", |profile| {
            cut(profile, Usual, AtMost, |it| it.refused)
        }),
        gate("G6 part of the reduced rate meanwhile", "0.65", 0.65, AtLeast, "", |profile| {
            cut(profile, Usual, AtLeast, |it| it.during)
        }),
        gate("G6 90 % of the rate back after", "5 min", 5.0, AtMost, " min", |profile| {
            cut(profile, Usual, AtMost, |it| it.back)
        }),
        gate("windows of 5 min to 1 h, halved for 20 W: 429s", "–", f64::INFINITY, AtMost, "", |profile| {
            cut(profile, Long, AtMost, |it| it.refused)
        }),
        gate("the same, part of the reduced rate", "–", 0.0, AtLeast, "", |profile| {
            cut(profile, Long, AtLeast, |it| it.during)
        }),
        gate("14 a second, halved for 20 min: 429s", "–", f64::INFINITY, AtMost, "", |profile| {
            cut(profile, Fast, AtMost, |it| it.refused)
        }),
        gate("the same, part of the reduced rate", "–", 0.0, AtLeast, "", |profile| {
            cut(profile, Fast, AtLeast, |it| it.during)
        }),
    ]
}

fn blocks() -> Vec<Gate> {
    use Good::AtMost;
    use Windows::{Second, Usual};
    let gate = |name, target, bound, good, unit, judge| Gate { name, target, bound, good, unit, judge };
    vec![
        gate("G7 a hard block for 10 min, with Retry-After: 429s", "12", 12.0, AtMost, "", |profile| {
            block(profile, Usual, |it| it.refused)
        }),
        gate("G7 first success after it, with Retry-After", "40 s", 40.0, AtMost, " s", |profile| {
            block(profile, Usual, |it| it.first)
        }),
        gate("G7 without Retry-After: 429s", "8", 8.0, AtMost, "", |profile| {
            block_unsaid(profile, Usual, |it| it.refused)
        }),
        gate("G7 first success after it, without", "151 s", 151.0, AtMost, " s", |profile| {
            block_unsaid(profile, Usual, |it| it.first)
        }),
        gate("1 and 14 a second, blocked, with Retry-After: 429s", "–", f64::INFINITY, AtMost, "", |profile| {
            block(profile, Second, |it| it.refused)
        }),
    ]
}

fn others() -> Vec<Gate> {
    use Good::{AtLeast, AtMost};
    use Windows::{Second, Usual};
    let gate = |name, target, bound, good, unit, judge| Gate { name, target, bound, good, unit, judge };
    vec![
        gate("G8 a window is spent by another client: 429s", "2", 2.0, AtMost, "", |profile| {
            burn(profile, Usual, AtMost, |it| it.refused)
        }),
        gate("G8 part of N/W over the next 30 min", "0.83", 0.83, AtLeast, "", |profile| {
            burn(profile, Usual, AtLeast, |it| it.after)
        }),
        gate("1 and 14 a second, spent: 429s", "–", f64::INFINITY, AtMost, "", |profile| {
            burn(profile, Second, AtMost, |it| it.refused)
        }),
        gate("G11 a brown-out of half the answers: 429s", "0", 0.0, AtMost, "", |profile| {
            half_fails(profile, Usual, AtMost, |it| it.refused)
        }),
        gate("G11 rate after it, rate before = 1", "0.98", 0.98, AtLeast, "", |profile| {
            half_fails(profile, Usual, AtLeast, |it| it.after)
        }),
        gate("the same, 1 and 14 a second", "–", 0.0, AtLeast, "", |profile| {
            half_fails(profile, Second, AtLeast, |it| it.after)
        }),
    ]
}
