//! Attempts that were made while the store was out of reach: their rows are written when it is back, before anything
//! that speaks of them.

use std::sync::Arc;

use crate::actor::journal::guard;
use crate::actor::mailbox::MailboxActor;
use crate::actor::reply::Reply;
use crate::engine::mailbox::{ClaimFailure, Input};
use crate::engine::{OperationKey, Timestamp};
use crate::store::{Claim, StoreError};

/// Claims that are not written.
#[derive(Debug, Default)]
pub(in crate::actor) struct LateClaims {
    claims: Vec<Claim>,
    busy: bool,
    retry_at: Option<Timestamp>,
}

impl LateClaims {
    pub(in crate::actor) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    pub(in crate::actor) fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at
    }

    /// The number of an operation's attempt among them.
    pub(super) fn attempt(&self, key: OperationKey) -> Option<u32> {
        self.claims.iter().rev().find(|claim| claim.key == key).map(|claim| claim.attempt)
    }
}

impl MailboxActor {
    /// Whether this claim cannot be written now: then it is made without its row, if what to send is at hand.
    pub(in crate::actor) fn claim_late(&mut self, claim: Claim) -> bool {
        if !self.world.fleet.as_ref().is_some_and(|fleet| fleet.is_cut_off()) {
            return false;
        }
        let key = claim.key;
        if self.desk.email(key).is_some() {
            self.own.late.claims.push(claim);
            self.step(Input::Claimed { key });
        } else {
            self.step(Input::ClaimFailed { key, failure: ClaimFailure::Transient });
        }
        true
    }

    /// Writes them, if there are any; until they are written nothing else is.
    pub(in crate::actor) fn write_late(&mut self) {
        let late = &mut self.own.late;
        if late.busy || late.retry_at.is_some_and(|at| at > self.now) {
            return;
        }
        (late.busy, late.retry_at) = (true, None);
        let claims = late.claims.clone();
        let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
        self.world.host.spawn(async move {
            let count = claims.len();
            // Without a fence: they were made, whoever owns the mailbox now.
            let written = guard(|| world.store.claim(claims)).await.map(|_| count);
            world.reply(&seat, Reply::Late(written));
        });
    }

    pub(in crate::actor) fn on_late(&mut self, written: Result<usize, StoreError>) {
        let late = &mut self.own.late;
        late.busy = false;
        match written {
            Ok(count) => drop(late.claims.drain(..count)),
            Err(_) => late.retry_at = Some(self.now.after(self.policy.fleet.retry_after)),
        }
    }
}
