//! A limit of the application, spent by all processes together: nearly the whole of it goes to whoever has use for it, and
//! the upstream never counts more.

use std::sync::{Arc, Mutex};

use mailweir::Lane;
use mailweir::config::Config;
use mailweir::engine::{Limit, ScopeKind};
use mailweir::store::hub::Link;
use mailweir::upstream::{Model, Refusals, Upstream, UpstreamLimit};

use crate::support::*;

/// Emails a minute of the whole application.
const N: u64 = 60;

/// No mailbox has a limit worth the name.
fn of_application() -> Config {
    let own: Limit = "10_000 requests / 1m".parse().expect("a limit");
    let shared: Limit = format!("{N} requests / 1m").parse().expect("a limit");
    Config::default().mailbox_limits([own]).application_limits([shared])
}

async fn start(members: usize) -> Bench {
    let mut bench = Bench::start(0).await;
    let mut model = Model::new([UpstreamLimit::requests(N, MINUTE).at_scope(ScopeKind::Application)]);
    model.refusals = Refusals::Counted;
    bench.upstream = Arc::new(Mutex::new(Upstream::new(model, 7)));
    for _ in 0..members {
        bench.join(&of_application(), START).await;
    }
    bench
}

fn mailbox(member: usize) -> String {
    format!("mailbox-{member}@contoso.example")
}

/// Hands a member emails of a mailbox that it owns.
async fn load(bench: &Bench, member: usize, what: &str, count: usize) {
    for number in 0..count {
        let id = format!("{what}-{member}-{number}");
        let new = submission(&mailbox(member), &id, Lane::Foreground);
        drop(bench.members[member].handle.submit(new).await.expect("it is stored"));
    }
}

/// The part of the limit that was used in so many minutes.
async fn used(bench: &Bench, minutes: u32) -> f64 {
    let from = bench.now();
    pass(MINUTE * minutes).await;
    let used = bench.taken(from, bench.now()) as f64 / f64::from(minutes) / N as f64;
    println!("{} processes: {used:.3} of the limit in {minutes} minutes", bench.members.len());
    used
}

fn assert_content(bench: &Bench) {
    assert_eq!(bench.refused(), 0);
    assert!(bench.twice().is_empty(), "{:?}", bench.twice());
}

#[test]
fn two_four_and_sixteen_processes_that_all_want_it_use_the_whole_limit() {
    for members in [2, 4, 16] {
        paused(|| async {
            let bench = start(members).await;
            for member in 0..members {
                load(&bench, member, "bulk", 2_400 / members).await;
            }
            pass(MINUTE * 3).await;
            let used = used(&bench, 30).await;
            assert!(used >= 0.98, "{members}: {used}");
            assert_content(&bench);
        });
    }
}

#[test]
fn one_busy_process_of_sixteen_uses_nearly_the_whole_limit() {
    paused(|| async {
        let bench = start(16).await;
        load(&bench, 3, "bulk", 1_200).await;
        pass(MINUTE * 2).await;
        let used = used(&bench, 15).await;
        assert!(used >= 0.97, "{used}");
        assert_content(&bench);
    });
}

#[test]
fn who_dies_takes_nothing_along_that_does_not_come_back() {
    paused(|| async {
        let mut bench = start(3).await;
        for member in 0..3 {
            load(&bench, member, "bulk", 800).await;
        }
        pass(MINUTE * 3 + seconds(1)).await;
        bench.members[0].die();
        pass(MINUTE * 3).await;
        assert_content(&bench);
        let used = used(&bench, 15).await;
        assert!(used >= 0.97, "{used}");
        assert_content(&bench);
    });
}

#[test]
fn after_a_failover_of_the_store_the_limit_rests_until_nothing_forgotten_counts() {
    paused(|| async {
        let bench = start(2).await;
        for member in 0..2 {
            load(&bench, member, "bulk", 500).await;
        }
        pass(MINUTE * 2).await;
        let image = bench.hub.image();
        pass(seconds(2)).await;
        bench.hub.fail_over(image);
        let over = bench.now();
        pass(seconds(130)).await;
        assert_eq!(bench.taken(over.after(seconds(6)), bench.now()), 0, "TTL, D and W");
        pass(MINUTE).await;
        let used = used(&bench, 10).await;
        assert!(used >= 0.97, "{used}");
        assert_eq!(bench.refused(), 0);
    });
}

#[test]
fn without_the_store_nothing_more_is_taken_and_all_goes_on_when_it_is_back() {
    paused(|| async {
        let bench = start(2).await;
        for member in 0..2 {
            load(&bench, member, "bulk", 400).await;
        }
        pass(MINUTE * 2).await;
        bench.members[0].link.set_link(Link::Down);
        let away = bench.now();
        // The other one has all of it meanwhile.
        pass(MINUTE * 4).await;
        let taken = bench.taken(away, bench.now());
        assert!(taken as u64 >= 3 * N, "{taken}");
        bench.members[0].link.set_link(Link::Up);
        pass(MINUTE * 40).await;
        assert_eq!(bench.taken(START, bench.now()), 800);
        assert_content(&bench);
    });
}

#[test]
fn an_email_that_waits_for_a_chunk_says_so() {
    paused(|| async {
        let bench = start(2).await;
        load(&bench, 0, "bulk", 200).await;
        pass(seconds(90)).await;
        let handle = &bench.members[0].handle;
        let explained = handle.explain("bulk-0-199").await.expect("it waits");
        let of_shared = explained.iter().filter(|one| one.scope == ScopeKind::Application);
        let mut words = of_shared.map(|one| one.wall.to_string());
        assert!(words.any(|word| word == "part(requests/60s)"), "{explained:?}");
    });
}
