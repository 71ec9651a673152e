//! Operations of which the process dies, again and again: they are set aside, and nothing else is.
//!
//! A process that dies is a scheduler that is dropped while attempts are out; the next one opens the same store later.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mailweir::clock::TokioClock;
use mailweir::engine::policy::DuplicatePolicy;
use mailweir::engine::{OperationState, Sent, Timestamp};
use mailweir::scheduler::{HoldScope, Order};
use mailweir::store::{CrashNote, MemoryStore, NoteBody, Store};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Config, Scheduler, SchedulerHandle};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// From the start of one process to that of the next: longer than one lives here, and shorter than an unknown is looked up.
const LIFE: Duration = Duration::from_secs(1_200);

/// What happens to an attempt on `bad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bad {
    /// The process dies.
    Kills,
    /// It fails, and the process lives.
    Fails,
}

/// Accepts everything but `bad`, and never knows what became of an attempt: absent.
#[derive(Clone, Debug)]
struct Deadly {
    bad: Arc<Mutex<Bad>>,
    dies: Arc<Notify>,
    sends: Arc<Mutex<BTreeMap<String, u32>>>,
    /// Attempts under way whose operation was sent before, and the most at once.
    again: Arc<AtomicUsize>,
    again_max: Arc<AtomicUsize>,
}

impl Deadly {
    fn new() -> Self {
        Self {
            bad: Arc::new(Mutex::new(Bad::Kills)),
            dies: Arc::default(),
            sends: Arc::default(),
            again: Arc::default(),
            again_max: Arc::default(),
        }
    }

    fn sends(&self, id: &str) -> u32 {
        self.sends.lock().expect("not poisoned").get(id).copied().unwrap_or_default()
    }
}

impl Transport for Deadly {
    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Answer> {
        let id = attempt.operation_id.to_string();
        let count = {
            let mut sends = self.sends.lock().expect("not poisoned");
            let count = sends.entry(id.clone()).or_default();
            *count += 1;
            *count
        };
        if count > 1 {
            let now = self.again.fetch_add(1, Ordering::SeqCst) + 1;
            self.again_max.fetch_max(now, Ordering::SeqCst);
        }
        let fate = (id == "bad").then(|| *self.bad.lock().expect("not poisoned"));
        async move {
            // It kills before the others have come to an end.
            sleep(if fate.is_some() { SECOND / 5 } else { SECOND / 2 }).await;
            let answer = match fate {
                None => Verdict::Accepted,
                Some(Bad::Fails) => Verdict::Transient { sent: Sent::Maybe, retry_after: None },
                Some(Bad::Kills) => {
                    self.again.store(0, Ordering::SeqCst);
                    self.dies.notify_one();
                    std::future::pending().await
                }
            };
            if count > 1 {
                let _ = self.again.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| now.checked_sub(1));
            }
            answer.into()
        }
        .boxed()
    }

    fn reconcile(&self, _: Attempt) -> BoxFuture<'_, Option<bool>> {
        async { Some(false) }.boxed()
    }
}

/// The n-th process over a store.
struct Lives {
    store: MemoryStore,
    transport: Deadly,
    config: Config,
    begun: Timestamp,
}

impl Lives {
    fn new() -> Self {
        let mut config = unlimited();
        config.retry.duplicates = DuplicatePolicy::AtLeastOnce;
        config.shutdown.drain_deadline = Duration::ZERO;
        Self { store: MemoryStore::default(), transport: Deadly::new(), config, begun: START }
    }

    async fn next(&mut self) -> Scheduler {
        self.begun = self.begun.after(LIFE);
        Scheduler::builder(self.config.clone(), self.transport.clone())
            .clock(Arc::new(TokioClock::starting_at(self.begun)))
            .seeds([1, 2])
            .store(self.store.clone())
            .start_on_current_thread()
            .await
            .expect("it starts")
    }

    /// A process that lives until `bad` kills it.
    async fn until_it_kills(&mut self, then: impl AsyncFnOnce(&SchedulerHandle)) -> Scheduler {
        let scheduler = self.next().await;
        then(&scheduler.handle()).await;
        timeout(LIFE, self.transport.dies.notified()).await.expect("it is sent");
        scheduler
    }

    /// The same process, gone.
    async fn until_it_dies(&mut self, then: impl AsyncFnOnce(&SchedulerHandle)) {
        drop(self.until_it_kills(then).await);
        // What was under way has nobody any more to tell.
        sleep(SECOND).await;
    }

    async fn state(&self, id: &str) -> OperationState {
        self.store.operation(id).await.expect("a store").expect("stored").state
    }

    /// The counts that are kept.
    async fn crashes(&self) -> Vec<CrashNote> {
        let notes = self.store.recover(Timestamp::EPOCH, None).await.expect("a store").notes;
        let count = |body| if let NoteBody::Crash(count) = body { Some(count) } else { None };
        notes.into_iter().filter_map(|note| count(note.body)).collect()
    }
}

async fn submit(handle: &SchedulerHandle, ids: &[&str]) {
    for result in handle.submit_many(ids.iter().map(|id| foreground(id))).await {
        drop(result.expect("taken in"));
    }
}

#[test]
fn what_kills_three_processes_in_a_row_is_set_aside_and_its_company_is_sent() {
    paused(|| async {
        let mut lives = Lives::new();
        let company = ["a", "b", "c", "d"];
        lives.until_it_dies(async |handle| submit(handle, &["a", "b", "bad", "c", "d"]).await).await;
        lives.transport.again_max.store(0, Ordering::SeqCst);
        for died in [1, 2] {
            let kept = lives.crashes().await.into_iter().map(|count| count.deaths).max();
            assert_eq!(kept, (died > 1).then_some(died - 1), "written by the process after it");
            lives.until_it_dies(async |_| {}).await;
        }
        assert_eq!(lives.transport.sends("bad"), 3);
        assert_eq!(lives.transport.again_max.load(Ordering::SeqCst), 1, "suspects go one at a time");
        let _last = lives.next().await;
        sleep(HOUR).await;
        assert_eq!((lives.state("bad").await, lives.transport.sends("bad")), (OperationState::Quarantined, 3));
        for id in company {
            assert_eq!(lives.state(id).await, OperationState::Accepted, "{id}");
            assert!(lives.transport.sends(id) <= 3, "{id}");
        }
        let kept = lives.crashes().await;
        assert_eq!(kept.iter().map(|count| (count.panics, count.deaths)).collect::<Vec<_>>(), [(0, 3)], "{kept:?}");
    });
}

#[test]
fn a_process_that_is_stopped_as_it_should_be_has_not_died() {
    paused(|| async {
        let mut lives = Lives::new();
        for life in 0..5 {
            let scheduler = lives
                .until_it_kills(async |handle| {
                    if life == 0 {
                        submit(handle, &["bad"]).await;
                    }
                })
                .await;
            assert_eq!(scheduler.shutdown().await.unknown, 1);
            assert_eq!(lives.state("bad").await, OperationState::Unknown, "written before it ended");
        }
        assert_eq!((lives.transport.sends("bad"), lives.crashes().await), (5, Vec::new()));
    });
}

#[test]
fn an_attempt_that_ends_clears_its_operation() {
    paused(|| async {
        let mut lives = Lives::new();
        lives.config.retry.attempts_max = 100.try_into().expect("not zero");
        lives.until_it_dies(async |handle| submit(handle, &["bad"]).await).await;
        lives.until_it_dies(async |_| {}).await;
        // Two deaths; then it fails, and the process lives.
        *lives.transport.bad.lock().expect("not poisoned") = Bad::Fails;
        let scheduler = lives.next().await;
        let before = lives.transport.sends("bad");
        while lives.transport.sends("bad") < before + 2 {
            sleep(SECOND).await;
        }
        assert_eq!(lives.crashes().await, Vec::new());
        *lives.transport.bad.lock().expect("not poisoned") = Bad::Kills;
        timeout(LIFE, lives.transport.dies.notified()).await.expect("it is sent");
        drop(scheduler);
        sleep(SECOND).await;
        lives.until_it_dies(async |_| {}).await;
        assert_eq!(lives.state("bad").await, OperationState::Attempting, "two in a row");
    });
}

#[test]
fn panics_are_counted_over_restarts() {
    paused(|| async {
        let mut lives = Lives::new();
        lives.config.retry.crashes_max = 2.try_into().expect("not zero");
        lives.config.retry.duplicates = DuplicatePolicy::AtMostOnce;
        let scheduler = lives.next().await;
        let handle = scheduler.handle();
        handle.sabotage_operation(MAILBOX, "bad").await.expect("told");
        submit(&handle, &["bad"]).await;
        sleep(SECOND).await;
        // It broke when it came in, and when it was to be claimed: that is two, and it is set aside.
        assert_eq!((lives.state("bad").await, lives.transport.sends("bad")), (OperationState::Quarantined, 0));
        assert_eq!(lives.crashes().await.first().map(|count| count.panics), Some(2));
        scheduler.shutdown().await;
        let scheduler = lives.next().await;
        let handle = scheduler.handle();
        let order = Order::new("once more").deadline(HOUR);
        handle.release("bad", order).await.expect("an answer");
        timeout(LIFE, lives.transport.dies.notified()).await.expect("it is sent");
        drop(scheduler);
        sleep(SECOND).await;
        let _scheduler = lives.next().await;
        sleep(SECOND).await;
        assert_eq!((lives.state("bad").await, lives.transport.sends("bad")), (OperationState::Quarantined, 1));
        let kept = lives.crashes().await;
        assert_eq!(
            kept.iter().map(|count| (count.panics, count.deaths)).collect::<Vec<_>>(),
            [(1, 1)],
            "its release took one off"
        );
    });
}

#[test]
fn a_release_from_poison_outlives_a_restart_before_its_attempt() {
    paused(|| async {
        let mut lives = Lives::new();
        lives.until_it_dies(async |handle| submit(handle, &["bad"]).await).await;
        for _ in 0..2 {
            lives.until_it_dies(async |_| {}).await;
        }
        let scheduler = lives.next().await;
        sleep(SECOND).await;
        assert_eq!(lives.state("bad").await, OperationState::Quarantined);
        let (handle, mailbox) = (scheduler.handle(), HoldScope::Mailbox(MAILBOX.into()));
        handle.hold(mailbox.clone(), Order::new("a deploy").expires_in(LIFE * 10)).await.expect("held");
        handle.release("bad", Order::new("once more").deadline(HOUR * 9)).await.expect("an answer");
        scheduler.shutdown().await;
        let scheduler = lives.next().await;
        sleep(SECOND).await;
        assert_ne!(lives.state("bad").await, OperationState::Quarantined, "a person has let it go on");
        scheduler.handle().resume(mailbox, Order::new("deployed")).await.expect("resumed");
        timeout(LIFE, lives.transport.dies.notified()).await.expect("it is sent once");
        drop(scheduler);
        sleep(SECOND).await;
        let _scheduler = lives.next().await;
        sleep(SECOND).await;
        assert_eq!((lives.state("bad").await, lives.transport.sends("bad")), (OperationState::Quarantined, 4));
    });
}
