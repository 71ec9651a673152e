//! The span of an attempt.
//!
//! A subscriber of `tracing` runs in here. One that panics costs its span, and nothing else: the attempt goes on, and ends
//! as the transport says.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use tracing::Span;

/// A span out of which no panic of a subscriber comes.
#[derive(Debug)]
pub(super) struct AttemptSpan(Span);

impl AttemptSpan {
    pub(super) fn begin(make: impl FnOnce() -> Span) -> Self {
        Self(outlast(make).unwrap_or_else(Span::none))
    }

    /// Does `work` in the span.
    pub(super) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            let entered = outlast(|| self.0.enter());
            let polled = work.as_mut().poll(context);
            let _lost = outlast(|| drop(entered));
            polled
        })
        .await
    }

    /// Says something about it.
    pub(super) fn mark(&self, mark: impl FnOnce(&Span)) {
        let _lost = outlast(|| mark(&self.0));
    }
}

impl Drop for AttemptSpan {
    fn drop(&mut self) {
        let span = std::mem::replace(&mut self.0, Span::none());
        let _lost = outlast(|| drop(span));
    }
}

/// `None` when it panicked.
fn outlast<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
