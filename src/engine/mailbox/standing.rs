//! A wait that still stands.
//!
//! Most of what happens in a mailbox changes nothing about what binds its next send: an attempt row is written, an
//! email joins behind a thousand others, an attempt ends and its charge goes on counting. So the pump keeps its last
//! answer, with the instant until which asking again would come to the same, and forgets it at every input but those
//! that say here that they disturb nothing. Debug builds ask again all the same, and compare.

use super::Mailbox;
use super::entry::Step;
use super::pump::Pick;
use crate::engine::budget::Wait;
use crate::engine::constraint::Wall;
use crate::engine::cost::Cost;
use crate::engine::lane::Lane;
use crate::engine::operation::OperationKey;
use crate::engine::time::Timestamp;

/// What the pump found last: the head of this lane has to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    lane: Lane,
    pub(super) wait: Wait,
    /// Whether a lighter follower might have passed.
    bypass: Bypass,
}

/// Whether bounded bypass is open to followers of a head that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bypass {
    Open,
    Shut,
}

impl Mailbox {
    /// Whether a lighter operation may pass one that waits for this.
    pub(super) fn bypass(&self, wait: &Wait) -> Bypass {
        let weighted = matches!(wait.constraint.wall, Wall::Window { .. } | Wall::Reserve { .. });
        if weighted && self.policy.lanes.bypass_max > 0 { Bypass::Open } else { Bypass::Shut }
    }

    /// Keeps an answer of the pump.
    pub(super) fn stand(&mut self, now: Timestamp, lane: Lane, wait: Wait) {
        self.table.set_standing(None);
        if wait.stands_until <= now {
            return;
        }
        let bypass = self.bypass(&wait);
        let alike = || self.table.first_cost(lane).is_some();
        let is_alone = bypass == Bypass::Shut || self.table.queued(lane) < 2 || alike();
        // What the floor owes comes due with time alone.
        if is_alone && !self.floor.is_owed(&self.policy.lanes) {
            self.table.set_standing(Some(Standing { lane, wait, bypass }));
        }
    }

    /// Takes the last answer once more, if it still stands; whether it does.
    pub(super) fn still_waits(&mut self, now: Timestamp) -> bool {
        let Some(&Standing { lane, wait, .. }) = self.table.standing() else { return false };
        if self.stirred || now >= wait.stands_until {
            self.table.set_standing(None);
            return false;
        }
        self.pump_at = self.wakes_at(now, &wait);
        if lane == Lane::Foreground {
            self.budget.mark_contended(now, wait.windows);
            self.floor.on_foreground_backlog(now);
        }
        if cfg!(debug_assertions) {
            let again = self.pick(now);
            let same = |of: Lane, other: &Wait| {
                let same_windows = lane == Lane::Background || other.windows == wait.windows;
                of == lane && other.constraint == wait.constraint && same_windows
            };
            let is_same = matches!(&again, Pick::Wait(of, other) if same(*of, other));
            debug_assert!(is_same, "{wait:?} did not stand: {again:?}");
        }
        true
    }

    /// What has just joined its lane, or waits for an instant of its own, changes nothing about the next send.
    pub(super) fn joins_quietly(&self, key: OperationKey) -> bool {
        let (Some(standing), Some(entry)) = (self.table.standing(), self.table.get(key)) else { return false };
        match (standing.lane, entry.lane) {
            (Lane::Foreground, Lane::Background) => true,
            // What foreground asks for moves the reserve.
            (Lane::Background, Lane::Foreground) => false,
            (lane, _) => match entry.step {
                Step::Delayed { .. } => true,
                Step::Queued(link) => {
                    link.follows() && (standing.bypass == Bypass::Shut || self.table.first_cost(lane).is_some())
                }
                _ => false,
            },
        }
    }

    /// An attempt of this cost has just been accepted, and changes nothing about the next send: its charge counts on,
    /// and gives its room back later than whatever the next send waits for.
    pub(super) fn settles_quietly(&self, now: Timestamp, cost: &Cost) -> bool {
        let Some(standing) = self.table.standing() else { return false };
        self.budget.counts_on(now, cost, standing.wait.full_until)
    }
}
