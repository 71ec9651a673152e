//! What several owners at once leave to each of them.

use super::admit::{ReadyAt, at_most, exactly, instant};
use super::{Budget, Rules};
use crate::engine::constraint::Wall;
use crate::engine::cost::Cost;
use crate::engine::invariants::lanes;
use crate::engine::lane::Lane;
use crate::engine::tenure::{Tenure, TenureRules};
use crate::engine::time::Timestamp;

impl<'a> Rules<'a> {
    fn tenure(self) -> Option<TenureRules<'a>> {
        Some(TenureRules { fleet: self.fleet?, guard: self.guard })
    }
}

impl Budget {
    /// Puts a tenure in force, and returns the one before.
    pub(crate) fn set_tenure(&mut self, tenure: Tenure) -> Option<Tenure> {
        self.tenure.replace(Box::new(tenure)).map(|before| *before)
    }

    /// Whether some of what waits may be left to another owner.
    pub(crate) fn withholds(&self, now: Timestamp, rules: Rules<'_>) -> bool {
        self.tenure.as_ref().zip(rules.tenure()).is_some_and(|(tenure, by)| tenure.withholds(now, by))
    }

    /// Until when nothing at all may leave for want of a lease.
    pub(crate) fn unowned_until(&self, now: Timestamp, lane: Lane, rules: Rules<'_>) -> Option<Timestamp> {
        self.tenure.as_ref()?.stopped_until(now, lane, &self.limits, rules.tenure()?)
    }

    /// When to look again by itself.
    pub(crate) fn tenure_deadline(&self, now: Timestamp, rules: Rules<'_>) -> Option<Timestamp> {
        self.tenure.as_ref()?.next_change(now, &self.limits, rules.tenure()?)
    }

    /// Until when an operation is left to another owner.
    pub(crate) fn withheld_until(
        &self,
        now: Timestamp,
        (key, lane, submitted_at): (crate::engine::OperationKey, Lane, Timestamp),
        rules: Rules<'_>,
    ) -> Option<Timestamp> {
        self.tenure.as_ref()?.withheld_until(now, key, lane, submitted_at, rules.tenure()?)
    }

    /// The same budget as if the lease went on for ever.
    pub(crate) fn untenured(&self) -> Self {
        Self { tenure: None, ..self.clone() }
    }

    pub(crate) fn is_tenured(&self) -> bool {
        self.tenure.is_some()
    }

    /// What keeps a send from going because this owner may use a part only.
    pub(super) fn parts(
        &self,
        tenure: &Tenure,
        now: Timestamp,
        (lane, cost): (Lane, &Cost),
        rules: Rules<'_>,
        put: &mut impl FnMut(Wall, ReadyAt),
    ) {
        let Some(by) = rules.tenure() else { return };
        if let Some(until) = tenure.stopped_until(now, lane, &self.limits, by) {
            return put(Wall::Ownership, exactly(until));
        }
        let mut in_part = false;
        for (index, limit) in self.limits.iter().enumerate() {
            let Some(cap) = tenure.cap(now, lane, limit, by) else { continue };
            in_part = true;
            let units = cost.of(limit.unit());
            let room = self.room(index, now, (lane, cap.amount), rules);
            let earliest = match self.rows.get(index) {
                _ if units == 0 => None,
                Some(row) => instant(row.ledger.earliest(now, units, room)),
                None => (units > room).then_some(exactly(Timestamp::NEVER)),
            };
            if let Some((ready_at, certainty)) = earliest {
                let seconds = u32::try_from(limit.window().as_secs()).unwrap_or(u32::MAX);
                let at = if cap.until < ready_at { exactly(cap.until) } else { (ready_at, certainty) };
                put(Wall::Part { unit: limit.unit(), seconds }, at);
            }
        }
        let connections = self.concurrency.limit().map_or(u32::MAX, |limit| (limit / 2).max(1));
        if in_part && self.in_flight >= connections {
            put(Wall::InFlight, at_most(now.after(rules.guard.request_deadline_max)));
        }
    }

    /// What a lane may use of a capped window: background leaves the reserve of the part.
    fn room(&self, index: usize, now: Timestamp, (lane, amount): (Lane, u64), rules: Rules<'_>) -> u64 {
        match (lane, self.rows.get(index)) {
            (Lane::Background, Some(row)) => {
                amount.saturating_sub(row.share.reserve(now, amount, &self.limits[index], rules.lanes))
            }
            _ => amount,
        }
    }

    pub(super) fn is_capped(&self, tenure: &Tenure, now: Timestamp, lane: Lane, rules: Rules<'_>) -> bool {
        rules.tenure().is_some_and(|by| self.limits.iter().any(|limit| tenure.cap(now, lane, limit, by).is_some()))
    }

    /// L10, right after a grant of a debug build.
    pub(crate) fn assert_part(&self, now: Timestamp, lane: Lane, cost: &Cost, rules: Rules<'_>) {
        let (Some(tenure), Some(by)) = (&self.tenure, rules.tenure()) else { return };
        for row in &self.rows {
            let limit = row.ledger.limit();
            let cap = tenure.cap(now, lane, &limit, by).filter(|_| cost.of(limit.unit()) > 0);
            if let Some(cap) = cap
                && let Err(violation) = lanes::part_is_kept(cap.amount, row.ledger.used(now))
            {
                debug_assert!(false, "{violation}");
            }
        }
    }
}
