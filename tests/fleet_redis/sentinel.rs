//! Two processes over a master, a replica and three sentinels; the master is killed under load.

use crate::bench::Bench;
use crate::redis_server::group::Group;

/// Emails of one run.
const EMAILS: u64 = 80;

#[test]
fn a_master_that_is_killed_is_followed_to_its_successor_without_a_restart() {
    let group = Group::start();
    let url = group.url();
    let Group { master, replica, sentinels } = group;
    let mut bench = Bench::at(url, master);
    let (mut owner, mut other) = bench.owner_and_other(1);
    owner.submit((3..=EMAILS).step_by(2));
    other.submit((2..=EMAILS / 2).step_by(2));
    bench.until_arrived(15);
    bench.redis.kill();
    // Nobody can keep these before the replica has taken over.
    other.submit((EMAILS / 2 + 2..=EMAILS).step_by(2));
    bench.until("failover", || replica.say(&["ROLE"]).contains("master"));
    let theirs = other.wait_for_outcomes(&(2..=EMAILS).step_by(2).collect::<Vec<_>>());
    let ours = owner.wait_for_outcomes(&(1..=EMAILS).step_by(2).collect::<Vec<_>>());
    assert!(ours.values().chain(theirs.values()).all(|state| state == "accepted"), "{ours:?} {theirs:?}");
    bench.until("records", || bench.states().values().all(|state| state.is_final()));
    bench.assert_accepted_once(1..=EMAILS);
    bench.assert_provider_is_content();
    owner.end();
    other.end();
    drop(sentinels);
}
