//! What a restart charges for attempts that have ended.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::engine::mailbox::Record;
use mailweir::engine::operation::Transition;
use mailweir::engine::settlement::{Charge, settle};
use mailweir::engine::{Answer, Cost, Leaves, ScopeKind, Sent, Subject, Throttle, ThrottleKind, Unit, Verdict};
use mailweir::store::Claim;

use crate::fixture::*;

const COST: Cost = Cost { requests: 1, recipients: 500, external_recipients: 300, quota_units: 100, bytes: 4_096 };

const UNITS: [Unit; 5] = [Unit::Requests, Unit::Recipients, Unit::ExternalRecipients, Unit::QuotaUnits, Unit::Bytes];

/// Every verdict, with the transition that records it.
fn endings() -> Vec<(Verdict, Transition)> {
    let scopes = [None, Some(ScopeKind::Mailbox), Some(ScopeKind::Tenant), Some(ScopeKind::Application)];
    let kinds = [ThrottleKind::Rate, ThrottleKind::Quota, ThrottleKind::Concurrency];
    let throttled = scopes.into_iter().flat_map(|scope| {
        kinds.map(|kind| (Verdict::Throttled(Throttle { retry_after: None, scope, kind }), Transition::Throttle))
    });
    let transient = |sent| Verdict::Transient { sent, retry_after: None };
    let others = [
        (Verdict::Accepted, Transition::Accept),
        (transient(Sent::No), Transition::Void),
        (transient(Sent::Maybe), Transition::Retry),
        (Verdict::Permanent { of: Subject::Message }, Transition::Reject),
        (Verdict::Permanent { of: Subject::Mailbox }, Transition::Suspend),
        (Verdict::Permanent { of: Subject::Account }, Transition::Suspend),
        (Verdict::Unknown, Transition::Lose),
        (Verdict::Unknown, Transition::Poison),
    ];
    throttled.chain(others).collect()
}

pub(crate) fn an_attempt_is_charged_after_recovery_as_it_was_before_however_it_ended(
    given: &Given,
) -> BoxFuture<'_, ()> {
    async {
        let store = given.store();
        for (key, (verdict, transition)) in (1..).zip(endings()) {
            insert(store, key).await;
            let claim = Claim { cost: COST, ..claim(key, 1, 100) };
            store.claim(vec![claim]).await.unwrap();
            let record = Record { leaves: Leaves::of(&verdict), ..record(key, transition, 101) };
            store.record([record].into()).await.unwrap();

            let recovered = store.recover(at(0), None).await.unwrap();
            let attempt = recovered.attempts.iter().find(|attempt| attempt.key == claim.key);
            let answer = Answer::from(verdict);
            for scope in [ScopeKind::Mailbox, ScopeKind::Tenant, ScopeKind::Application] {
                let settled = settle(&answer, scope, at(100), at(101), Duration::from_secs(60));
                let after = attempt.map_or(
                    Cost { requests: 0, recipients: 0, external_recipients: 0, quota_units: 0, bytes: 0 },
                    |attempt| attempt.leaves.kept(attempt.cost, scope),
                );
                for unit in UNITS {
                    let before = match settled.of(unit) {
                        Charge::Release => 0,
                        Charge::CountUntil(_) => COST.of(unit),
                    };
                    assert_eq!(after.of(unit), before, "{answer:?} at {scope}, {unit:?}");
                }
            }
        }
    }
    .boxed()
}
