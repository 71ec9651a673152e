//! A panic is its mailbox's matter: what it held goes on after the rebuild, and the others never notice.
//!
//! Each mailbox has an upstream of its own here, seeded by its name, so that the others' draws cannot depend on what
//! becomes of the one that panics: their instants and outcomes have to be *equal* with and without the panics.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::{Ratio, Timestamp};
use mailweir::scheduler::{HoldScope, Order, Scheduler, SchedulerHandle};
use mailweir::telemetry::EventKind;
use mailweir::transport::simulated::SimulatedTransport;
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::upstream::{Model, Schedule, Upstream, UpstreamLimit, check};
use mailweir::{Lane, Outcome};

use crate::support::*;

const MAILBOXES: u64 = 12;
const EACH: usize = 60;
const VICTIM: &str = "m0@contoso.example";

#[derive(Debug)]
struct Separate {
    transports: BTreeMap<Arc<str>, (Arc<Mutex<Upstream>>, SimulatedTransport)>,
}

impl Separate {
    fn new(seed: u64, clock: &Arc<TokioClock>) -> Self {
        let transport = |n: u64| {
            let mut model = Model::new([UpstreamLimit::requests(30, MINUTE)]);
            if n > 0 {
                model.faults.error_before_charge = Schedule::always(Ratio::percent(5));
            }
            let upstream = Arc::new(Mutex::new(Upstream::new(model, seed * 100 + n)));
            let transport = SimulatedTransport::new(Arc::clone(&upstream), Arc::clone(clock) as Arc<dyn Clock>);
            (Arc::from(format!("m{n}@contoso.example")), (upstream, transport))
        };
        Self { transports: (0..MAILBOXES).map(transport).collect() }
    }
}

impl Transport for Separate {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        self.transports[&attempt.mailbox].1.send(attempt)
    }

    fn reconcile(&self, attempt: Attempt) -> BoxFuture<'_, Option<bool>> {
        self.transports[&attempt.mailbox].1.reconcile(attempt)
    }
}

/// What became of every operation, and when.
type Ends = BTreeMap<String, (Timestamp, String)>;

struct Run {
    ends: Ends,
    restarts: Vec<u32>,
    held: Vec<u32>,
    victim: check::Counts,
    accepted_in_store: usize,
}

fn run(seed: u64, restarts_max: u32, panics_at: &'static [u64]) -> Run {
    paused(|| async move {
        let clock = Arc::new(TokioClock::starting_at(START));
        let separate = Separate::new(seed, &clock);
        let victim = Arc::clone(&separate.transports[VICTIM].0);
        let mut config = Config::default().mailbox_limits(limits(&["30 requests / 1m"]));
        config.actors.restarts_max = restarts_max;
        let builder = Scheduler::builder(config, separate).clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let scheduler = builder.seeds([seed, 2]).start_on_current_thread().await.expect("the scheduler starts");
        let handle = scheduler.handle();
        let (restarts, held) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        watch(&handle, &restarts, &held);
        let names = (0..EACH).flat_map(|n| (0..MAILBOXES).map(move |m| (n, m)));
        let batch = names.map(|(n, m)| {
            let lane = Lane::ALL[n % 2];
            submission(&format!("m{m}@contoso.example"), &format!("{m}/{n}"), lane)
        });
        let ends = Rc::new(RefCell::new(Ends::new()));
        let tickets = handle.submit_many(batch).await;
        let waiting: Vec<_> = tickets
            .into_iter()
            .map(|ticket| {
                let (ticket, ends, clock) = (ticket.expect("taken in"), Rc::clone(&ends), Arc::clone(&clock));
                tokio::task::spawn_local(async move {
                    let id = ticket.operation_id().to_string();
                    let outcome = ticket.outcome().await.expect("tickets survive");
                    let outcome = format!("{outcome:?}");
                    ends.borrow_mut().insert(id, (clock.now(), outcome));
                })
            })
            .collect();
        for at in panics_at {
            tokio::time::sleep(START.after(millis(*at)).since(clock.now())).await;
            handle.sabotage(VICTIM).await.expect("told");
        }
        if !panics_at.is_empty() {
            // Long after the last of them: whatever is held by then waits for a person.
            tokio::time::sleep(seconds(300)).await;
            handle.resume(HoldScope::Mailbox(VICTIM.into()), Order::new("done")).await.expect("told");
        }
        for task in waiting {
            task.await.expect("no panic");
        }
        // Unknowns are looked up after a minute, after five, after half an hour.
        tokio::time::sleep(seconds(3_600)).await;
        let query =
            mailweir::store::OperationQuery { mailbox: Some(VICTIM.into()), limit: 1_000, ..Default::default() };
        let records = handle.operations(query).await.expect("a store");
        let accepted_in_store =
            records.iter().filter(|record| record.state == mailweir::engine::OperationState::Accepted).count();
        let victim = check::counts(victim.lock().expect("not poisoned").log().client());
        Run { ends: ends.take(), restarts: restarts.take(), held: held.take(), victim, accepted_in_store }
    })
}

fn watch(handle: &SchedulerHandle, restarts: &Rc<RefCell<Vec<u32>>>, held: &Rc<RefCell<Vec<u32>>>) {
    let (mut events, seen, left) = (handle.events(), Rc::clone(restarts), Rc::clone(held));
    tokio::task::spawn_local(async move {
        while let Some(event) = events.next().await {
            match event.map(|event| event.kind) {
                Ok(EventKind::ActorRestarted { mailbox, restarts, .. }) if &*mailbox == VICTIM => {
                    seen.borrow_mut().push(restarts);
                }
                Ok(EventKind::ActorHeld { mailbox, restarts, .. }) if &*mailbox == VICTIM => {
                    left.borrow_mut().push(restarts);
                }
                Ok(EventKind::ActorRestarted { mailbox, .. } | EventKind::ActorHeld { mailbox, .. }) => {
                    panic!("{mailbox} has done nothing")
                }
                _ => {}
            }
        }
    });
}

fn others(ends: &Ends) -> Vec<(&String, &(Timestamp, String))> {
    ends.iter().filter(|(id, _)| !id.starts_with("0/")).collect()
}

#[test]
fn a_mailbox_that_panics_goes_on_and_the_others_are_as_if_it_had_not() {
    for seed in 0..3 {
        let quiet = run(seed, 5, &[]);
        let loud = run(seed, 5, &[500, 1_500, 31_000, 62_000]);
        assert_eq!(loud.ends.len(), EACH * usize::try_from(MAILBOXES).expect("few"), "every ticket is answered");
        // The answer on which an engine broke is lost, so its ticket says that nobody knows: one per panic at most.
        let own = loud.ends.iter().filter(|(id, _)| id.starts_with("0/"));
        let unknown = own.filter(|(_, (_, outcome))| !outcome.starts_with("Accepted")).count();
        assert!(unknown <= 4, "{unknown} tickets do not say that the email was accepted");
        assert_eq!(loud.accepted_in_store, EACH, "and the look-up finds that it was");
        assert_eq!((loud.victim.executed, loud.victim.duplicates), (EACH as u64, 0), "sent once each");
        assert_eq!(loud.victim.refused, 0, "a rebuilt ledger remembers");
        assert_eq!((quiet.restarts.len(), loud.restarts.len(), loud.held.len()), (0, 4, 0));
        assert_eq!(others(&quiet.ends), others(&loud.ends), "seed {seed}: nobody else noticed");
        println!("seed {seed}: 4 panics, {} operations of others at equal instants", others(&loud.ends).len());
    }
}

#[test]
fn restarts_are_bounded_then_the_mailbox_is_held_and_the_others_are_as_if_it_were_not() {
    let quiet = run(5, 5, &[]);
    let loud = run(5, 2, &[500, 1_000, 1_500]);
    assert_eq!((loud.restarts, loud.held), (vec![1, 2], vec![2]), "two rebuilds, then it is left alone and reported");
    let after_the_resume = START.after(seconds(301));
    let late = loud.ends.iter().filter(|(id, (at, _))| id.starts_with("0/") && *at >= after_the_resume).count();
    assert!(late > 0, "what was held goes on when a person says so");
    assert_eq!((loud.victim.executed, loud.victim.duplicates), (EACH as u64, 0), "sent once each");
    assert_eq!(others(&quiet.ends), others(&loud.ends), "nobody else noticed");
}

/// Panics where an operation's id says: before its future is made, within it, or in a look-up.
#[derive(Debug)]
struct Panicking;

impl Transport for Panicking {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        assert!(!attempt.operation_id.starts_with("early"), "a transport that panics at once");
        Box::pin(async move {
            tokio::time::sleep(millis(100)).await;
            assert!(!attempt.operation_id.starts_with("late"), "a transport that panics in its task");
            Verdict::Accepted.into()
        })
    }

    fn batch_max(&self) -> usize {
        panic!("a transport that panics when asked for its batches")
    }

    fn reconcile(&self, _: Attempt) -> BoxFuture<'_, Option<bool>> {
        panic!("a transport that panics when it looks something up")
    }
}

#[test]
fn a_panicking_transport_makes_its_attempt_unknown_and_everything_else_goes_on() {
    paused(|| async {
        let clock = Arc::new(TokioClock::starting_at(START));
        let builder = Scheduler::builder(unlimited(), Panicking).clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let scheduler = builder.seeds([1, 2]).start_on_current_thread().await.expect("the scheduler starts");
        let handle = scheduler.handle();
        let mut events = handle.events();
        let ids = ["early", "fine-1", "late", "fine-2", "early-2", "fine-3", "late-2", "fine-4"];
        let mut unknown = Vec::new();
        for id in ids {
            let ticket = handle.submit(submission(MAILBOX, id, Lane::Foreground)).await.expect("taken in");
            match ticket.outcome().await.expect("an outcome") {
                Outcome::Accepted { .. } => {}
                Outcome::Unknown => unknown.push(id),
                outcome => panic!("{id}: {outcome:?}"),
            }
        }
        assert_eq!(unknown, ["early", "late", "early-2", "late-2"]);
        tokio::time::sleep(seconds(3_600)).await;
        for id in unknown {
            let record = handle.operation(id).await.expect("a store").expect("stored");
            assert_eq!(record.state, mailweir::engine::OperationState::Quarantined, "{id} is set aside, not repeated");
        }
        let panicked =
            |event: &mailweir::telemetry::SchedulerEvent| matches!(event.kind, EventKind::TransportPanicked { .. });
        assert_eq!(seen(&mut events).iter().filter(|event| panicked(event)).count(), 4);
    });
}
