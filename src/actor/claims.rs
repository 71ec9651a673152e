//! Who waits at the shared scopes and who holds a reservation there, for an engine that is rebuilt.
//!
//! A reservation ends with its settlement. The one under way when its mailbox was lost is never settled: the mailbox's
//! next engine takes the attempt for unknown. It counts here as long as it could count in a window, and is forgotten
//! then.

use std::sync::Arc;

use fnv::FnvHashMap;

use crate::engine::mailbox::PastAttempt;
use crate::engine::operation::OperationKind;
use crate::engine::shared::Input;
use crate::engine::{Leaves, OperationKey, Timestamp};

#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: FnvHashMap<OperationKey, Claim>,
}

#[derive(Debug)]
struct Claim {
    reserve: Input,
    granted: Option<Timestamp>,
    /// Its mailbox was lost meanwhile.
    orphaned: bool,
}

impl Claims {
    /// Keeps book of one input. `horizon` says before which instant a reservation cannot count any more.
    pub(super) fn note(&mut self, input: &Input, horizon: impl FnOnce() -> Timestamp) {
        match input {
            Input::Reserve { asker, .. } => {
                let claim = Claim { reserve: input.clone(), granted: None, orphaned: false };
                self.claims.insert(asker.key, claim);
            }
            Input::Return { asker } | Input::Settle { asker, .. } => drop(self.claims.remove(&asker.key)),
            Input::MailboxGone(gone) => {
                let of_gone =
                    |claim: &Claim| matches!(&claim.reserve, Input::Reserve { asker, .. } if asker.mailbox == *gone);
                self.claims.retain(|_, claim| claim.granted.is_some() || !of_gone(claim));
                self.claims.values_mut().filter(|claim| of_gone(claim)).for_each(|claim| claim.orphaned = true);
                if self.claims.values().any(|claim| claim.orphaned) {
                    self.forget(horizon());
                }
            }
            _ => {}
        }
    }

    /// Forgets what was granted before `horizon` to mailboxes that were lost.
    pub(super) fn forget(&mut self, horizon: Timestamp) {
        self.claims.retain(|_, claim| !claim.orphaned || claim.granted.is_some_and(|granted| granted >= horizon));
    }

    pub(super) fn grant(&mut self, key: OperationKey, now: Timestamp) {
        if let Some(claim) = self.claims.get_mut(&key) {
            claim.granted = Some(now);
        }
    }

    /// Granted reservations as attempts that began with them.
    pub(super) fn reserved(&self) -> impl Iterator<Item = (Option<Arc<str>>, PastAttempt)> {
        self.claims.iter().filter_map(|(key, claim)| {
            let Input::Reserve { lane, tenant, cost, .. } = &claim.reserve else { return None };
            let (key, lane, cost, claimed_at) = (*key, *lane, *cost, claim.granted?);
            let attempt = PastAttempt {
                key,
                lane,
                cost,
                claimed_at,
                finished_at: None,
                kind: OperationKind::Send,
                leaves: Leaves::All,
            };
            Some((tenant.clone(), attempt))
        })
    }

    /// Reservations that wait, in order of their operations.
    pub(super) fn waiting(&self) -> Vec<Input> {
        let mut waiting: Vec<_> = self.claims.iter().filter(|(_, claim)| claim.granted.is_none()).collect();
        waiting.sort_unstable_by_key(|(key, _)| **key);
        waiting.into_iter().map(|(_, claim)| claim.reserve.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::shared::{Asker, MailboxKey};
    use crate::engine::{Cost, Lane};

    fn asker(mailbox: u32, key: u64) -> Asker {
        Asker { mailbox: MailboxKey(mailbox), key: OperationKey(key) }
    }

    fn reserve(asker: Asker) -> Input {
        Input::Reserve { asker, lane: Lane::Foreground, tenant: None, cost: Cost::ONE_REQUEST }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn what_a_lost_mailbox_was_granted_counts_until_the_horizon_has_passed_it_and_not_for_ever() {
        let mut claims = Claims::default();
        let never = || -> Timestamp { panic!("nothing to forget") };
        for key in 1..=3 {
            claims.note(&reserve(asker(7, key)), never);
        }
        claims.note(&reserve(asker(8, 4)), never);
        claims.grant(OperationKey(1), at(10));
        claims.grant(OperationKey(2), at(20));
        claims.grant(OperationKey(4), at(5));
        claims.note(&Input::MailboxGone(MailboxKey(7)), || at(10));
        assert_eq!(claims.reserved().count(), 3, "two orphans, and one whose mailbox is live");
        assert!(claims.waiting().is_empty(), "who waited in the lost mailbox does not wait any more");
        claims.note(&Input::MailboxGone(MailboxKey(99)), || at(11));
        assert_eq!(claims.reserved().count(), 2, "the first orphan cannot count any more");
        claims.forget(at(1_000));
        let left: Vec<_> = claims.reserved().map(|(_, attempt)| attempt.claimed_at).collect();
        assert_eq!(left, [at(5)], "a live mailbox settles its own");
        claims.note(&Input::Return { asker: asker(8, 4) }, never);
        assert!(claims.claims.is_empty());
    }

    #[test]
    fn an_orphan_that_is_reserved_anew_or_settled_after_all_is_an_orphan_no_more() {
        let mut claims = Claims::default();
        claims.note(&reserve(asker(7, 1)), || at(0));
        claims.grant(OperationKey(1), at(10));
        claims.note(&Input::MailboxGone(MailboxKey(7)), || at(0));
        claims.note(&reserve(asker(7, 1)), || at(0));
        claims.forget(at(1_000));
        assert_eq!(claims.waiting().len(), 1);
        claims.note(&Input::Return { asker: asker(7, 1) }, || at(0));
        assert!(claims.claims.is_empty());
    }
}
