//! Tickets of operations that another process sends, when nobody will tell any more how they end.

use mailweir::Lane;
use mailweir::scheduler::{HoldScope, Order, Ticket, TicketError};

use crate::support::*;

/// A ticket of the second member for an operation of a mailbox that the first one owns, and that waits for long.
async fn elsewhere(bench: &Bench) -> Ticket {
    let held = Order::new("not yet").expires_in(MINUTE * 600);
    bench.members[0].handle.hold(HoldScope::All, held).await.expect("held");
    let owned = bench.members[0].handle.submit(submission(MAILBOX, "owned", Lane::Foreground)).await;
    drop(owned.expect("it is stored"));
    pass(seconds(1)).await;
    assert_eq!(bench.owner(MAILBOX).await, Some(0));
    let ticket = bench.members[1].handle.submit(submission(MAILBOX, "elsewhere", Lane::Foreground)).await;
    ticket.expect("it is stored")
}

async fn assert_interrupted(ticket: Ticket) {
    let outcome = tokio::time::timeout(MINUTE * 5, ticket.outcome()).await.expect("nobody waits for ever");
    assert_eq!(outcome, Err(TicketError::Interrupted { operation_id: "elsewhere".into() }));
}

#[test]
fn a_ticket_of_a_mailbox_that_is_elsewhere_ends_with_its_scheduler() {
    paused(|| async {
        let mut bench = Bench::start(2).await;
        let ticket = elsewhere(&bench).await;
        pass(seconds(5)).await;
        // Its handle lives on.
        bench.members[1].die();
        assert_interrupted(ticket).await;
    });
}

#[test]
fn a_ticket_of_an_operation_that_the_store_has_forgotten_ends() {
    paused(|| async {
        let bench = Bench::start(2).await;
        let before = bench.hub.image();
        let ticket = elsewhere(&bench).await;
        pass(seconds(5)).await;
        bench.hub.fail_over(before);
        assert_interrupted(ticket).await;
    });
}
