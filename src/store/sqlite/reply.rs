//! Answers to calls, laid down together and then told.
//!
//! The callers of one group are often tasks of one thread. Told one after the other, that thread wakes, finds one
//! answer, and sleeps until the next one: two changes of thread for each call, which cost more than to write it. So all
//! answers of a group are laid down first. Then callers are woken, and the first of them that runs wakes the others as
//! well, in its own thread, where that costs next to nothing. The writer goes on waking all the same, so nobody depends
//! on a caller that does not run.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A promise and who waits for it.
pub(super) fn promise<T>() -> (Promise<T>, Pending<T>) {
    let slot = Arc::new(Slot(Mutex::new(State::Open(None))));
    (Promise(Arc::clone(&slot)), Pending(slot))
}

/// An answer that is owed. Dropped, it is told that there will be none.
pub(super) struct Promise<T>(Arc<Slot<T>>);

/// Waits for an answer; `None`: there will be none.
pub(super) struct Pending<T>(Arc<Slot<T>>);

struct Slot<T>(Mutex<State<T>>);

enum State<T> {
    Open(Option<Waker>),
    /// With who else may be woken.
    Kept(T, Option<Arc<Callers>>),
    Over,
}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise")
    }
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing under this lock panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Promise<T> {
    /// Lays the answer down and wakes who waits for it.
    pub(super) fn keep(self, answer: T) {
        self.put(answer, None).into_iter().for_each(Waker::wake);
    }

    /// Lays the answer down. Who waits for it is woken with `callers`.
    pub(super) fn keep_with(self, answer: T, callers: &Arc<Callers>) {
        if let Some(waker) = self.put(answer, Some(callers)) {
            callers.wakers().push_back(waker);
        }
    }

    fn put(&self, answer: T, callers: Option<&Arc<Callers>>) -> Option<Waker> {
        let mut state = self.0.state();
        let State::Open(waker) = &mut *state else { return None };
        let waker = waker.take();
        let others = callers.filter(|_| waker.is_some()).map(Arc::clone);
        *state = State::Kept(answer, others);
        waker
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let State::Open(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Over;
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.state();
        if let State::Open(waiting) = &mut *state {
            match waiting {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waiting = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let State::Kept(answer, others) = std::mem::replace(&mut *state, State::Over) else { return Poll::Ready(None) };
        drop(state);
        if let Some(others) = others {
            others.wake();
        }
        Poll::Ready(Some(answer))
    }
}

/// Callers whose answers are there.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<VecDeque<Waker>>);

impl Callers {
    fn wakers(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all that nobody else has woken. One at a time: whoever is woken here takes over what it can.
    pub(super) fn wake(&self) {
        loop {
            let next = self.wakers().pop_front();
            match next {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::task::{ArcWake, waker};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl ArcWake for Woken {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Somebody who waits, and how often they were woken.
    struct Caller {
        woken: Arc<Woken>,
        pending: Pending<u32>,
    }

    impl Caller {
        fn new() -> (Promise<u32>, Self) {
            let (promise, pending) = promise();
            let mut caller = Self { woken: Arc::default(), pending };
            assert_eq!(caller.poll(), Poll::Pending);
            (promise, caller)
        }

        fn poll(&mut self) -> Poll<Option<u32>> {
            let waker = waker(Arc::clone(&self.woken));
            self.pending.poll_unpin(&mut Context::from_waker(&waker))
        }

        fn woken(&self) -> usize {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_first_that_finds_its_answer_wakes_the_others_and_nobody_is_woken_twice() {
        let (first, mut one) = Caller::new();
        let (second, two) = Caller::new();
        let callers = Arc::new(Callers::default());
        first.keep_with(1, &callers);
        second.keep_with(2, &callers);
        assert_eq!((one.woken(), two.woken()), (0, 0), "laid down, not told");
        assert_eq!(one.poll(), Poll::Ready(Some(1)));
        assert_eq!((one.woken(), two.woken()), (1, 1));
        callers.wake();
        assert_eq!((one.woken(), two.woken()), (1, 1));
        assert_eq!(one.poll(), Poll::Ready(None), "an answer is told once");
    }

    #[test]
    fn the_writer_wakes_everybody_where_no_caller_runs() {
        let (first, one) = Caller::new();
        let (second, mut two) = Caller::new();
        let callers = Arc::new(Callers::default());
        first.keep_with(1, &callers);
        drop(one);
        second.keep_with(2, &callers);
        callers.wake();
        assert_eq!((two.woken(), two.poll()), (1, Poll::Ready(Some(2))));
    }

    #[test]
    fn a_promise_that_is_kept_alone_or_broken_is_told_at_once() {
        let (promise, mut caller) = Caller::new();
        promise.keep(7);
        assert_eq!((caller.woken(), caller.poll()), (1, Poll::Ready(Some(7))));
        let (promise, mut caller) = Caller::new();
        drop(promise);
        assert_eq!((caller.woken(), caller.poll()), (1, Poll::Ready(None)));
        let (promise, pending) = self::promise::<u32>();
        promise.keep(8);
        assert_eq!(pending.now_or_never(), Some(Some(8)), "answered before anybody asked");
    }
}
