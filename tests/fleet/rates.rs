//! However many processes: one mailbox has one rate, and nothing is refused.

use mailweir::Lane;
use mailweir::engine::Timestamp;

use crate::support::*;

/// What a mailbox is given in ten minutes by so many processes, while background waits; and the slowest but one of a
/// hundred foreground emails handed to all of them in turn, in milliseconds.
async fn saturated(members: usize) -> (usize, u128) {
    let bench = Bench::start(members).await;
    bench.fill(MAILBOX, "bulk", 500, Lane::Background).await;
    pass(MINUTE * 2).await;
    let from = bench.now();
    let mut waits = Vec::new();
    for number in 0..60 {
        let member = &bench.members[number % members];
        let began = bench.now();
        let id = format!("click-{number}");
        let ticket = member.handle.submit(submission(MAILBOX, &id, Lane::Foreground)).await.expect("it is stored");
        ticket.outcome().await.expect("an outcome");
        waits.push(bench.now().since(began).as_millis());
        pass(seconds(10)).await;
    }
    waits.sort_unstable();
    assert_eq!(bench.refused(), 0, "{members} processes");
    assert_eq!(bench.twice(), Vec::<std::sync::Arc<str>>::new());
    let taken = bench.taken(from, from.after(MINUTE * 9));
    (taken, waits[waits.len() - 2])
}

#[test]
fn two_four_and_sixteen_processes_have_the_rate_of_one_and_its_foreground_latency() {
    let one = paused(|| saturated(1));
    for members in [2, 4, 16] {
        let several = paused(|| saturated(members));
        let (rate, alone) = (several.0 as f64, one.0 as f64);
        assert!((rate - alone).abs() <= alone * 0.02, "{members} processes: {several:?}, one: {one:?}");
        assert!(several.1 <= one.1 + 250, "{members} processes: {several:?}, one: {one:?}");
    }
}

#[test]
fn a_hundred_mailboxes_of_four_processes_each_have_their_rate() {
    paused(|| async {
        let bench = Bench::start(4).await;
        for mailbox in 0..100 {
            bench.fill(&format!("m{mailbox}@contoso.example"), &format!("m{mailbox}"), 12, Lane::Foreground).await;
        }
        pass(MINUTE * 2).await;
        assert_eq!(bench.refused(), 0);
        assert_eq!(bench.taken(START, bench.now()), 1_200, "every one of them");
        assert!(bench.twice().is_empty());
    });
}

#[test]
fn clocks_that_differ_by_five_minutes_change_nothing() {
    paused(|| async {
        let mut bench = Bench::start(0).await;
        let span = std::time::Duration::from_secs(300);
        for own in [START.before(span), START.after(span), START] {
            bench.join(&config(), own).await;
        }
        bench.fill(MAILBOX, "bulk", 200, Lane::Background).await;
        for round in 0..4 {
            pass(MINUTE).await;
            // From one to the next, with what the others wrote.
            let Some(owner) = bench.owner(MAILBOX).await else { continue };
            if round < 2 {
                bench.members[owner].shut_down().await;
            }
        }
        pass(MINUTE * 8).await;
        assert_eq!(bench.refused(), 0);
        assert_eq!(bench.taken(Timestamp::EPOCH, Timestamp::NEVER), 200);
        assert!(bench.twice().is_empty());
    });
}
