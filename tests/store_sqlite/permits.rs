//! What a permit costs on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, join_all};
use mailweir::scheduler::Scheduler;
use mailweir::store::{CommitPoint, CommitProbe, Fate, SqliteOptions};
use mailweir::transport::{Answer, Attempt, Transport, Verdict};
use mailweir::{Config, Cost, Lane};

use crate::support::*;

#[derive(Debug)]
struct Nowhere;

impl Transport for Nowhere {
    fn send(&self, _: Attempt) -> BoxFuture<'_, Answer> {
        Box::pin(async { Verdict::Accepted.into() })
    }
}

#[test]
fn permits_that_are_asked_for_together_share_their_commits() {
    const COUNT: u64 = 256;
    let (place, commits) = (Place::new(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&commits);
    let probe = CommitProbe::new(move |point| {
        if let CommitPoint::After(number) = point {
            counted.store(number, Ordering::Relaxed);
        }
        Fate::GoOn
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = Config::default().mailbox_limits([]).application_limits([]);
        config.mailbox.concurrency = None;
        let store = place.open_with(SqliteOptions::new().commit_probe(probe));
        let scheduler = Scheduler::builder(config, Nowhere).store(store).start().await.unwrap();
        let handle = scheduler.handle();
        let mailbox = "noreply@contoso.example";
        let permits = (0..COUNT).map(|_| handle.acquire(mailbox, Cost::ONE_REQUEST, Lane::Foreground));
        let permits: Vec<_> = join_all(permits).await.into_iter().map(Result::unwrap).collect();
        let granted = commits.load(Ordering::Relaxed);
        permits.into_iter().for_each(|permit| permit.settle(Verdict::Accepted));
        scheduler.shutdown().await;
        let settled = commits.load(Ordering::Relaxed) - granted;
        println!("{COUNT} permits: {granted} commits to grant them, {settled} to settle them");
        assert!((1..=COUNT / 8).contains(&granted), "{granted} commits");
        assert!((1..=COUNT / 4).contains(&settled), "{settled} commits");
    });
}
