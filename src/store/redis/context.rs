//! What every call needs: the connection, names, clocks, and which mailbox a key belongs to.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use redis::Cmd;
use tokio::sync::Notify;

use super::instant::{Offset, Translation};
use super::link::Link;
use super::names::{Names, key_text};
use super::options::RedisOptions;
use super::{purge, value};
use crate::clock::Clock;
use crate::engine::{OperationKey, Timestamp};
use crate::store::StoreError;

/// Keys of one start: four thousand million. Generations have the 32 bits above.
const KEY_BITS: u32 = 32;
/// Routes remembered at most; above it they are asked for anew.
const ROUTES_MAX: usize = 1_000_000;

pub(super) struct Context {
    pub(super) link: Link,
    pub(super) names: Names,
    pub(super) options: Rc<RedisOptions>,
    pub(super) offset: Offset,
    /// Of this start: no other has it.
    pub(super) generation: u64,
    pub(super) routes: Routes,
    /// Ids whose rows are written: by shard.
    confirmed: RefCell<HashMap<String, Vec<Arc<str>>>>,
    /// The highest key of this start.
    last_key: Cell<OperationKey>,
    /// The mailbox up to which the house was looked after.
    pub(super) looked_at: Cell<String>,
    look_at: Cell<Timestamp>,
    /// Whether a scheduler has joined.
    joined: Cell<bool>,
    joins: Notify,
    /// The run of the server that members were last shown to.
    met: RefCell<String>,
    /// The latest time of the server that was told.
    told: Cell<u64>,
}

/// Which mailbox a key belongs to, as far as this process has seen.
#[derive(Default)]
pub(super) struct Routes(RefCell<HashMap<OperationKey, Arc<str>>>);

impl Routes {
    pub(super) fn find(&self, key: OperationKey) -> Option<Arc<str>> {
        self.0.borrow().get(&key).map(Arc::clone)
    }

    pub(super) fn learn(&self, key: OperationKey, mailbox: &Arc<str>) {
        let mut routes = self.0.borrow_mut();
        if routes.len() >= ROUTES_MAX {
            routes.clear();
        }
        routes.insert(key, Arc::clone(mailbox));
    }

    pub(super) fn forget(&self, key: OperationKey) {
        self.0.borrow_mut().remove(&key);
    }
}

impl Context {
    pub(super) fn new(link: Link, names: Names, options: Rc<RedisOptions>, offset: Offset, generation: u64) -> Self {
        let (routes, confirmed) = (Routes::default(), RefCell::default());
        let last_key = Cell::new(OperationKey(generation << KEY_BITS));
        let look_at = Cell::new(link.clock().now().after(options.clock_refresh));
        Self {
            link,
            names,
            options,
            offset,
            generation,
            routes,
            confirmed,
            last_key,
            looked_at: Cell::default(),
            look_at,
            joined: Cell::new(false),
            joins: Notify::new(),
            met: RefCell::default(),
            told: Cell::new(0),
        }
    }

    /// The highest key of this start; what is above it was never given out.
    pub(super) fn last_key(&self) -> OperationKey {
        self.last_key.get()
    }

    pub(super) fn given_out(&self, key: OperationKey) {
        self.last_key.set(self.last_key.get().max(key));
    }

    /// Adds a mailbox to the list of those that hold something.
    pub(super) fn list(&self, mailbox: Option<&str>, commands: &mut Vec<Cmd>) {
        if let Some(mailbox) = mailbox {
            let mut command = redis::cmd("ZADD");
            command.arg(self.names.global("mailboxes")).arg(0).arg(mailbox);
            commands.push(command);
            if self.joined.get() {
                // Whoever looks for mailboxes that nobody owns looks there.
                let mut command = redis::cmd("ZADD");
                command.arg(self.names.global("ends")).arg("NX").arg(0).arg(mailbox);
                commands.push(command);
            }
        }
    }

    pub(super) fn translation(&self) -> Translation {
        self.offset.now()
    }

    /// The latest of some instants, as Redis has it.
    pub(super) fn latest(&self, instants: impl Iterator<Item = Timestamp>) -> u64 {
        instants.max().map_or(0, |latest| self.translation().server(latest))
    }

    /// Learns the mailboxes of keys that are not known.
    ///
    /// # Errors
    /// The server was not asked.
    pub(super) async fn resolve(&self, keys: impl Iterator<Item = OperationKey>) -> Result<(), StoreError> {
        let unknown: HashSet<OperationKey> = keys.filter(|key| self.routes.find(*key).is_none()).collect();
        let unknown: Vec<OperationKey> = unknown.into_iter().collect();
        let ask = |key: &OperationKey| {
            let mut command = redis::cmd("HGET");
            command.arg(self.names.bucket(*key)).arg(key_text(*key));
            command
        };
        let commands: Vec<Cmd> = unknown.iter().map(ask).collect();
        for (key, answer) in unknown.iter().zip(self.link.run(&commands).await?) {
            if let Some(mailbox) = value::bytes(answer?)? {
                let mailbox: Arc<str> = String::from_utf8_lossy(&mailbox).into();
                self.routes.learn(*key, &mailbox);
            }
        }
        Ok(())
    }

    /// The row of an id is written: it need not be looked after any more.
    pub(super) fn confirm(&self, id: &Arc<str>) {
        self.confirmed.borrow_mut().entry(self.names.shard(id)).or_default().push(Arc::clone(id));
    }

    /// Commands that say so. What is lost with them is mended by looking after the house.
    pub(super) fn confirmations(&self) -> Vec<Cmd> {
        let confirmed = std::mem::take(&mut *self.confirmed.borrow_mut());
        let say = |(shard, ids): (String, Vec<Arc<str>>)| {
            let mut command = redis::cmd("ZREM");
            command.arg(format!("{shard}:pending"));
            for id in &ids {
                command.arg(&**id);
            }
            command
        };
        confirmed.into_iter().map(say).collect()
    }

    pub(super) fn join(&self) {
        self.joined.set(true);
        self.joins.notify_one();
    }

    /// Waits until a scheduler has joined.
    pub(super) async fn joined(&self) {
        while !self.joined.get() {
            self.joins.notified().await;
        }
    }

    pub(super) fn met(&self) -> String {
        self.met.borrow().clone()
    }

    pub(super) fn meet(&self, run: String) {
        *self.met.borrow_mut() = run;
    }

    /// A time of the server as it is told: never before the one told last.
    pub(super) fn forward(&self, time: u64) -> Timestamp {
        self.told.set(self.told.get().max(time));
        Timestamp::from_micros(self.told.get())
    }

    /// Now, as Redis has it.
    pub(super) fn now(&self) -> u64 {
        self.offset.of_clock().server(self.options.clock.now())
    }

    /// Whether it is time to look after the house; if so, the next time is set.
    pub(super) fn is_due(&self) -> bool {
        let now = self.link.clock().now();
        let due = now >= self.look_at.get();
        if due {
            self.look_at.set(now.after(self.options.clock_refresh));
        }
        due
    }

    /// What is done now and then: the clock, ids without rows, and what is due to be forgotten.
    pub(super) async fn look_after(&self) {
        // What fails is tried again: nobody waits for it.
        drop(self.link.refresh().await);
        drop(self.link.run(&self.confirmations()).await);
        drop(purge::pending(self).await);
        drop(purge::mailboxes(self).await);
    }
}
