//! What a process can do about a mailbox that another one owns.

use mailweir::engine::OperationState;
use mailweir::scheduler::{AskError, HoldScope, Order, OrderAnswer, OrderEnd, PermitError};
use mailweir::store::Store;
use mailweir::store::fleet::{Order as Posted, OrderBody, OrderId};
use mailweir::{Cost, Lane, Outcome, SubmitError};

use crate::support::*;

/// Two members; the first owns the mailbox.
async fn two() -> Bench {
    let bench = Bench::start(2).await;
    let first = bench.members[0].handle.submit(submission(MAILBOX, "first", Lane::Foreground)).await.expect("stored");
    first.outcome().await.expect("an outcome");
    bench
}

#[test]
fn what_is_submitted_elsewhere_is_sent_by_the_owner_and_its_ticket_is_answered() {
    paused(|| async {
        let bench = two().await;
        let remote = &bench.members[1].handle;
        let ticket = remote.submit(submission(MAILBOX, "there", Lane::Foreground)).await.expect("it is stored");
        let began = bench.now();
        let outcome = ticket.outcome().await.expect("an outcome");
        assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
        assert!(bench.now().since(began) < seconds(2), "told, not found by looking");
        let again = remote.submit(submission(MAILBOX, "there", Lane::Foreground)).await.expect("the same");
        assert!(matches!(again.outcome().await, Ok(Outcome::Accepted { .. })));
        assert_eq!(bench.owner(MAILBOX).await, Some(0));
    });
}

#[test]
fn permits_and_admission_keys_are_the_owners_and_the_error_says_so() {
    paused(|| async {
        let bench = two().await;
        let remote = &bench.members[1].handle;
        drop(remote.submit(submission(MAILBOX, "there", Lane::Foreground)).await.expect("it is stored"));
        let permit = remote.acquire(MAILBOX, Cost::ONE_REQUEST, Lane::Foreground).await;
        assert!(matches!(permit, Err(PermitError::Elsewhere)), "{permit:?}");
        let keyed = submission(MAILBOX, "keyed", Lane::Foreground).admission_key("kim", seconds(60));
        let refused = remote.submit(keyed).await;
        assert!(matches!(refused, Err(SubmitError::Elsewhere { .. })), "{refused:?}");
        let hasty = submission(MAILBOX, "hasty", Lane::Foreground).max_wait(seconds(60));
        let refused = remote.submit(hasty).await;
        assert!(matches!(refused, Err(SubmitError::Elsewhere { .. })), "{refused:?}");
        let asked = remote.explain_mailbox(MAILBOX).await;
        assert!(matches!(asked, Err(AskError::Elsewhere { .. })), "{asked:?}");
        assert!(bench.members[0].handle.explain_mailbox(MAILBOX).await.is_ok());
    });
}

#[test]
fn cancel_and_hold_reach_the_owner_from_anywhere() {
    paused(|| async {
        let bench = two().await;
        let (owner, remote) = (&bench.members[0].handle, &bench.members[1].handle);
        let held = remote.hold(HoldScope::Mailbox(MAILBOX.into()), Order::new("wait")).await;
        assert!(held.is_ok(), "{held:?}");
        let ticket = owner.submit(submission(MAILBOX, "held", Lane::Foreground)).await.expect("it is stored");
        pass(seconds(10)).await;
        let state = |record: Option<mailweir::store::OperationRecord>| record.expect("a row").state;
        assert_eq!(state(owner.operation("held").await.expect("an answer")), OperationState::Queued);
        let cancelled = remote.cancel("held", Order::new("not this one")).await;
        assert!(matches!(cancelled, Ok(OrderAnswer::Done { state: OperationState::Cancelled })), "{cancelled:?}");
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Cancelled { maybe_sent: false })));
        remote.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("done")).await.expect("lifted");
        let next = owner.submit(submission(MAILBOX, "next", Lane::Foreground)).await.expect("it is stored");
        assert!(matches!(next.outcome().await, Ok(Outcome::Accepted { .. })));
    });
}

#[test]
fn a_hold_of_everything_stops_every_process_at_once() {
    paused(|| async {
        let bench = two().await;
        bench.members[1].handle.hold(HoldScope::All, Order::new("stop")).await.expect("held");
        pass(std::time::Duration::from_millis(200)).await;
        let ticket =
            bench.members[0].handle.submit(submission(MAILBOX, "late", Lane::Foreground)).await.expect("stored");
        pass(seconds(20)).await;
        assert_eq!(bench.taken(START, bench.now()), 1);
        bench.members[1].handle.resume(HoldScope::All, Order::new("done")).await.expect("lifted");
        let began = bench.now();
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        assert!(bench.now().since(began) < seconds(2));
        let listed = |at: usize| bench.members[at].handle.ended_orders();
        assert_eq!((listed(0).len(), listed(0)), (1, listed(1)), "the words are told in either process");
    });
}

#[test]
fn every_process_knows_how_the_orders_of_another_ended() {
    paused(|| async {
        let bench = two().await;
        let [one, other] = [0, 1].map(|at| bench.members[at].handle.clone());
        let tenant = || HoldScope::Tenant("acme".into());
        one.hold(HoldScope::All, Order::new("stop").by("kim").expires_in(seconds(60))).await.expect("held");
        one.hold(tenant(), Order::new("this one").expires_in(seconds(60))).await.expect("held");
        pass(seconds(5)).await;
        other.hold(HoldScope::All, Order::new("for longer").by("lee").expires_in(seconds(30))).await.expect("held");
        other.resume(tenant(), Order::new("done").by("lee")).await.expect("lifted");
        pass(seconds(60)).await;
        let listed = other.ended_orders();
        let by = Some("lee".into());
        let ends = [
            OrderEnd::Replaced { reason: "for longer".into(), by: by.clone() },
            OrderEnd::Lifted { reason: "done".into(), by },
            OrderEnd::Expired,
        ];
        assert_eq!(listed.iter().map(|it| it.end.clone()).collect::<Vec<_>>(), ends);
        let reasons: Vec<_> = listed.iter().filter_map(|it| it.order.as_ref()).map(|it| &*it.reason).collect();
        assert_eq!(reasons, ["stop", "this one", "for longer"]);
        assert_eq!(one.ended_orders(), listed, "nothing expires there that ended here");
    });
}

#[test]
fn news_of_what_was_read_already_costs_no_later_letter() {
    // It was taken for the next place, and what came to that place was forgotten unread.
    paused(|| async {
        let bench = two().await;
        let fleet = bench.hub.connect().fleet().expect("it is shared");
        let (mailbox, until) = (MAILBOX.into(), bench.now().after(seconds(60)));
        let order = Posted { id: OrderId(7), mailbox, until, body: OrderBody::Close };
        for _ in 0..3 {
            fleet.post(vec![order.clone()]).await.expect("posted, or there already");
            pass(seconds(1)).await;
        }
        for number in 0..3 {
            let next = submission(MAILBOX, &format!("next-{number}"), Lane::Foreground);
            let ticket = bench.members[1].handle.submit(next).await.expect("it is stored");
            let outcome = tokio::time::timeout(seconds(2), ticket.outcome()).await;
            assert!(matches!(outcome, Ok(Ok(Outcome::Accepted { .. }))), "{outcome:?}");
        }
    });
}
