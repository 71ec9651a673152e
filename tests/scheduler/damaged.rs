//! An email that is damaged in the store is one operation's trouble, and a person's.

use std::time::{Duration, SystemTime};

use futures::FutureExt;
use mailweir::engine::operation::QuarantineCause;
use mailweir::engine::{OperationState, Timestamp};
use mailweir::scheduler::{Events, HoldScope, Order};
use mailweir::telemetry::EventKind;
use mailweir::{Outcome, SubmitError};

use crate::lives::Lives;
use crate::support::*;

fn in_a_while(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + START.since(Timestamp::EPOCH) + Duration::from_secs(1) * seconds
}

/// Who was set aside because of damage, and whether the store was ever called degraded.
fn damage(events: &mut Events) -> (Vec<String>, bool) {
    let (mut damaged, mut degraded) = (Vec::new(), false);
    while let Some(Some(Ok(event))) = events.next().now_or_never() {
        match event.kind {
            EventKind::OperationQuarantined { operation_id, reason: QuarantineCause::Damaged, .. } => {
                damaged.extend(operation_id.map(|id| id.to_string()));
            }
            EventKind::StoreDegraded { .. } => degraded = true,
            _ => {}
        }
    }
    (damaged, degraded)
}

#[test]
fn a_damaged_email_is_set_aside_in_clear_words_and_those_beside_it_are_sent() {
    paused(|| async {
        let (mut lives, transport) = (Lives::new(), Scripted::accepting());
        let handle = lives.begin(unlimited(), &transport).await;
        let mut events = handle.events();
        let mut tickets = Vec::new();
        for id in ["one", "two", "three", "four"] {
            let later = foreground(id).not_before(in_a_while(60)).deadline(Duration::from_secs(3_600));
            tickets.push(handle.submit(later).await.expect("taken in"));
        }
        let shell = rusqlite::Connection::open(lives.folder.path().join("life-1.db")).expect("its file");
        let of = |id: &str| format!("WHERE key = (SELECT key FROM operation WHERE id = '{id}')");
        shell
            .execute_batch(&format!(
                "CREATE TEMP TABLE backup AS SELECT * FROM payload; DELETE FROM payload {};
                 UPDATE payload SET mime = substr(mime, 1, 20) {}",
                of("two"),
                of("four")
            ))
            .expect("damaged");
        lives.sleep_until(lives.now().after(Duration::from_secs(61))).await;
        let mut outcomes = Vec::new();
        for ticket in tickets {
            outcomes.push(ticket.outcome().await.expect("an end"));
        }
        let [one, two, three, four] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert!(matches!((one, three), (Outcome::Accepted { .. }, Outcome::Accepted { .. })), "{outcomes:?}");
        assert!(matches!((two, four), (Outcome::Quarantined, Outcome::Quarantined)), "{outcomes:?}");
        assert_eq!(transport.ids(), ["one", "three"]);
        assert_eq!(damage(&mut events), (vec!["two".to_owned(), "four".to_owned()], false));
        for (id, what) in [("two", "(its row is missing)"), ("four", "(20 bytes of ")] {
            let found = handle.operation(id).await.expect("asked").expect("it is there");
            let reason = found.order.expect("its reason").reason.clone();
            assert_eq!((found.state, found.attempts, found.maybe_sent), (OperationState::Quarantined, 0, false));
            assert!(reason.contains(what) && reason.contains("restore it from a backup and release"), "{reason}");
        }
        // Released as it is, it is set aside again; released once it is whole, it is sent.
        handle.release("four", Order::new("perhaps")).await.expect("an answer");
        lives.sleep_until(lives.now().after(Duration::from_secs(1))).await;
        assert_eq!(damage(&mut events), (vec!["four".to_owned()], false));
        shell.execute_batch("INSERT OR REPLACE INTO payload SELECT * FROM backup").expect("mended");
        handle.release("four", Order::new("mended")).await.expect("an answer");
        lives.sleep_until(lives.now().after(Duration::from_secs(1))).await;
        assert_eq!(transport.ids(), ["one", "three", "four"]);
    });
}

#[test]
fn a_damaged_row_among_many_holds_its_mailbox_and_when_it_is_mended_all_go_on_in_order() {
    paused(|| async {
        let (mut lives, transport) = (Lives::new(), Scripted::accepting());
        // Two pages and a bit, the damaged one in the middle of the second.
        let ids: Vec<String> = (0..2_100).map(|number| format!("{number:04}")).collect();
        let handle = lives.begin(unlimited(), &transport).await;
        let of = |id: &String| in_a_minute(id).tenant("acme");
        let taken_in = handle.submit_many(ids.iter().map(of)).await;
        assert!(taken_in.iter().all(Result::is_ok), "{taken_in:?}");
        let file = |life: u32| lives.folder.path().join(format!("life-{life}.db"));
        let (first, second) = (file(1), file(2));
        let shell = |file| rusqlite::Connection::open(file).expect("its file");
        shell(first)
            .execute_batch("PRAGMA foreign_keys = OFF; UPDATE operation SET tenant = 999 WHERE id = '1500'")
            .expect("damaged");
        let handle = lives.begin(unlimited(), &transport).await;
        let other = mailweir::Submission::new("alerts@contoso.example", email());
        drop(handle.submit(other).await.expect("taken in"));
        lives.sleep_until(lives.now().after(Duration::from_secs(70))).await;
        assert_eq!(transport.count(), 1, "the other mailbox goes on");
        let error = handle.submit(foreground("new")).await.expect_err("held");
        assert!(matches!(error, SubmitError::MailboxHeld { .. }), "{error}");
        let mend = "UPDATE operation SET tenant = (SELECT nr FROM name WHERE text = 'acme') WHERE id = '1500'";
        shell(second).execute_batch(mend).expect("mended");
        handle.resume(HoldScope::Mailbox(MAILBOX.into()), Order::new("mended")).await.expect("told");
        lives.sleep_until(lives.now().after(Duration::from_secs(5))).await;
        let sent: Vec<String> = transport.ids().into_iter().filter(|id| ids.contains(id)).collect();
        assert_eq!(sent, ids, "in order, each once");
    });
}
