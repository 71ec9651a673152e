//! A thousand mailboxes under one application-wide throttle: one wait, one probe at a time, one ramp.
//!
//! A provider that blocks the application for 35 s and says *20 s* meets a thousand waiters. Had each a retry loop of
//! its own, the block would see thousands of refusals; here it sees the attempts that were in flight when it began,
//! and one probe that came too early.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::clock::{Clock, TokioClock};
use mailweir::config::Config;
use mailweir::engine::policy::{MailboxPolicy, ScopePolicy, SharedPolicy};
use mailweir::engine::{Event, Lane, Scope, ScopeKind, Timestamp};
use mailweir::simulation::{KeepEvents, Load, World};
use mailweir::upstream::{Block, Model, Refusals, RetryAfterPolicy, ScopeHeader, Upstream, UpstreamLimit, check};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::*;

const MAILBOXES: usize = 1_000;
const EACH: usize = 3;
const RATE: f64 = 10.0;
const RAMP: Duration = Duration::from_secs(30);

fn limit() -> UpstreamLimit {
    UpstreamLimit::requests(600, MINUTE).at_scope(ScopeKind::Application)
}

/// Blocked from second 60 to 95 of the run.
fn model(start: Timestamp) -> Model {
    let mut model = Model::new([limit()]);
    model.refusals = Refusals::Counted;
    model.retry_after = RetryAfterPolicy::Constant(20);
    model.scope_header = ScopeHeader::Path;
    let (from, until) = (start.after(seconds(60)), start.after(seconds(95)));
    model.blocks = vec![Block { scope: Scope::Application, from, until }];
    model
}

/// What the application's breaker did, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Opened,
    HalfOpened,
    Closed,
    Planned,
}

/// Loses nothing, however much happens at one instant: unlike a reader of `events()`, it is told at once.
#[derive(Clone, Debug)]
struct Watch {
    turns: Arc<Mutex<Vec<(Timestamp, Turn)>>>,
    clock: Arc<Mutex<Option<Arc<TokioClock>>>>,
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Watch {
    fn enabled(&self, meta: &tracing::Metadata<'_>, _: tracing_subscriber::layer::Context<'_, S>) -> bool {
        matches!(meta.target(), "mailweir::breaker" | "mailweir::resume")
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let turn = match event.metadata().name() {
            "breaker.scope.opened" => Turn::Opened,
            "breaker.scope.half_opened" => Turn::HalfOpened,
            "breaker.scope.closed" => Turn::Closed,
            "resume.wave.planned" => Turn::Planned,
            _ => return,
        };
        let clock = self.clock.lock().expect("not poisoned").clone();
        if let Some(clock) = clock {
            self.turns.lock().expect("not poisoned").push((clock.now(), turn));
        }
    }
}

/// The one cooldown of the run, in the order of its turns.
#[derive(Debug)]
struct Episode {
    opened: Vec<Timestamp>,
    half_opened: Vec<Timestamp>,
    ramp: Timestamp,
    closed: Timestamp,
}

impl Episode {
    fn of(turns: &[(Timestamp, Turn)]) -> Self {
        let all = |of| turns.iter().filter(|(_, turn)| *turn == of).map(|(at, _)| *at).collect::<Vec<_>>();
        let closed = all(Turn::Closed);
        assert_eq!((all(Turn::Opened).len(), all(Turn::HalfOpened).len(), closed.len()), (2, 2, 1), "{turns:?}");
        assert!(!all(Turn::Planned).is_empty(), "the resumption is announced");
        Self {
            opened: all(Turn::Opened),
            half_opened: all(Turn::HalfOpened),
            ramp: closed[0].before(RAMP),
            closed: closed[0],
        }
    }

    /// Spans in which one probe at a time may be out.
    fn probing(&self) -> [(Timestamp, Timestamp); 2] {
        [(self.half_opened[0], self.opened[1]), (self.half_opened[1], self.ramp)]
    }

    fn is_shut(&self, at: Timestamp) -> bool {
        self.opened.iter().zip(&self.half_opened).any(|(opened, half_opened)| *opened < at && at < *half_opened)
    }

    /// Sends that the ramp admits until `at`: a quarter of the rate at first, half after 15 s, all of it after 30 s.
    fn admitted(&self, at: Timestamp) -> f64 {
        let t = at.since(self.ramp).as_secs_f64();
        let (first, second) = (t.min(15.0), (t - 15.0).clamp(0.0, 15.0));
        RATE * (0.25 * (first + first * first / 30.0) + 0.5 * (second + second * second / 30.0))
    }
}

/// No two instants of the ramp have more sends between them than its pace admits.
fn keeps_the_ramp(episode: &Episode, sends: &[Timestamp]) {
    let sends: Vec<_> = sends.iter().copied().filter(|at| episode.ramp <= *at && *at < episode.closed).collect();
    assert!(sends.len() > 50, "the ramp lets them go: {}", sends.len());
    for (n, from) in sends.iter().enumerate() {
        for (count, to) in sends[n..].iter().enumerate() {
            let admitted = episode.admitted(*to) - episode.admitted(*from);
            #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
            let sent = count as f64;
            assert!(sent <= admitted + 1.5, "{sent} sends where {admitted:.2} were admitted");
        }
    }
}

fn probes_go_alone(episode: &Episode, flights: &[Flight]) {
    for (from, until) in episode.probing() {
        let mut probes: Vec<_> =
            flights.iter().filter(|flight| from <= flight.started && flight.started < until).collect();
        probes.sort_unstable_by_key(|flight| flight.started);
        assert!(!probes.is_empty());
        for pair in probes.windows(2) {
            assert!(pair[0].ended.is_some_and(|ended| ended <= pair[1].started), "one probe at a time: {pair:?}");
        }
    }
}

#[test]
fn a_thousand_mailboxes_share_one_cooldown_and_one_probe() {
    let watch = Watch { turns: Arc::default(), clock: Arc::default() };
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(watch.clone()));
    paused(|| async {
        let mut config = Config::default().mailbox_limits(limits(&["30 requests / 1m"]));
        config = config.application_limits(limits(&["600 requests / 1m"]));
        let bench = Bench::start(config, model(START), 7).await;
        *watch.clock.lock().expect("not poisoned") = Some(Arc::clone(&bench.clock));
        let batch = (0..MAILBOXES * EACH).map(|n| {
            let lane = if n % 30 == 0 { Lane::Foreground } else { Lane::Background };
            submission(&format!("m{}@contoso.example", n % MAILBOXES), &format!("op-{n}"), lane)
        });
        for ticket in bench.handle.submit_many(batch).await {
            accepted(ticket.expect("taken in")).await;
        }
        tokio::time::sleep(MINUTE).await;
        let (flights, done) = (bench.record.flights(), bench.clock.now().since(START));
        let episode = Episode::of(&watch.turns.lock().expect("not poisoned"));

        let in_flight = flights.iter().filter(|flight| flight.overlaps(episode.opened[0])).count();
        let refused: Vec<_> = flights.iter().filter(|flight| flight.outcome == "throttled").collect();
        let counts = check::counts(bench.upstream().log().client());
        assert_eq!(counts.refused, refused.len() as u64);
        assert_eq!((counts.executed, counts.duplicates), ((MAILBOXES * EACH) as u64, 0), "0 lost, none twice");
        // Those in flight when the first refusal was heard, that one, and one probe too early.
        assert!(refused.len() <= in_flight + 2, "{} refusals, {in_flight} were in flight", refused.len());

        probes_go_alone(&episode, &flights);
        let shut = flights.iter().filter(|flight| episode.is_shut(flight.started)).count();
        assert_eq!(shut, 0, "nothing leaves during the cooldown");
        let starts: Vec<_> = flights.iter().map(|flight| flight.started).collect();
        keeps_the_ramp(&episode, &starts);
        let most = check::max_in_window(bench.upstream().log().client(), &limit());
        assert!(most <= 600, "{most} in a window of 600");

        // When each mailbox was let go, seen from the end of the cooldown.
        let mut resumed = BTreeMap::new();
        for flight in flights.iter().filter(|flight| flight.started >= episode.half_opened[1]) {
            resumed.entry(Arc::clone(&flight.mailbox)).or_insert(flight.started);
        }
        let instants: BTreeSet<_> = resumed.values().copied().collect();
        let (first, last) = (instants.first().expect("some"), instants.last().expect("some"));
        assert!(resumed.len() > MAILBOXES / 2, "{} mailboxes were waiting", resumed.len());
        assert!(last.since(*first) >= RAMP, "resumptions are spread: {:?}", last.since(*first));
        println!(
            "application cooldown: {} 429s ({in_flight} in flight at the trip), {} mailboxes resumed over {:?}, \
             at most {most} per minute of 600, done after {done:?}, {} timer wakes",
            refused.len(),
            resumed.len(),
            last.since(*first),
            bench.handle.timer_wakes(),
        );
    });
}

#[test]
fn the_bare_engines_share_one_cooldown_and_one_probe() {
    let scope = |texts: &[&str]| ScopePolicy { limits: limits(texts), concurrency: None };
    let mailbox = MailboxPolicy {
        scope: ScopePolicy { concurrency: NonZeroU32::new(4), ..scope(&["30 requests / 1m"]) },
        ..MailboxPolicy::default()
    };
    let shared = SharedPolicy { application: scope(&["600 requests / 1m"]), ..SharedPolicy::default() };
    let (mailbox, shared) = (Arc::new(mailbox), Arc::new(shared));
    let start = World::new(0, &mailbox, None, Upstream::new(Model::default(), 0)).start();
    let upstream = Upstream::new(model(start), 7);
    let mut world = World::new(MAILBOXES, &mailbox, Some(shared), upstream).keep_events(KeepEvents::Yes);
    for n in 0..MAILBOXES * EACH {
        let lane = if n % 30 == 0 { Lane::Foreground } else { Lane::Background };
        world.submit(start, &Load::new(lane).mailbox(n % MAILBOXES));
    }
    world.run_to_end(start.after(seconds(3_600)));
    assert_eq!(world.pending(), 0);
    let done = world.now().since(start);
    world.run_until(world.now().after(MINUTE));

    let turns = world.events().iter().filter_map(|(at, event)| match event {
        Event::BreakerOpened { scope: Scope::Application, .. } => Some((*at, Turn::Opened)),
        Event::BreakerHalfOpened { scope: Scope::Application, .. } => Some((*at, Turn::HalfOpened)),
        Event::BreakerClosed { scope: Scope::Application, .. } => Some((*at, Turn::Closed)),
        Event::ResumePlanned { scope: Scope::Application, .. } => Some((*at, Turn::Planned)),
        _ => None,
    });
    let episode = Episode::of(&turns.collect::<Vec<_>>());
    let ended: BTreeMap<_, _> = world
        .events()
        .iter()
        .filter_map(|(at, event)| match event {
            Event::AttemptFinished { key, .. } => Some(((key.0.to_string(), *at), ())),
            _ => None,
        })
        .collect();
    let log = world.upstream().log();
    let counts = check::counts(log.client());
    assert_eq!((counts.executed, counts.duplicates), ((MAILBOXES * EACH) as u64, 0), "0 lost, none twice");
    // What arrived within a round trip of the trip was in flight; after it only probes are refused.
    let late: Vec<_> =
        log.client().filter(|it| it.status == 429 && it.at > episode.opened[0].after(seconds(2))).collect();
    assert_eq!(late.len(), 1, "one probe came too early: {late:?}");
    for (from, until) in episode.probing() {
        let probes: Vec<_> = log.client().filter(|it| from <= it.at && it.at < until).collect();
        assert!(!probes.is_empty());
        for pair in probes.windows(2) {
            let key = pair[0].key.to_string();
            let answered = ended.range((key.clone(), pair[0].at)..=(key, pair[1].at)).next();
            assert!(answered.is_some(), "one probe at a time: {pair:?}");
        }
    }
    let most = check::max_in_window(log.client(), &limit());
    assert!(most <= 600, "{most} in a window of 600");
    println!("engines alone: {} 429s, at most {most} per minute of 600, done after {done:?}", counts.refused);
    assert!(counts.refused < 20, "{} 429s", counts.refused);
}
