//! A budget with nothing under way, in few bytes: what counts, and nothing that its policy tells.

use super::{Budget, Row, Rules, Shut, Suspended};
use crate::engine::breaker::Tally;
use crate::engine::lanes::{Share, Steady};
use crate::engine::ledger;
use crate::engine::limit::Limit;
use crate::engine::policy::MailboxPolicy;
use crate::engine::scope::Scope;
use crate::engine::time::Timestamp;

/// What an idle scope has used and learned.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    known_since: Timestamp,
    tally: Tally,
    /// One per limit of the policy, or none when nothing counts.
    rows: Box<[PackedRow]>,
}

#[derive(Clone, Debug)]
struct PackedRow {
    ledger: ledger::Packed,
    started_at: Timestamp,
    /// Unless it is as a new one.
    share: Option<Box<Share>>,
}

impl Packed {
    /// Whether nothing was ever charged or seen.
    pub(crate) fn is_new(&self) -> bool {
        self.rows.is_empty() && self.known_since == Timestamp::NEVER && self.tally == Tally::default()
    }

    /// Whether no charge counts any more.
    pub(crate) fn is_blank(&self, now: Timestamp) -> bool {
        self.rows.iter().all(|row| row.ledger.is_over(now))
    }

    /// The budget again. `policy` is the one it was packed under.
    pub(crate) fn unpacked(self, scope: Scope, policy: &MailboxPolicy) -> Budget {
        let (mut budget, rules) = (Budget::new(scope, &policy.scope), Rules::from(policy));
        let row = |(packed, limit): (PackedRow, Limit)| Row {
            terms: rules.terms(&limit, limit.amount()),
            steady: Steady::UNKNOWN,
            ledger: packed.ledger.unpacked(limit, &policy.guard),
            share: packed.share.map_or_else(|| Share::since(packed.started_at), |share| *share),
        };
        budget.rows = self.rows.into_iter().zip(policy.scope.limits.iter().copied()).map(row).collect();
        budget.known_since = self.known_since;
        budget.breaker.set_tally(self.tally);
        budget
    }
}

impl Budget {
    /// What is worth keeping of it, if nothing is under way and it is in no trouble. `policy` is the one in force.
    pub(crate) fn packed(&self, now: Timestamp, policy: &MailboxPolicy) -> Option<Packed> {
        // Each field by name, so that one that is added is thought of here.
        let Self {
            limits,
            rows,
            concurrency,
            breaker,
            hold_until,
            suspended,
            connect_at,
            wave,
            was_shut,
            known_since,
            remembered,
            in_flight,
            tenure,
        } = self;
        let is_plain = **limits == *policy.scope.limits
            && concurrency.is_as_new(policy.scope.concurrency)
            && (*hold_until).max(*connect_at) <= now
            && (*suspended, *was_shut, *in_flight) == (Suspended::No, Shut::No, 0)
            && wave.is_none()
            && remembered.is_none()
            // One that others share is kept whole: what it may do is not its policy's to tell.
            && tenure.is_none();
        let tally = breaker.quiet_tally().filter(|_| is_plain)?;
        let row = |row: &Row| {
            let started_at = row.share.started_at();
            let share = (row.share != Share::since(started_at)).then(|| Box::new(row.share));
            Some(PackedRow { ledger: row.ledger.packed(&policy.guard)?, started_at, share })
        };
        let rows = rows.iter().map(row).collect::<Option<_>>()?;
        Some(Packed { known_since: *known_since, tally, rows })
    }
}
