//! A hundred thousand mailboxes, nearly all of them idle, and everything that may go wrong beside them: a provider that
//! fails and loses, a process that stands still and dies, limits that change. What is idle must cost no wake-ups, and what
//! is not must neither starve nor overrun.
#![cfg(feature = "sim")]

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::mailbox::Outcome;
use mailweir::engine::policy::{MailboxPolicy, ScopePolicy};
use mailweir::engine::{Lane, Limit, Ratio, ScopeKind};
use mailweir::simulation::{KeepOutbox, Load, LookUps, START, World};
use mailweir::upstream::{ConcurrencyLimit, Model, Random, Schedule, Upstream, UpstreamLimit, check};

const MAILBOXES: usize = 100_000;
const BUSY: usize = 100;
const MINUTE: Duration = Duration::from_secs(60);

fn policy(limit: &str) -> Arc<MailboxPolicy> {
    let limits: Vec<Limit> = vec![limit.parse().expect("a limit")];
    let scope = ScopePolicy { limits, concurrency: NonZeroU32::new(4) };
    Arc::new(MailboxPolicy { scope, ..MailboxPolicy::default() })
}

fn faulty() -> Model {
    let mut model = Model::new([UpstreamLimit::requests(30, MINUTE)]);
    model.concurrency = vec![ConcurrencyLimit::new(ScopeKind::Mailbox, 4)];
    let rare = |ppm| Schedule::always(Ratio::ppm(ppm));
    model.faults.request_lost = rare(2_000);
    model.faults.response_lost = rare(3_000);
    model.faults.error_before_charge = rare(5_000);
    model.faults.error_after_charge = rare(5_000);
    model
}

#[test]
fn idle_mailboxes_cost_nothing_and_busy_ones_keep_their_limits_whatever_goes_wrong() {
    let seed = 11;
    let mut random = Random::stream(seed, 3);
    let upstream = Upstream::new(faulty(), seed);
    let mut world = World::new(MAILBOXES, &policy("30 requests / 1m"), None, upstream);
    world = world.keep_outbox(KeepOutbox::Yes).look_ups(LookUps::Answered);
    for busy in 0..BUSY {
        world.burst(START, 200, &Load::new(Lane::Background).mailbox(busy * 997));
    }
    for _ in 0..5_000 {
        let mailbox = usize::try_from(random.below(MAILBOXES as u64)).expect("an index");
        let at = START.after(Duration::from_millis(random.below(600_000)));
        world.submit(at, &Load::new(Lane::Foreground).mailbox(mailbox));
    }
    world.pause(START.after(2 * MINUTE), 3 * MINUTE);
    world.reconfigure(START.after(6 * MINUTE), vec![policy("20 requests / 1m"); MAILBOXES], None);
    world.crash(START.after(7 * MINUTE), Duration::from_secs(20));
    world.reconfigure(START.after(9 * MINUTE), vec![policy("30 requests / 1m"); MAILBOXES], None);
    world.run_to_end(START.after(90 * MINUTE));

    let log = world.upstream().log();
    assert_eq!(log.dropped(), 0, "the log holds the run");
    let counts = check::counts(log.client());
    println!("{} operations, {counts:?}, {} wake-ups", world.operations(), world.wakes());
    assert_eq!((counts.refused, counts.duplicates), (0, 0));
    assert_eq!(world.pending(), 0, "everything ends");
    let lost =
        |outcome: &Outcome| !matches!(outcome, Outcome::Accepted { .. } | Outcome::Unknown | Outcome::Quarantined);
    assert!(!world.ended().iter().any(|ended| lost(&ended.outcome)), "nothing ends otherwise");
    let accepted = world.ended().iter().filter(|ended| matches!(ended.outcome, Outcome::Accepted { .. })).count();
    assert!(accepted * 100 > world.operations() * 97, "{accepted} of {}", world.operations());
    assert!(world.wakes() < 4 * world.operations() as u64, "{} wake-ups", world.wakes());
}
