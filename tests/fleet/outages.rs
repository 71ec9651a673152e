//! The store away: for all, for one, with replies lost, and back with a gap.

use mailweir::Lane;
use mailweir::store::hub::Link;

use crate::support::*;

#[test]
fn ten_minutes_without_the_store_are_at_half_and_over_twenty_seconds_after() {
    paused(|| async {
        let bench = Bench::start(2).await;
        bench.fill(MAILBOX, "one", 700, Lane::Foreground).await;
        pass(MINUTE * 3).await;
        bench.members.iter().for_each(|member| member.link.set_link(Link::Down));
        let away = bench.now();
        pass(MINUTE * 10).await;
        let taken = bench.taken(away, bench.now());
        assert!(taken >= 111, "{taken} in ten minutes is less than 0.37 N/W");
        bench.members.iter().for_each(|member| member.link.set_link(Link::Up));
        pass(seconds(20)).await;
        let back = bench.now();
        pass(MINUTE * 4).await;
        let taken = bench.taken(back, bench.now());
        assert!(taken >= 4 * 28, "{taken} in four minutes: it is back to normal");
        pass(MINUTE * 20).await;
        assert_eq!(bench.refused(), 0);
        assert_eq!(bench.taken(START, bench.now()), 700);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
    });
}

#[test]
fn an_owner_that_alone_lost_the_store_and_its_successor_send_no_email_twice() {
    paused(|| async {
        let bench = Bench::start(2).await;
        bench.fill(MAILBOX, "one", 300, Lane::Foreground).await;
        pass(seconds(90)).await;
        let owner = bench.owner(MAILBOX).await.expect("an owner");
        bench.members[owner].link.set_link(Link::Down);
        pass(MINUTE * 5).await;
        let taken_over = bench.members[1 - owner].owns(MAILBOX).await;
        bench.members[owner].link.set_link(Link::Up);
        pass(MINUTE * 40).await;
        assert!(taken_over);
        assert_eq!(bench.refused(), 0);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
        assert_eq!(bench.taken(START, bench.now()), 300);
    });
}

#[test]
fn lost_replies_cost_time_and_nothing_else() {
    paused(|| async {
        let bench = Bench::start(2).await;
        bench.fill(MAILBOX, "one", 100, Lane::Foreground).await;
        for round in 0..10 {
            pass(seconds(7)).await;
            let member = &bench.members[round % 2];
            member.link.set_link(Link::RepliesLost);
            pass(seconds(2)).await;
            member.link.set_link(Link::Up);
        }
        pass(MINUTE * 30).await;
        assert_eq!(bench.refused(), 0);
        assert!(bench.twice().is_empty(), "{:?}", bench.twice());
        assert_eq!(bench.taken(START, bench.now()), 100);
    });
}

#[test]
fn a_failover_that_forgets_is_silent_for_who_starts_after_it_and_breaks_no_window() {
    paused(|| async {
        let mut bench = Bench::start(2).await;
        bench.fill(MAILBOX, "one", 200, Lane::Foreground).await;
        pass(seconds(100)).await;
        let image = bench.hub.image();
        pass(seconds(2)).await;
        bench.hub.fail_over(image);
        let owner = bench.owner(MAILBOX).await.expect("an owner");
        pass(seconds(1)).await;
        bench.members[owner].die();
        pass(MINUTE * 40).await;
        assert_eq!(bench.refused(), 0);
    });
}

#[test]
fn a_failover_that_forgets_a_take_over_does_not_let_the_old_owner_go_on_at_full() {
    paused(|| async {
        let bench = Bench::start(2).await;
        bench.fill(MAILBOX, "one", 300, Lane::Foreground).await;
        pass(seconds(90)).await;
        let owner = bench.owner(MAILBOX).await.expect("an owner");
        bench.members[owner].link.set_link(Link::Down);
        let image = bench.hub.image();
        pass(seconds(110)).await;
        assert!(bench.members[1 - owner].owns(MAILBOX).await, "it was taken over, and sends");
        bench.hub.fail_over(image);
        let failed_over = bench.now();
        bench.members[owner].link.set_link(Link::Up);
        pass(MINUTE * 2).await;
        assert!(bench.members[owner].owns(MAILBOX).await, "its lease is the latest that is remembered");
        let taken = bench.taken(failed_over.after(seconds(6)), bench.now());
        assert_eq!(taken, 0, "silent for the window and the longest request");
        pass(MINUTE * 40).await;
        assert_eq!(bench.refused(), 0);
    });
}

#[test]
fn a_failover_is_no_matter_for_an_owner_whose_lease_never_ran_out() {
    paused(|| async {
        let bench = Bench::start(2).await;
        bench.fill(MAILBOX, "one", 300, Lane::Foreground).await;
        pass(seconds(90)).await;
        let image = bench.hub.image();
        pass(seconds(1)).await;
        bench.hub.fail_over(image);
        let from = bench.now();
        pass(MINUTE * 4).await;
        let taken = bench.taken(from, bench.now());
        assert!(taken >= 4 * 26, "{taken} in four minutes");
        assert_eq!(bench.refused(), 0);
    });
}
