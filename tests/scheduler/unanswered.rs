//! Calls that are under way when the scheduler stops: each is answered, and nobody waits for ever.

use std::fmt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use mailweir::clock::{Clock, SystemClock};
use mailweir::engine::Timestamp;
use mailweir::scheduler::{AskError, Order};
use mailweir::store::Store;
use mailweir::{Outcome, Scheduler, SubmitError};
use tokio::time::{sleep, timeout};

use crate::faulty::Faulty;
use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn a_submission_that_is_being_stored_when_the_scheduler_is_dropped_is_interrupted() {
    paused(|| async {
        let store = Faulty::default();
        let built = builder(unlimited(), Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        store.faults().late = Some(SECOND * 30);
        let handle = scheduler.handle();
        let one = tokio::spawn(async move { handle.submit(foreground("one")).await });
        let handle = scheduler.handle();
        let several = tokio::spawn(async move { handle.submit_many([foreground("two"), foreground("three")]).await });
        sleep(SECOND).await;
        drop(scheduler);
        let one = timeout(HOUR, one).await.expect("nobody waits for ever").expect("no panic");
        assert!(matches!(&one, Err(SubmitError::Interrupted { id }) if &**id == "one"), "{one:?}");
        for answer in timeout(HOUR, several).await.expect("nobody waits for ever").expect("no panic") {
            assert!(matches!(answer, Err(SubmitError::Interrupted { .. })), "{answer:?}");
        }
        assert!(store.operation("one").await.expect("a store").is_some(), "it may be stored all the same");
    });
}

#[test]
fn a_submission_that_outlasts_the_drain_is_interrupted() {
    paused(|| async {
        let store = Faulty::default();
        let mut config = unlimited();
        config.shutdown.drain_deadline = SECOND * 2;
        let built = builder(config, Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        store.faults().late = Some(SECOND * 30);
        let handle = scheduler.handle();
        let submitted = tokio::spawn(async move { handle.submit(foreground("one")).await });
        sleep(SECOND).await;
        let report = timeout(SECOND * 4, scheduler.shutdown()).await.expect("a second after its deadline");
        assert_eq!(report.accepted, 0);
        let submitted = timeout(HOUR, submitted).await.expect("nobody waits for ever").expect("no panic");
        assert!(matches!(submitted, Err(SubmitError::Interrupted { .. })), "{submitted:?}");
    });
}

#[test]
fn an_order_whose_row_is_being_read_when_the_scheduler_is_dropped_is_answered() {
    paused(|| async {
        let store = Faulty::default();
        let built = builder(limited("1 requests / 1h"), Scripted::accepting()).store(store.clone());
        let scheduler = built.start_on_current_thread().await.expect("starts");
        let handle = scheduler.handle();
        for id in ["sent", "aside"] {
            drop(handle.submit(foreground(id)).await.expect("taken in"));
        }
        handle.quarantine("aside", Order::new("wrong list")).await.expect("set aside");
        sleep(SECOND).await;
        // One reading is the caller's own, the next one the actor's.
        store.faults().late = Some(SECOND * 30);
        let released = tokio::spawn(async move { handle.release("aside", Order::new("it was right")).await });
        sleep(SECOND * 45).await;
        assert!(!released.is_finished());
        drop(scheduler);
        let released = timeout(HOUR, released).await.expect("nobody waits for ever").expect("no panic");
        assert!(matches!(released, Err(AskError::ShuttingDown)), "{released:?}");
    });
}

type Word = Box<dyn FnOnce() + Send>;

/// A clock that has something happen in the middle of a call: when it is next looked at on the thread that asked for that.
struct Interjecting {
    inner: SystemClock,
    word: Mutex<Option<(ThreadId, Word)>>,
}

impl Interjecting {
    fn interject(&self, word: impl FnOnce() + Send + 'static) {
        let word: Word = Box::new(word);
        *self.word.lock().unwrap_or_else(PoisonError::into_inner) = Some((std::thread::current().id(), word));
    }
}

impl fmt::Debug for Interjecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interjecting")
    }
}

impl Clock for Interjecting {
    fn now(&self) -> Timestamp {
        let mine = |(thread, _): &mut (ThreadId, Word)| *thread == std::thread::current().id();
        let word = self.word.lock().unwrap_or_else(PoisonError::into_inner).take_if(mine);
        if let Some((_, word)) = word {
            word();
        }
        self.inner.now()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_had_begun_before_the_scheduler_stopped_is_answered() {
    let clock = Arc::new(Interjecting { inner: SystemClock::new(), word: Mutex::default() });
    let built = Scheduler::builder(limited("1 requests / 1h"), Scripted::accepting()).clock(clock.clone());
    let scheduler = built.start().await.expect("starts");
    let handle = scheduler.handle();
    let sent = handle.submit(submission("sent")).await.expect("taken in");
    assert!(matches!(sent.outcome().await, Ok(Outcome::Accepted { .. })));
    let waits = handle.submit(submission("waits")).await.expect("taken in");
    let (host, (tell, told)) = (tokio::runtime::Handle::current(), channel());
    std::thread::spawn(move || {
        let inside = host.clone();
        clock.interject(move || {
            drop(scheduler);
            // Told by an actor that goes after the one that closes all doors.
            let interrupted = std::thread::spawn(move || inside.block_on(waits.outcome())).join().expect("no panic");
            assert!(interrupted.is_err(), "{interrupted:?}");
        });
        // Nobody has this mailbox yet, so its seat is taken after the look whether the scheduler runs.
        drop(tell.send(host.block_on(handle.mailbox("other@contoso.example"))));
    });
    let told = tokio::task::spawn_blocking(move || told.recv_timeout(SECOND * 30)).await.expect("no panic");
    assert!(matches!(told, Ok(Err(AskError::ShuttingDown))), "{told:?}");
}
