//! Runs that several gates are read from, each run once.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;

use mailweir::upstream::Profile;

/// Profile, kind of run, pair, seed.
type Key = (Profile, &'static str, String, u64);

thread_local! {
    // Each profile has a thread of its own, which judges its gates one after the other.
    static KNOWN: RefCell<HashMap<Key, Box<dyn Any>>> = RefCell::default();
}

/// What `run` comes to; `key` names the run, and its result's type goes by its kind.
pub(crate) fn once<T: Copy + 'static>(key: Key, run: impl FnOnce() -> T) -> T {
    let known = KNOWN.with_borrow(|known| known.get(&key).and_then(|it| it.downcast_ref::<T>().copied()));
    known.unwrap_or_else(|| {
        let new = run();
        KNOWN.with_borrow_mut(|known| known.insert(key, Box::new(new)));
        new
    })
}
