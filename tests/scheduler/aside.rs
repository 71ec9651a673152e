//! Mailboxes whose actors have left: what they used counts, and they are not kept without bound.

use std::time::Duration;

use mailweir::{Lane, Outcome, Submission};

use crate::support::*;

fn from(number: usize, id: &str) -> Submission {
    let mailbox = format!("m{number}@contoso.example");
    Submission::new(mailbox, email()).operation_id(id).lane(Lane::Foreground)
}

#[test]
fn a_mailbox_that_was_dropped_above_the_bound_wins_no_free_window() {
    paused(|| async {
        let transport = Scripted::accepting().begin();
        let mut config = limited("1 requests / 1h");
        (config.actors.live_max, config.actors.passivate_after) = (1_024, Duration::from_secs(5));
        let scheduler = start(config, transport.clone()).await;
        let handle = scheduler.handle();
        // 1,200 mailboxes are laid aside with a charge each, where there is room for 1,024.
        for round in [0..400, 400..800, 800..1_200] {
            let batch = round.map(|number| from(number, &format!("first-{number}")));
            for ticket in handle.submit_many(batch).await {
                let outcome = ticket.expect("taken in").outcome().await;
                assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert!(handle.mailboxes().await.is_empty(), "every actor has left");
        }
        let early = transport.count();
        for number in [0, 1, 1_199] {
            let ticket = handle.submit(from(number, &format!("second-{number}"))).await.expect("taken in");
            let outcome = ticket.outcome().await;
            assert!(matches!(outcome, Ok(Outcome::Accepted { .. })), "{outcome:?}");
        }
        let second = &transport.instants()[early..];
        assert!(second.iter().all(|at| *at >= Duration::from_secs(3_600)), "{second:?}");
        let fresh = handle.submit(from(5_000, "fresh")).await.expect("taken in");
        let sent_at = || *transport.instants().last().expect("sent");
        let before = sent_at();
        assert!(matches!(fresh.outcome().await, Ok(Outcome::Accepted { .. })));
        assert!(sent_at() - before < Duration::from_secs(1), "who has sent nothing waits for nothing");
    });
}
