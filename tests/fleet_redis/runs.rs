//! What is tried.

use mailweir::engine::OperationState;
use mailweir::upstream::check;

use crate::id;
use crate::redis_server::RedisServer;

/// Emails of one run.
const EMAILS: u64 = 80;

#[test]
fn two_processes_send_from_one_mailbox_within_its_limit_and_each_email_once() {
    let bench = crate::bench::Bench::start(RedisServer::start());
    let (mut owner, mut other) = bench.owner_and_other(1);
    owner.submit((3..=EMAILS).step_by(2));
    other.submit((2..=EMAILS).step_by(2));
    // The last that is background, so it waits: its order comes from the one that does not own it.
    let cancelled = EMAILS;
    let _kept = other.answer(&format!("kept {cancelled}"));
    other.tell(&format!("cancel {cancelled}"));
    assert_eq!(other.answer(&format!("cancel {cancelled} ")), "Done { state: Cancelled }");

    let theirs = other.wait_for_outcomes(&(2..=EMAILS).step_by(2).collect::<Vec<_>>());
    let ours = owner.wait_for_outcomes(&(1..=EMAILS).step_by(2).collect::<Vec<_>>());
    let told = |number: u64| if number.is_multiple_of(2) { &theirs[&number] } else { &ours[&number] };
    assert!((1..EMAILS).all(|number| told(number) == "accepted"), "{ours:?} {theirs:?}");
    assert_eq!(told(cancelled), "cancelled");
    bench.assert_accepted_once(1..EMAILS);
    assert_eq!(check::executions(&bench.log()).len() as u64, EMAILS - 1, "and nothing else");
    bench.assert_provider_is_content();
    owner.end();
    other.end();
}

#[test]
fn who_takes_over_from_a_killed_owner_loses_nothing_and_sends_nothing_twice() {
    let bench = crate::bench::Bench::start(RedisServer::start());
    let (mut owner, mut other) = bench.owner_and_other(1);
    owner.submit((3..=EMAILS).step_by(2));
    other.submit((2..=EMAILS).step_by(2));
    bench.until_arrived(25);
    owner.kill();
    bench.until("successor", || other.is_owner());
    let theirs = other.wait_for_outcomes(&(2..=EMAILS).step_by(2).collect::<Vec<_>>());
    let ends = |state: OperationState| state.is_final() || state == OperationState::Unknown;
    let mut kept = owner.kept();
    kept.extend(other.kept());
    bench.until("end", || {
        let states = bench.states();
        kept.iter().all(|number| ends(*states.get(&id(*number)).expect("kept, and gone")))
    });
    let (states, executions) = (bench.states(), check::executions(&bench.log()));
    for number in &kept {
        let (state, times) = (states[&id(*number)], executions.get(&*id(*number)).copied().unwrap_or(0));
        match state {
            OperationState::Accepted => assert_eq!(times, 1, "{number}"),
            OperationState::Unknown => assert!(times <= 1, "{number}"),
            other => panic!("{number} is {other}"),
        }
    }
    let unknown = states.values().filter(|state| **state == OperationState::Unknown).count();
    assert!(unknown <= 4, "{unknown} unknown: a kill makes unknown what was under way, not the rest");
    assert!(theirs.values().all(|state| state == "accepted" || state == "unknown"), "{theirs:?}");
    bench.assert_provider_is_content();
    other.end();
}

#[test]
fn a_server_that_crashes_and_comes_back_with_its_file_stops_nothing_for_good() {
    let mut bench = crate::bench::Bench::start(RedisServer::durable());
    let (mut owner, mut other) = bench.owner_and_other(1);
    owner.submit((3..=EMAILS).step_by(2));
    other.submit((2..=EMAILS / 2).step_by(2));
    bench.until_arrived(15);
    let before = bench.log().len();
    bench.redis.kill();
    // Nobody can keep these yet.
    let late: Vec<u64> = (EMAILS / 2 + 2..=EMAILS).step_by(2).collect();
    other.submit(late.iter().copied());
    // Four may have been under way; the owner goes on without the server, at half.
    bench.until_arrived(before + 5);
    bench.redis.restart();
    let theirs = other.wait_for_outcomes(&(2..=EMAILS).step_by(2).collect::<Vec<_>>());
    let ours = owner.wait_for_outcomes(&(1..=EMAILS).step_by(2).collect::<Vec<_>>());
    assert!(ours.values().chain(theirs.values()).all(|state| state == "accepted"), "{ours:?} {theirs:?}");
    bench.until("records", || bench.states().values().all(|state| state.is_final()));
    bench.assert_accepted_once(1..=EMAILS);
    bench.assert_provider_is_content();
    owner.end();
    other.end();
}
