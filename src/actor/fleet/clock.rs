//! The store's time, on this process's monotonic clock.
//!
//! What processes write for each other has to be in one time, and clocks of machines differ. So this process goes by the
//! store's: its own clock, moved by what the store last said, never ahead of it and never back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::clock::Clock;
use crate::engine::Timestamp;

#[derive(Debug)]
pub(crate) struct FleetClock {
    own: Arc<dyn Clock>,
    /// What is added to the own clock, in microseconds.
    offset: AtomicI64,
    /// The latest that was shown.
    shown: AtomicU64,
}

impl FleetClock {
    pub(crate) fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, offset: AtomicI64::new(0), shown: AtomicU64::new(0) }
    }

    /// The store answered with its time just now. It has moved on since it said so, never the other way.
    pub(crate) fn set(&self, store: Timestamp) {
        let own = self.own.now().as_micros();
        let offset = i128::from(store.as_micros()) - i128::from(own);
        self.offset.store(i64::try_from(offset).unwrap_or(0), Ordering::Release);
    }
}

impl Clock for FleetClock {
    fn now(&self) -> Timestamp {
        let now = self.own.now().as_micros().saturating_add_signed(self.offset.load(Ordering::Acquire));
        Timestamp::from_micros(self.shown.fetch_max(now, Ordering::AcqRel).max(now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    #[derive(Debug)]
    struct ByHand(Mutex<u64>);

    impl Clock for ByHand {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(*self.0.lock().expect("not poisoned"))
        }
    }

    #[test]
    fn it_shows_the_stores_time_whatever_its_own_clock_says_and_never_steps_back() {
        let own = Arc::new(ByHand(Mutex::new(5_000_000)));
        let clock = FleetClock::new(Arc::clone(&own) as Arc<dyn Clock>);
        let store = Timestamp::from_micros(900_000_000);
        clock.set(store);
        assert_eq!(clock.now(), store);
        *own.0.lock().expect("not poisoned") += 1_000_000;
        let later = clock.now();
        assert_eq!(later, store.after(Duration::from_secs(1)));
        clock.set(store);
        assert_eq!(clock.now(), later, "it waits until the store is there");
    }
}
