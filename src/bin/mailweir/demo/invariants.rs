//! What has to hold in every run, judged by the facts; the exit code follows.
//!
//! The bounds leave room for a slow machine that other programs share: they catch a scheduler that is wrong, not one
//! that is late by a few milliseconds.

use serde::Serialize;

use super::drive::Ending;
use super::facts::Facts;
use super::stage::Played;

/// Most 429s while the upstream refuses a mailbox with Retry-After: the requests in flight when it began (at most the
/// concurrency of 4, one episode), and one probe.
const REFUSED_IN_THROTTLE_MAX: usize = 5;
/// Longest foreground p99 away from the throttle, in milliseconds: less than the shortest window. On an idle machine it
/// is some 30 ms, with a dozen demos at once on two cores more than a second; behind the campaign it would be its whole
/// length.
const FOREGROUND_P99_MS_MAX: u128 = 2_000;

/// One of them.
#[derive(Debug, Serialize)]
pub(crate) struct Invariant {
    pub(crate) name: &'static str,
    pub(crate) kept: bool,
    /// What was found.
    pub(crate) found: String,
}

/// Judges a run.
pub(crate) fn judge(facts: &Facts, played: &Played) -> Vec<Invariant> {
    let all = &facts.all;
    let over = facts.windows.iter().filter(|window| window.most > window.amount);
    let over: Vec<String> = over.map(|window| format!("{} in {}", window.most, window.limit)).collect();
    let throttled = facts.mailboxes.iter().find(|facts_| facts_.mailbox == facts.throttle.mailbox);
    let once = throttled.is_some_and(|throttled| throttled.measures.cooldowns == 1) && all.cooldowns == 1;
    let p99 = all.foreground_p99.map(|p99| p99.as_millis());
    let mut invariants = vec![
        invariant("no 429 at our own pace", all.refused_at_own_pace == 0, all.refused_at_own_pace),
        invariant("no window above its limit", over.is_empty(), list(&over)),
        invariant(
            "at most 5 429s in the throttle",
            all.refused_in_throttle <= REFUSED_IN_THROTTLE_MAX,
            all.refused_in_throttle,
        ),
        invariant("nothing sent twice", all.duplicates == 0, all.duplicates),
        invariant("nothing lost", all.lost == 0, all.lost),
        invariant(
            "people wait 2 s at most (p99)",
            p99.is_none_or(|p99| p99 <= FOREGROUND_P99_MS_MAX),
            p99.map_or("nobody came yet".to_owned(), |p99| format!("{p99} ms")),
        ),
    ];
    if played.run.ending != Ending::Interrupted {
        let missed = played.cooldowns.missed;
        let found = format!("{}{}", all.cooldowns, if missed > 0 { " or more" } else { "" });
        invariants.push(invariant("one throttle, one cooldown", once && missed == 0, found));
        let finished = all.unfinished == 0 && all.submitted == played.run.told.len();
        let found = format!("{} of {} accepted", all.accepted, played.run.told.len());
        invariants.push(invariant("everything sent in time", finished, found));
    }
    invariants
}

fn invariant(name: &'static str, kept: bool, found: impl ToString) -> Invariant {
    Invariant { name, kept, found: found.to_string() }
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}
