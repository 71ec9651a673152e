//! G9 and G10: several schedulers over one store, through the real actors under paused time.
//!
//! The store is the hub in memory that `tests/fleet` uses, with its faults at the flick of a switch; over real servers
//! `tests/fleet_redis` runs the same. What tenants or the application are limited to is divided by
//! `fleet.processes_max`, for good, so G10 is about mailboxes.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/fleet/support.rs"]
mod support;

use std::time::Duration;

use mailweir::engine::{Lane, Limit};
use mailweir::upstream::Profile;

use crate::campaigns::{connections, figure, model};
use crate::known::once;
use crate::trouble::{Windows, in_a_span, pairs, span};
use crate::worst::{Gate, Good, Worst};
use support::{Bench, MAILBOX, config_of, pass, paused, seconds};

/// Spans that the store is away.
const AWAY: u32 = 10;
/// Spans over which it is judged whether all is as before. Emails may leave in bursts a window apart, so few would do
/// by luck.
const AFTER: u32 = 20;
/// Processes that are compared with one.
const PROCESSES: [usize; 3] = [2, 4, 16];

async fn start(members: usize, profile: Profile, limit: Limit) -> Bench {
    let config = config_of(limit, connections(&limit));
    Bench::start_over(members, &config, model(profile, &[limit], 1)).await
}

fn emails(limit: Limit, spans: u32) -> usize {
    (in_a_span(limit) * f64::from(spans)).ceil() as usize
}

#[derive(Clone, Copy)]
struct Away {
    refused: f64,
    during: f64,
    after: f64,
}

/// Two processes whose store goes away for ten minutes and comes back.
fn away(profile: Profile, limit: Limit) -> Away {
    once((profile, "away", limit.to_string(), 1), || goes_away(profile, limit))
}

fn goes_away(profile: Profile, limit: Limit) -> Away {
    paused(|| async {
        let bench = start(2, profile, limit).await;
        bench.fill(MAILBOX, "one", emails(limit, 3 + AWAY / 2 + AFTER + 3), Lane::Foreground).await;
        pass(span(limit) * 3).await;
        bench.members.iter().for_each(|member| member.link.set_link(mailweir::store::hub::Link::Down));
        let gone = bench.now();
        pass(span(limit) * AWAY).await;
        let during = bench.taken(gone, bench.now());
        bench.members.iter().for_each(|member| member.link.set_link(mailweir::store::hub::Link::Up));
        pass(seconds(20)).await;
        let back = bench.now();
        pass(span(limit) * AFTER).await;
        let part = |taken: usize, spans: u32| figure(taken as u64) / (in_a_span(limit) * f64::from(spans));
        let (during, after) = (part(during, AWAY), part(bench.taken(back, bench.now()), AFTER));
        Away { refused: figure(bench.refused() as u64), during, after }
    })
}

#[derive(Clone, Copy)]
struct Shared {
    refused: f64,
    twice: f64,
    /// Emails taken in nine spans.
    taken: f64,
}

/// So many processes, to all of which one mailbox's emails are handed.
fn shared(members: usize, profile: Profile, limit: Limit) -> Shared {
    once((profile, "shared", limit.to_string(), members as u64), || in_common(members, profile, limit))
}

fn in_common(members: usize, profile: Profile, limit: Limit) -> Shared {
    paused(|| async {
        let bench = start(members, profile, limit).await;
        bench.fill(MAILBOX, "bulk", emails(limit, 13), Lane::Background).await;
        pass(span(limit) * 2).await;
        let from = bench.now();
        pass(span(limit) * 9 + Duration::from_secs(1)).await;
        let taken = figure(bench.taken(from, from.after(span(limit) * 9)) as u64);
        let (refused, twice) = (bench.refused() as u64, bench.twice().len() as u64);
        Shared { refused: figure(refused), twice: figure(twice), taken }
    })
}

fn over(good: Good, figure_of: impl Fn(Limit) -> Vec<f64>) -> Worst {
    let mut worst = Worst::new(good);
    for limit in pairs(Windows::Usual) {
        figure_of(limit).into_iter().for_each(|value| worst.see(value, &limit));
    }
    worst
}

/// What each number of processes comes to, beside one process.
fn each(profile: Profile, limit: Limit, figure_of: impl Fn(Shared, Shared) -> f64) -> Vec<f64> {
    let alone = shared(1, profile, limit);
    PROCESSES.iter().map(|members| figure_of(shared(*members, profile, limit), alone)).collect()
}

pub(crate) fn gates() -> Vec<Gate> {
    use Good::{AtLeast, AtMost};
    let gate = |name, target, bound, good, unit, judge| Gate { name, target, bound, good, unit, judge };
    vec![
        gate("G9 the store is gone for 10 min: 429s", "0", 0.0, AtMost, "", |profile| {
            over(AtMost, |limit| vec![away(profile, limit).refused])
        }),
        gate("G9 part of N/W meanwhile", "0.37", 0.37, AtLeast, "", |profile| {
            over(AtLeast, |limit| vec![away(profile, limit).during])
        }),
        gate("G9 part of N/W from 20 s after it on", "0.93", 0.93, AtLeast, "", |profile| {
            over(AtLeast, |limit| vec![away(profile, limit).after])
        }),
        gate("G10 2, 4 and 16 processes: rate beside that of one, apart by", "2 %", 2.0, AtMost, " %", |profile| {
            over(AtMost, |limit| each(profile, limit, |it, alone| 100.0 * (it.taken / alone.taken - 1.0).abs()))
        }),
        gate("G10 429s, and emails that arrived twice", "0", 0.0, AtMost, "", |profile| {
            over(AtMost, |limit| each(profile, limit, |it, _| it.refused + it.twice))
        }),
    ]
}
