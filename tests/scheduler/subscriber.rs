//! A subscriber of `tracing` that panics: it loses its spans, and nobody else loses anything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailweir::Outcome;
use mailweir::transport::{Answer, Subject, Verdict};
use tokio::time::timeout;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::*;

/// Panics where it is told to, and counts how often.
#[derive(Clone, Default)]
struct Panicking(Arc<Mutex<(&'static str, usize)>>);

impl Panicking {
    fn panic_in(&self, place: &'static str) {
        *self.0.lock().expect("no panic while it holds the lock") = (place, 0);
    }

    fn panics(&self) -> usize {
        self.0.lock().expect("no panic while it holds the lock").1
    }

    fn is_in(&self, place: &'static str) {
        let mut told = self.0.lock().expect("no panic while it holds the lock");
        let here = told.0 == place;
        told.1 += usize::from(here);
        drop(told);
        assert!(!here, "a test asked for this panic");
    }
}

impl Subscriber for Panicking {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.is_in("new_span");
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        self.is_in("record");
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        self.is_in("enter");
    }

    fn exit(&self, _: &Id) {
        self.is_in("exit");
    }

    fn try_close(&self, _: Id) -> bool {
        self.is_in("try_close");
        true
    }
}

#[test]
fn attempts_end_as_the_transport_says_although_a_subscriber_panics() {
    paused(|| async {
        let subscriber = Panicking::default();
        // With one alone, whichever test comes first to a span decides for all whether it is wanted.
        let _second = tracing::Dispatch::new(subscriber.clone());
        let _guard = tracing::subscriber::set_default(subscriber.clone());
        let transport = Scripted::new(|attempt| {
            let id = attempt.operation_id.to_string();
            async move {
                if id.contains("slow") {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                match id.contains("refused") {
                    true => Answer::from(Verdict::Permanent { of: Subject::Message }),
                    false => Verdict::Accepted.into(),
                }
            }
        });
        let scheduler = start(unlimited(), transport.clone()).await;
        let handle = scheduler.handle();
        for place in ["new_span", "enter", "exit", "record", "try_close", "nowhere"] {
            subscriber.panic_in(place);
            for (id, accepted) in [("at-once", true), ("slow", true), ("refused", false), ("slow-refused", false)] {
                let id = format!("{id}-{place}");
                let ticket = handle.submit(foreground(&id)).await.expect("taken in");
                let outcome = timeout(Duration::from_secs(600), ticket.outcome()).await;
                let outcome = outcome.unwrap_or_else(|_| panic!("{id} is not sent"));
                assert_eq!(matches!(outcome, Ok(Outcome::Accepted { .. })), accepted, "{id}: {outcome:?}");
                assert_eq!(matches!(outcome, Ok(Outcome::Rejected { .. })), !accepted, "{id}: {outcome:?}");
            }
            assert_eq!(subscriber.panics() > 0, place != "nowhere", "{place}");
        }
        assert_eq!(transport.count(), 24, "each once");
    });
}
