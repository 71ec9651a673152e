//! What waits in line in a copy.
//!
//! A lane of the copy holds a few hundred operations, and the rest follows as they leave. The campaign is a pool:
//! each mailbox keeps candidates of it in its lane, as many as could still be its own, and one counts when it is
//! sent. So whoever has room takes the next, and no mailbox sits on what another could have sent.

use std::sync::Arc;

use crate::engine::cost::Cost;
use crate::engine::lane::Lane;

/// Operations of one line that stand in the copy's lanes at a time; the rest follows as they leave.
pub(super) const STANDING: u64 = 256;

/// Whether an operation belongs to the campaign that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Campaign,
    Other,
}

/// Operations of one lane and tenant, in order: those that waited already, then the campaign's.
pub(super) struct Feed {
    pub(super) lane: Lane,
    pub(super) tenant: Option<Arc<str>>,
    /// How many of the others are still to come, and what each takes.
    others: (u64, Cost),
    /// What each email of the campaign takes, if it comes from this line.
    campaign: Option<Cost>,
    /// How many stand in the lane.
    standing: u64,
    /// How many of these are the campaign's.
    candidates: u64,
}

/// An operation that a feed put in.
pub(super) struct Fed {
    pub(super) member: usize,
    pub(super) place: usize,
    pub(super) whose: Whose,
    /// Whether it has neither been sent nor ended.
    pub(super) stands: bool,
}

impl Feed {
    pub(super) const fn new(lane: Lane, tenant: Option<Arc<str>>, others: (u64, Cost)) -> Self {
        Self { lane, tenant, others, campaign: None, standing: 0, candidates: 0 }
    }

    pub(super) const fn put_campaign(&mut self, cost: Cost) {
        self.campaign = Some(cost);
    }

    /// Whether it has run down to half.
    pub(super) const fn is_low(&self) -> bool {
        self.standing <= STANDING / 2
    }

    /// The next to stand in the lane, while `unsent` of the campaign are to be sent.
    pub(super) fn next(&mut self, unsent: u64) -> Option<(Cost, Whose)> {
        if self.standing >= STANDING {
            return None;
        }
        let (others, cost) = &mut self.others;
        let next = if *others > 0 {
            *others -= 1;
            (*cost, Whose::Other)
        } else {
            let cost = self.campaign.filter(|_| self.candidates < unsent)?;
            self.candidates += 1;
            (cost, Whose::Campaign)
        };
        self.standing += 1;
        Some(next)
    }

    /// One of its own stands no longer.
    pub(super) const fn leaves(&mut self, whose: Whose) {
        self.standing = self.standing.saturating_sub(1);
        if matches!(whose, Whose::Campaign) {
            self.candidates = self.candidates.saturating_sub(1);
        }
    }
}
