//! Everything that the demo found, in one value: the closing table and `--json` are two views of it.

use mailweir::engine::Limit;
use mailweir::upstream::{UpstreamLimit, check};
use serde::Serialize;

use super::drive::Ending;
use super::invariants::{self, Invariant};
use super::measure::{Measures, measure};
use super::plan::Plan;
use super::stage::Played;

/// What the demo found.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    pub(crate) seed: u64,
    /// Where the scheduler kept its operations.
    pub(crate) store: &'static str,
    pub(crate) ending: &'static str,
    pub(crate) throttle: ThrottleFacts,
    pub(crate) mailboxes: Vec<MailboxFacts>,
    pub(crate) all: Measures,
    pub(crate) windows: Vec<WindowFacts>,
    pub(crate) invariants: Vec<Invariant>,
}

/// The throttle that was injected, in milliseconds from the start.
#[derive(Debug, Serialize)]
pub(crate) struct ThrottleFacts {
    pub(crate) mailbox: &'static str,
    pub(crate) from_ms: u128,
    pub(crate) until_ms: u128,
}

/// One mailbox.
#[derive(Debug, Serialize)]
pub(crate) struct MailboxFacts {
    pub(crate) mailbox: &'static str,
    #[serde(flatten)]
    pub(crate) measures: Measures,
}

/// One limit of the upstream, and the most that any of its windows held, refused requests included.
#[derive(Debug, Serialize)]
pub(crate) struct WindowFacts {
    pub(crate) scope: String,
    pub(crate) limit: String,
    pub(crate) amount: u64,
    pub(crate) most: u64,
}

impl Facts {
    pub(crate) fn new(plan: &Plan, played: &Played) -> Self {
        let (each, all) = measure(plan, played);
        let mailboxes = plan.mailboxes.into_iter().zip(each);
        let throttle = ThrottleFacts {
            mailbox: plan.mailboxes[plan.throttle.mailbox],
            from_ms: plan.throttle.from.as_millis(),
            until_ms: plan.throttle.until.as_millis(),
        };
        let mut facts = Self {
            seed: plan.seed,
            store: played.store,
            ending: match played.run.ending {
                Ending::Settled => "settled",
                Ending::Late => "late",
                Ending::Interrupted => "interrupted",
            },
            throttle,
            mailboxes: mailboxes.map(|(mailbox, measures)| MailboxFacts { mailbox, measures }).collect(),
            all,
            windows: windows(played),
            invariants: Vec::new(),
        };
        facts.invariants = invariants::judge(&facts, played);
        facts
    }

    /// As one JSON document.
    pub(crate) fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("numbers, names and lists always have a JSON form");
        format!("{json}\n")
    }
}

fn windows(played: &Played) -> Vec<WindowFacts> {
    let fact = |limit: &UpstreamLimit| WindowFacts {
        scope: limit.scope.to_string(),
        limit: shown(limit),
        amount: limit.amount,
        most: check::max_in_window(&played.log, limit),
    };
    played.limits.iter().map(fact).collect()
}

/// As the configuration writes it.
fn shown(limit: &UpstreamLimit) -> String {
    Limit::new(limit.amount, limit.unit, limit.window).map_or_else(|error| error.to_string(), |limit| limit.to_string())
}
