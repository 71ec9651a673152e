//! One answer that some wait for: what a ticket holds, and who answers it.
//!
//! Every operation that waits has one, so it is small while nobody listens: the operation's id and one word, which
//! tickets and desk share. Room for listeners is made when somebody listens, or when nobody has and the answer comes. A
//! oneshot channel per ticket takes 88 bytes from the start, and the id a pointer more at either end.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use once_cell::race::OnceBox;
use triomphe::Arc as Shared;

use super::ticket::TicketError;
use crate::engine::mailbox::Outcome;
use crate::store::PackedId;

/// What the ends share.
#[derive(Debug)]
pub(super) struct Slip {
    id: PackedId,
    /// Empty: nobody has listened yet, and nothing was told.
    talk: OnceBox<Mutex<Talk>>,
}

#[derive(Debug)]
enum Talk {
    Waiting(Waiting),
    Told(Outcome),
    /// Whoever was to answer is gone.
    Gone,
}

/// Who listens.
#[derive(Debug, Default)]
struct Waiting {
    first: Option<Waker>,
    more: Vec<Waker>,
    /// Those who answer others that wait for the same.
    tellers: Vec<Teller>,
}

impl Slip {
    pub(super) fn id(&self) -> Arc<str> {
        self.id.text()
    }

    fn room(&self) -> &Mutex<Talk> {
        self.talk.get_or_init(|| Box::new(Mutex::new(Talk::Waiting(Waiting::default()))))
    }

    /// Puts an end to the waiting, unless there is one. Who waited is woken by the caller, without the lock.
    fn end(&self, end: Talk) -> Waiting {
        let mut talk = lock(self.room());
        let Talk::Waiting(waiting) = &mut *talk else { return Waiting::default() };
        let waiting = std::mem::take(waiting);
        *talk = end;
        waiting
    }
}

fn lock(room: &Mutex<Talk>) -> MutexGuard<'_, Talk> {
    room.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    fn add(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.more.push(waker);
        }
    }

    fn remove(&mut self, waker: &Waker) {
        if self.first.take_if(|first| first.will_wake(waker)).is_none()
            && let Some(at) = self.more.iter().position(|other| other.will_wake(waker))
        {
            self.more.swap_remove(at);
        }
    }

    fn wake(&mut self) {
        self.first.take().into_iter().chain(self.more.drain(..)).for_each(Waker::wake);
    }
}

/// Who answers. Dropped without an answer, it says that there will be none.
#[derive(Debug)]
pub(crate) struct Teller(Shared<Slip>);

impl Teller {
    pub(super) fn new(id: impl Into<PackedId>) -> Self {
        Self(Shared::new(Slip { id: id.into(), talk: OnceBox::new() }))
    }

    pub(super) fn id(&self) -> &PackedId {
        &self.0.id
    }

    /// One more end that will be answered.
    pub(super) fn slip(&self) -> Shared<Slip> {
        Shared::clone(&self.0)
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_closed(&self) -> bool {
        // Ends are only made here, so there is none when there is no other.
        let has_tellers = |talk: &Talk| matches!(talk, Talk::Waiting(waiting) if !waiting.tellers.is_empty());
        self.0.is_unique() && !self.0.talk.get().is_some_and(|room| has_tellers(&lock(room)))
    }

    /// Answers whoever waits for `other` too.
    pub(super) fn add(&self, other: Self) {
        if let Talk::Waiting(waiting) = &mut *lock(self.0.room()) {
            waiting.tellers.push(other);
        }
    }

    /// Answers everybody who waits.
    pub(crate) fn send(self, outcome: Outcome) {
        if self.is_closed() {
            return;
        }
        let mut waiting = self.0.end(Talk::Told(outcome.clone()));
        waiting.wake();
        waiting.tellers.drain(..).for_each(|teller| teller.send(outcome.clone()));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.0.is_unique() {
            self.0.end(Talk::Gone).wake();
        }
    }
}

/// Waits for the answer.
#[derive(Debug)]
pub(super) struct Listening {
    slip: Shared<Slip>,
    waker: Option<Waker>,
}

impl Listening {
    pub(super) const fn new(slip: Shared<Slip>) -> Self {
        Self { slip, waker: None }
    }
}

impl Future for Listening {
    type Output = Result<Outcome, TicketError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match &mut *lock(this.slip.room()) {
            Talk::Told(outcome) => Poll::Ready(Ok(outcome.clone())),
            Talk::Gone => Poll::Ready(Err(TicketError::Interrupted { operation_id: this.slip.id() })),
            Talk::Waiting(waiting) => {
                if !this.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    let waker = context.waker().clone();
                    if let Some(before) = this.waker.replace(waker.clone()) {
                        waiting.remove(&before);
                    }
                    waiting.add(waker);
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take()
            && let Some(room) = self.slip.talk.get()
            && let Talk::Waiting(waiting) = &mut *lock(room)
        {
            waiting.remove(&waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::task::noop_waker_ref;

    use super::*;

    fn teller() -> Teller {
        Teller::new(Arc::<str>::from("operation"))
    }

    fn poll(listening: &mut Listening) -> Poll<Result<Outcome, TicketError>> {
        listening.poll_unpin(&mut Context::from_waker(noop_waker_ref()))
    }

    #[test]
    fn everybody_hears_the_one_answer_however_late_they_listen() {
        let (teller, other) = (teller(), teller());
        let [mut early, mut late] = [teller.slip(), teller.slip()].map(Listening::new);
        let mut behind = Listening::new(other.slip());
        assert!(poll(&mut early).is_pending() && poll(&mut behind).is_pending());
        teller.add(other);
        teller.send(Outcome::Cancelled { maybe_sent: false });
        for listening in [&mut early, &mut late, &mut behind] {
            assert_eq!(poll(listening), Poll::Ready(Ok(Outcome::Cancelled { maybe_sent: false })));
        }
    }

    #[test]
    fn a_teller_that_goes_without_a_word_says_that() {
        let teller = teller();
        let [mut early, mut late] = [teller.slip(), teller.slip()].map(Listening::new);
        assert!(poll(&mut early).is_pending());
        drop(teller);
        let gone = Poll::Ready(Err(TicketError::Interrupted { operation_id: "operation".into() }));
        assert_eq!((poll(&mut early), poll(&mut late)), (gone.clone(), gone));
    }

    #[test]
    fn nobody_waits_when_the_last_end_is_gone() {
        let (teller, other) = (teller(), teller());
        let (slip, behind) = (teller.slip(), other.slip());
        assert!(!teller.is_closed());
        drop(slip);
        assert!(teller.is_closed());
        teller.add(other);
        assert!(!teller.is_closed());
        drop(behind);
    }

    #[test]
    fn who_listens_no_more_leaves_nothing_behind() {
        let teller = teller();
        for _ in 0..3 {
            assert!(poll(&mut Listening::new(teller.slip())).is_pending());
        }
        let room = lock(teller.0.room());
        let Talk::Waiting(waiting) = &*room else { panic!("nobody has told") };
        assert!(waiting.first.is_none() && waiting.more.is_empty());
    }

    #[test]
    fn a_slip_takes_thirty_two_bytes() {
        assert_eq!(size_of::<Slip>(), 32);
    }
}
