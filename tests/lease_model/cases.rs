//! Which models are checked, and under what name.

use crate::chunks::{ChunkRule, Chunks};
use crate::rules::{Rule, Rules};

pub(crate) type LeaseCase = (String, Rules);
pub(crate) type ChunkCase = (String, Chunks);

fn sized(limit: u8, window: u8, latency: u8, processes: u8) -> Rules {
    Rules::new(limit, window, latency, processes)
}

fn named(rules: Rules, more: &str) -> LeaseCase {
    let Rules { limit, window, latency, processes, failovers, ttl, grace, .. } = &rules;
    let lease = if (*ttl, *grace) == (2, 1) { String::new() } else { format!(", TTL {ttl}, G {grace}") };
    let failovers = if *failovers == 0 { String::new() } else { format!(", failovers {failovers}") };
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    (format!("N {limit}, W {window}, D {latency}, P {processes}{lease}{failovers}{more}"), rules)
}

/// Without failovers, sizes that take seconds.
pub(crate) fn whole() -> Vec<LeaseCase> {
    let mut cases: Vec<_> = [(1, 1, 1, 2), (2, 1, 2, 3), (2, 2, 2, 3), (2, 3, 2, 3), (3, 2, 2, 2), (4, 2, 1, 3)]
        .into_iter()
        .map(|(n, w, d, p)| named(sized(n, w, d, p), ""))
        .collect();
    cases.extend([
        named(sized(2, 2, 1, 3).lease(2, 3), ""),
        named(sized(2, 2, 2, 2).lease(3, 2), ""),
        named(sized(2, 2, 2, 2).fixed(), "completions not reported"),
        named(sized(4, 2, 1, 2).fixed(), "completions not reported"),
        named(sized(2, 2, 2, 3).slow_answers(), "answers at any time"),
        named(sized(2, 2, 1, 2).lease(4, 1).retrying(), "RESERVE repeated by id"),
        named(sized(2, 2, 1, 2).forgetting(4), "lease record forgotten after G + D + W"),
    ]);
    cases
}

/// With failovers.
pub(crate) fn whole_with_failovers() -> Vec<LeaseCase> {
    vec![
        named(sized(2, 2, 1, 2).failovers(1), ""),
        named(sized(2, 2, 1, 3).failovers(1), ""),
        named(sized(2, 2, 1, 2).failovers(2).no_flush(), ""),
        named(sized(2, 1, 1, 3).failovers(2), ""),
        named(sized(2, 2, 1, 2).failovers(1).fixed(), "completions not reported"),
        named(sized(2, 2, 1, 2).failovers(1).no_flush().split(1), "the old master serves one tick longer"),
    ]
}

/// Each rule left out, at the smallest size that shows it.
pub(crate) fn one_rule_less() -> Vec<LeaseCase> {
    let small = || sized(2, 2, 1, 2);
    let less = |rules: Rules, rule: Rule, what: &str| named(rules.without(rule), what);
    vec![
        less(small(), Rule::KeptForLatency, "entries expire at W"),
        less(small().fixed(), Rule::KeptForLatency, "entries expire at W, completions not reported"),
        less(small(), Rule::SuccessorGrace, "no grace"),
        less(small(), Rule::HalfWhenCutOff, "the cut-off owner keeps the full rate"),
        less(small(), Rule::NothingWithoutLease, "fail open"),
        less(small(), Rule::NothingUnrecordedInGrace, "unrecorded sends during one's own grace"),
        less(small().failovers(1).no_flush(), Rule::Quarantine, "no quarantine"),
        less(small().failovers(1).no_flush(), Rule::UncleanAfterFailover, "quarantine only"),
        less(small().failovers(1).no_flush(), Rule::LostAcquireIsUnclean, "lost ACQUIRE taken for a clean one"),
        less(
            small().failovers(1).no_flush().split(2),
            Rule::QuarantineOutlastsSplit,
            "the old master serves two ticks longer, a quarantine of W + D",
        ),
        less(
            small().failovers(1).no_flush().split(1),
            Rule::NeverBack,
            "the old master serves one tick longer, processes go back to it",
        ),
        less(sized(2, 2, 2, 2), Rule::GraceOutlastsLatency, "grace of G + W, as the text had it"),
        less(small(), Rule::MergeBeforeReserve, "RESERVE before unrecorded sends are merged"),
        less(small(), Rule::MergeOnRelease, "release without the own ledger"),
        less(small(), Rule::GraceSurvivesRelease, "a clean release ends a running grace"),
        less(small(), Rule::LedgerTakenOver, "the successor does not count what it found"),
        less(small().forgetting(1), Rule::LeaseRemembered, "the record of a lease ends with it"),
        less(small().lease(4, 1).retrying(), Rule::FirstDeadline, "a repeated RESERVE with a new deadline"),
    ]
}

/// Sizes that take minutes.
pub(crate) fn larger() -> Vec<LeaseCase> {
    vec![
        named(sized(4, 3, 1, 3), ""),
        named(sized(3, 3, 2, 3), ""),
        named(sized(2, 3, 1, 3).failovers(1), ""),
        named(sized(2, 2, 1, 3).failovers(2), ""),
        named(sized(3, 2, 1, 2).failovers(1), ""),
        named(sized(4, 2, 1, 2).failovers(1), ""),
    ]
}

fn pool(limit: u8, size: u8, processes: u8) -> Chunks {
    Chunks { limit, window: 2, latency: 1, size, ttl: 2, processes, failovers: 0, without: None }
}

fn pool_named(chunks: Chunks, more: &str) -> ChunkCase {
    let Chunks { limit, window, latency, size, ttl, processes, failovers, .. } = &chunks;
    let failovers = if *failovers == 0 { String::new() } else { format!(", failovers {failovers}") };
    let name = format!("chunks of {size}, N {limit}, W {window}, D {latency}, TTL {ttl}, P {processes}{failovers}");
    (format!("{name}{}{more}", if more.is_empty() { "" } else { ", " }), chunks)
}

pub(crate) fn chunks() -> Vec<ChunkCase> {
    vec![
        pool_named(pool(2, 1, 3), ""),
        pool_named(pool(4, 2, 3), ""),
        pool_named(Chunks { failovers: 1, ..pool(2, 1, 2) }, ""),
        pool_named(Chunks { failovers: 2, ..pool(2, 2, 3) }, ""),
    ]
}

pub(crate) fn chunks_with_one_rule_less() -> Vec<ChunkCase> {
    let less = |rule: ChunkRule, failovers: u8| Chunks { failovers, without: Some(rule), ..pool(2, 1, 2) };
    vec![
        pool_named(less(ChunkRule::KeptForChunk, 0), "kept W + D after the chunk was taken"),
        pool_named(less(ChunkRule::SilenceIsSpent, 0), "unspent tokens of an ended chunk return"),
        pool_named(less(ChunkRule::ChunkEnds, 0), "an ended chunk is spent"),
        pool_named(less(ChunkRule::QuarantineForChunk, 1), "quarantine of W + D"),
    ]
}
