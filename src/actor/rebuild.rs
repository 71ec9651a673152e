//! An engine from what is known of its mailbox: at start, and after it panicked.
//!
//! Only this mailbox waits meanwhile. Its tickets live at the desk and survive; attempts under way go on, and their
//! answers are heard if they say *accepted*. Requests for permits that were not granted are answered: ask again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::aside::Origin;
use super::desk::Entry;
use super::entrance::TurnedAway;
use super::journal::guard;
use super::kept;
use super::mailbox::{MailboxActor, Mode};
use super::past;
use super::permit::PermitError;
use super::reply::{Reading, Reply};
use super::restarts::Verdict;
use super::shared_item::SharedItem;
use crate::config::OnPanic;
use crate::engine::mailbox::{Hold, HoldTarget, Input, Mailbox, RestoredOperation};
use crate::engine::shared::Input as SharedInput;
use crate::engine::{OperationKey, Timestamp};
use crate::store::{Recovery, StoreError};
use crate::telemetry::EventKind;

/// Pause before the store is asked again.
pub(super) const RECOVER_RETRY: Duration = Duration::from_secs(1);

impl MailboxActor {
    pub(super) fn begin(&mut self, origin: Origin) {
        if self.world.fleet.is_some() && !matches!(origin, Origin::Held) {
            self.mode = Mode::Reading;
            return self.acquire();
        }
        match origin {
            Origin::Fresh => self.install(Mailbox::new(Arc::clone(self.seat.id()), Arc::clone(&self.policy))),
            Origin::Passivated(rested) => {
                self.install(rested.awake(Arc::clone(self.seat.id())));
                // It may have changed while the engine lay aside.
                self.step(Input::Reconfigure(Arc::clone(&self.policy)));
            }
            Origin::Recovered(recovery) => self.restore(*recovery),
            Origin::Stored => self.read(Mode::Reading),
            Origin::Lost => self.recover(),
            Origin::Held => self.mode = Mode::Held,
        }
    }

    fn install(&mut self, engine: Mailbox) {
        self.engine = Some(engine);
        self.mode = Mode::Live;
        self.begin_tenure();
        self.step(Input::AskShared(self.world.ask_shared()));
        let holds = &self.world.holds;
        let operations = self.desk.holds(&holds.of_operations(self.now));
        for hold in holds.of_mailbox(self.seat.id(), self.now).into_iter().chain(operations) {
            self.step(Input::Hold(hold));
        }
    }

    fn restore(&mut self, mut recovery: Recovery) {
        let mut taken = self.take_acceptances(&recovery);
        self.count_deaths(&recovery);
        // An answer on which the engine broke is lost, but the attempt has ended: it holds no connection any more.
        for attempt in &mut recovery.attempts {
            if self.desk.has_landed(attempt.key) {
                attempt.finished_at.get_or_insert(self.now);
            }
        }
        for record in &recovery.operations {
            if self.desk.get(record.key).is_none() {
                self.desk.insert(record.key, Entry::recovered(record));
            }
        }
        self.restore_given(&recovery);
        let charges = kept::charges(&recovery, self.horizon());
        let attempts: Vec<_> = charges.map(|record| past::attempt(&record)).collect();
        self.end_earlier_permits(&recovery.notes);
        self.restore_admissions(&recovery);
        self.install(Mailbox::new(Arc::clone(self.seat.id()), Arc::clone(&self.policy)));
        if let Some((_, memory)) = kept::breakers(&recovery.notes).next() {
            let now = self.now;
            self.guarded(None, |engine| engine.restore_breaker(now, memory));
        }
        if let Some(until) = self.world.trips.of_mailbox(self.seat.id(), self.now) {
            self.step(Input::Trip { until });
        }
        if self.drain.is_some() {
            self.step(Input::Hold(Hold::new(HoldTarget::Mailbox, Timestamp::NEVER)));
        }
        // Row by row: what is read of a million and what is built from it never stand side by side whole.
        let (world, requested) = (Arc::clone(&self.world), self.all_requested());
        let operations = std::mem::take(&mut recovery.operations).into_iter().map(|record| RestoredOperation {
            crashes: world.crashes().of(record.key),
            requested: requested.get(&record.key).copied(),
            accepted: taken.remove(&record.key),
            ..past::restored(&record)
        });
        let now = self.now;
        self.guarded(None, |engine| engine.restore(now, operations, &attempts));
        if self.engine.is_some() {
            self.end_vigil();
        }
        self.give_again();
    }

    /// Keys of an earlier life, and of this one where they are here already.
    fn restore_admissions(&mut self, recovery: &Recovery) {
        let named: HashSet<Arc<str>> = kept::admissions(&recovery.notes).map(|kept| kept.id).collect();
        if named.is_empty() {
            return;
        }
        let live = recovery.operations.iter().filter(|record| named.contains(&record.id));
        let live: HashMap<&str, OperationKey> = live.map(|record| (&*record.id, record.key)).collect();
        self.admissions.restore(self.now, kept::admissions(&recovery.notes), |id| live.get(id).copied());
    }

    /// The engine has panicked. What it held at the shared scopes stays charged there.
    pub(super) fn on_panic(&mut self) {
        let settings = self.world.settings.load();
        let actors = &settings.config.actors;
        let mailbox = Arc::clone(self.seat.id());
        self.without_engine();
        match self.restarts.count(self.now, actors) {
            Verdict::Rebuild(restarts) => {
                let reason = "panicked";
                self.world.reporter.report(self.now, EventKind::ActorRestarted { mailbox, restarts, reason });
                self.mode = Mode::Rebuilding;
            }
            Verdict::Hold(restarts) => {
                let reason = "panicked";
                self.world.reporter.report(self.now, EventKind::ActorHeld { mailbox, restarts, reason });
                self.mode = Mode::Held;
            }
        }
        if actors.on_panic == OnPanic::Abort {
            return self.abort();
        }
        if self.mode == Mode::Rebuilding {
            self.recover();
        }
    }

    /// The store will not work until a person mends it. What it did not take is kept for then, and nothing more comes
    /// of an engine whose word cannot be written.
    pub(super) fn hold_for_store(&mut self, error: &StoreError) {
        self.lose_engine();
        self.without_engine();
        for newcomer in self.journal.drain_inserts() {
            self.turn_away(newcomer, TurnedAway::MailboxHeld);
        }
        (self.recover_when_written, self.recover_at) = (false, None);
        self.leave_to_a_person(error);
    }

    /// Its words name the file, the row and the way out.
    fn leave_to_a_person(&mut self, error: &StoreError) {
        let (store, mailbox, error) = (self.world.store.kind(), Arc::clone(self.seat.id()), error.to_string().into());
        self.world.reporter.report(self.now, EventKind::StoreFailed { store, mailbox, error });
        let (mailbox, restarts, reason) = (Arc::clone(self.seat.id()), 0, "store damaged");
        self.world.reporter.report(self.now, EventKind::ActorHeld { mailbox, restarts, reason });
        self.mode = Mode::Held;
    }

    /// Lets go of what an engine had under way that is gone.
    pub(super) fn without_engine(&mut self) {
        self.uncharge_waiting();
        self.journal.drop_claims();
        self.to_shared.push(SharedItem::Input(SharedInput::MailboxGone(self.seat.key())));
        for reply in self.desk.take_waiting_permits() {
            reply.fail(PermitError::Interrupted);
        }
    }

    /// Reads back what the store knows. What is still being written comes first: a state that is read before its
    /// record is written would be an old one.
    pub(super) fn recover(&mut self) {
        self.read(Mode::Rebuilding);
    }

    pub(super) fn read(&mut self, mode: Mode) {
        self.mode = mode;
        self.write();
        if self.mode == Mode::Held {
            // The store took it no better than before.
            return;
        }
        if self.journal.is_busy() || self.journal.is_failing() {
            self.recover_when_written = true;
            return;
        }
        (self.recover_when_written, self.recover_at) = (false, None);
        let (store, mailbox) = (Arc::clone(&self.world.store), Arc::clone(self.seat.id()));
        let since = self.horizon();
        let readings = Arc::clone(&self.world.readings);
        self.reading += 1;
        let number = self.reading;
        let mut reading = Box::pin(async move {
            // Nobody closes it.
            let place = readings.acquire_owned().await.ok();
            Reading { number, recovery: guard(|| store.recover(since, Some(mailbox))).await, _place: place }
        });
        match reading.as_mut().now_or_never() {
            Some(reading) => self.on_recovered(reading),
            None => {
                let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seat));
                self.world.host.spawn(async move {
                    let reading = Box::new(reading.await);
                    world.reply(&seat, Reply::Recovered(reading));
                });
            }
        }
    }

    /// Goes on with a recovery that waited for the journal, or for the store.
    pub(super) fn recover_if_due(&mut self) {
        let written = self.recover_when_written && !self.journal.is_busy() && !self.journal.is_failing();
        if written || self.recover_at.is_some_and(|at| at <= self.now) {
            if self.mode == Mode::Remote {
                return self.acquire();
            }
            self.recover();
        }
    }

    pub(super) fn on_recovered(&mut self, reading: Reading) {
        let awaited = matches!(self.mode, Mode::Reading | Mode::Rebuilding) && reading.number == self.reading;
        if !awaited {
            return; // the mailbox was lost or held meanwhile, and may have been read anew since
        }
        match reading.recovery {
            Ok(recovery) => {
                self.desk.ground_claims();
                self.restore(recovery);
                for reply in std::mem::take(&mut self.postponed) {
                    self.on_reply(reply);
                }
            }
            Err(error) if error.is_retryable() => {
                // It may take a while: whoever asks meanwhile is told so.
                self.mode = Mode::Rebuilding;
                self.recover_at = Some(self.now.after(RECOVER_RETRY));
            }
            Err(error) => self.leave_to_a_person(&error),
        }
    }
}
