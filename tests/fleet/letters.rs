//! What others post to a mailbox's owner: nothing of it is lost, and of one operation it is read in order.

use mailweir::engine::OperationState;
use mailweir::scheduler::{Order, OrderAnswer};
use mailweir::store::hub::Link;
use mailweir::{Lane, Outcome, SubmitError, Ticket};

use crate::support::*;

/// Members of which the first owns the mailbox.
async fn owned(members: usize, config: &mailweir::Config) -> Bench {
    let bench = Bench::start_with(members, config).await;
    send(&bench, 0, "first").await;
    bench
}

async fn submit(bench: &Bench, at: usize, id: &str) -> Result<Ticket, SubmitError> {
    bench.members[at].handle.submit(submission(MAILBOX, id, Lane::Foreground)).await
}

/// Submits at a member, and waits until it is sent.
async fn send(bench: &Bench, at: usize, id: &str) {
    let ticket = submit(bench, at, id).await.expect("it is stored");
    let outcome = tokio::time::timeout(seconds(3), ticket.outcome()).await;
    assert!(matches!(outcome, Ok(Ok(Outcome::Accepted { .. }))), "{id}: {outcome:?}");
}

#[test]
fn a_letter_at_a_place_that_a_failover_gives_out_anew_is_read() {
    paused(|| async {
        let bench = owned(2, &config()).await;
        send(&bench, 1, "before").await;
        let image = bench.hub.image();
        for number in 0..5 {
            send(&bench, 1, &format!("forgotten-{number}")).await;
        }
        bench.hub.fail_over(image);
        // The owner learns of the failover with its next renewal: these come before it.
        for number in 0..3 {
            send(&bench, 1, &format!("after-{number}")).await;
        }
        pass(MINUTE).await;
        assert_eq!(bench.owner(MAILBOX).await, Some(0));
        assert_eq!(bench.taken(START, bench.now()), 10);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
    });
}

/// The failover forgets that a letter was read, and that what it speaks of was sent.
#[test]
fn a_letter_that_comes_again_after_a_failover_is_not_sent_again() {
    paused(|| async {
        let bench = owned(2, &config()).await;
        let ticket = submit(&bench, 1, "there").await.expect("it is stored");
        let image = bench.hub.image();
        assert!(matches!(ticket.outcome().await, Ok(Outcome::Accepted { .. })));
        send(&bench, 1, "next").await;
        bench.hub.fail_over(image);
        pass(MINUTE * 2).await;
        assert_eq!(bench.owner(MAILBOX).await, Some(0));
        assert_eq!(bench.taken(START, bench.now()), 3);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
    });
}

#[test]
fn what_is_submitted_when_a_lease_has_run_out_reaches_the_owner_that_renews_it() {
    paused(|| async {
        let mut config = config();
        // Nobody takes it over meanwhile.
        config.fleet.adopt_every = MINUTE * 60;
        let bench = owned(2, &config).await;
        bench.members[0].link.set_link(Link::Down);
        pass(seconds(20)).await;
        let ticket = submit(&bench, 1, "late").await.expect("it is stored");
        bench.members[0].link.set_link(Link::Up);
        let outcome = tokio::time::timeout(seconds(10), ticket.outcome()).await;
        assert!(matches!(outcome, Ok(Ok(Outcome::Accepted { .. }))), "{outcome:?}");
        assert_eq!(bench.owner(MAILBOX).await, Some(0));
    });
}

#[test]
fn letters_about_one_operation_are_obeyed_in_order_whichever_processes_they_come_from() {
    paused(|| async {
        let bench = owned(3, &config()).await;
        bench.members[0].link.set_link(Link::Frozen);
        pass(seconds(1)).await;
        let mut cancelled = Vec::new();
        for number in 0..10 {
            let id = format!("{number}");
            drop(submit(&bench, 1, &id).await.expect("it is stored"));
            let handle = bench.members[2].handle.clone();
            cancelled.push(tokio::spawn(async move { handle.cancel(&id, Order::new("not this one")).await }));
            pass(seconds(0)).await;
        }
        pass(seconds(1)).await;
        bench.members[0].link.set_link(Link::Up);
        for answer in cancelled {
            // Its row may be on its way by then: nothing leaves on it.
            let answer = answer.await.expect("no panic").expect("it is obeyed");
            let obeyed = [OrderAnswer::Done { state: OperationState::Cancelled }];
            let requested = matches!(answer, OrderAnswer::Requested { .. });
            assert!(requested || obeyed.contains(&answer), "{answer:?}");
        }
        pass(MINUTE).await;
        assert_eq!(bench.taken(START, bench.now()), 1, "the first");
        for number in 0..10 {
            let row = bench.members[1].handle.operation(&number.to_string()).await.expect("an answer").expect("a row");
            assert_eq!(row.state, OperationState::Cancelled, "{number}");
        }
    });
}
