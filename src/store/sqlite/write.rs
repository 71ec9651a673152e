//! What inserts, claims and records do to the rows, within a transaction that somebody else ends.
//!
//! Statements are prepared once. The rules are the store's own (`rules`): here they become SQL.

use std::collections::HashSet;

use rusqlite::{Connection, Statement};

use super::fault::Fault;
use super::names::Names;
use super::notes::Notes;
use super::options::{PayloadRetention, SqliteOptions};
use super::purge::Oldest;
use super::row;
use super::tally::Tally;
use super::unused::Walk;
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::{OperationKey, OperationState, Timestamp};
use crate::store::rules::{ClaimRule, RecordRule, Seen, impossible, is_over, taken_key};
use crate::store::{Claim, Inserted, NewOperation, NoteChange, OperationRecord, StoreError};

/// Keys end here: SQLite's integers have a sign.
const KEY_MAX: u64 = i64::MAX.unsigned_abs();

pub(super) struct Writes<'c> {
    pub(super) connection: &'c Connection,
    pub(super) names: Names,
    pub(super) tally: Tally<'c>,
    /// The latest instant any call has named: the clock of retention.
    pub(super) latest: Timestamp,
    pub(super) oldest: Oldest,
    pub(super) walk: Walk,
    live_max: u64,
    keeps_payloads: bool,
    insert: Statement<'c>,
    insert_payload: Statement<'c>,
    by_id: Statement<'c>,
    by_key: Statement<'c>,
    claim: Statement<'c>,
    insert_attempt: Statement<'c>,
    payload: Statement<'c>,
    update: Statement<'c>,
    order: Statement<'c>,
    end_attempt: Statement<'c>,
    drop_payload: Statement<'c>,
    keep_payload: Statement<'c>,
    notes: Notes<'c>,
}

/// An operation's row as far as writing needs it.
struct Found {
    seen: Seen,
    mailbox: i64,
}

impl<'c> Writes<'c> {
    pub(super) fn new(connection: &'c Connection, options: &SqliteOptions) -> Result<Self, Fault> {
        let prepare = |sql: &str| connection.prepare(sql);
        Ok(Self {
            connection,
            names: Names::default(),
            tally: Tally::new(connection)?,
            latest: Timestamp::EPOCH,
            oldest: Oldest::UNKNOWN,
            walk: Walk::UNKNOWN,
            live_max: options.live_max,
            keeps_payloads: matches!(options.payloads, PayloadRetention::Keep { .. }),
            insert: prepare(
                "INSERT INTO operation (key, id, fingerprint, mailbox, tenant, campaign, lane, requests, recipients,
                 external_recipients, quota_units, bytes, state, submitted_at, not_before, deadline, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?14)
                 ON CONFLICT DO NOTHING",
            )?,
            insert_payload: prepare(
                "INSERT INTO payload (key, sender, recipients, mime, size) VALUES (?1, ?2, ?3, ?4, length(?4))",
            )?,
            by_id: prepare(&format!("SELECT {}, fingerprint FROM operation WHERE id = ?1", row::OPERATION))?,
            by_key: prepare("SELECT state, changed_at, attempts, attempt_rows, mailbox FROM operation WHERE key = ?1")?,
            claim: prepare(
                "UPDATE operation SET state = 2, changed_at = ?2, next_at = NULL, attempt_rows = ?3 WHERE key = ?1",
            )?,
            insert_attempt: prepare(
                "INSERT INTO attempt (operation, number, mailbox, tenant, lane, requests, recipients,
                 external_recipients, quota_units, bytes, claimed_at)
                 SELECT key, ?2, mailbox, tenant, lane, ?3, ?4, ?5, ?6, ?7, ?8 FROM operation WHERE key = ?1",
            )?,
            payload: prepare(&format!("SELECT {} FROM payload p WHERE p.key = ?1", row::EMAIL))?,
            update: prepare(
                "UPDATE operation SET state = ?2, changed_at = ?3, next_at = ?4, attempts = ?5,
                 last_status = coalesce(?6, last_status), provider_id = coalesce(?7, provider_id),
                 maybe_sent = max(maybe_sent, ?8) WHERE key = ?1",
            )?,
            order: prepare(
                "UPDATE operation SET order_reason = ?2, ordered_by = ?3, deadline = coalesce(?4, deadline)
                 WHERE key = ?1",
            )?,
            end_attempt: prepare(
                "UPDATE attempt SET finished_at = ?3, ended = ?4, status = ?5 WHERE operation = ?1 AND number = ?2",
            )?,
            drop_payload: prepare("DELETE FROM payload WHERE key = ?1")?,
            keep_payload: prepare("INSERT INTO kept_payload (ended_at, key) VALUES (?1, ?2)")?,
            notes: Notes::new(connection, options)?,
        })
    }

    /// The transaction never was.
    pub(super) fn roll_back(&mut self) {
        self.tally.roll_back();
        self.notes.roll_back();
        self.names.clear();
        self.oldest = Oldest::UNKNOWN;
        self.walk = Walk::UNKNOWN;
    }

    /// Stores the whole batch or, for a reason that it answers with, nothing of it.
    pub(super) fn insert_all(&mut self, batch: &[NewOperation]) -> Result<Result<Vec<Inserted>, StoreError>, Fault> {
        if let Some(new) = batch.iter().find(|new| new.key.0 > KEY_MAX) {
            let reason = format!("operation {}: keys end at {KEY_MAX}", new.key.0);
            return Ok(Err(StoreError::Contradiction { reason }));
        }
        let held = OperationState::ALL.into_iter().filter(|state| !is_over(*state));
        let held: u64 = held.map(|state| self.tally.count(state)).sum();
        let room = self.live_max.saturating_sub(held);
        if batch.len() as u64 > room && self.count_new(batch)? > room {
            let bound = format!("live_max = {} operations that are live or quarantined", self.live_max);
            return Ok(Err(StoreError::Full { bound }));
        }
        let notes = batch.iter().filter_map(|new| new.note.as_ref());
        if let Err(full) = self.notes.room(self.connection, &mut self.tally, self.latest, notes)? {
            return Ok(Err(full));
        }
        batch.iter().map(|new| self.insert_noted(new)).collect::<Result<_, _>>().map(Ok)
    }

    /// Ids of the batch that are not there, each once.
    fn count_new(&mut self, batch: &[NewOperation]) -> Result<u64, Fault> {
        let mut fresh = HashSet::new();
        for new in batch {
            if !self.by_id.exists([&*new.id])? {
                fresh.insert(&*new.id);
            }
        }
        Ok(fresh.len() as u64)
    }

    fn insert_noted(&mut self, new: &NewOperation) -> Result<Inserted, Fault> {
        let inserted = self.insert_one(new)?;
        if inserted == Inserted::Conflict {
            // Its names were numbered, and nothing may bear them.
            self.walk.is_owed();
        }
        if let Some(note) = new.note.as_ref().filter(|_| inserted != Inserted::Conflict) {
            self.notes.keep(self.connection, &mut self.names, &mut self.tally, note)?;
            self.latest = self.latest.max(note.at);
        }
        Ok(inserted)
    }

    /// Keeps and forgets the whole batch or, when there is no room for it, nothing.
    pub(super) fn keep(&mut self, batch: &[NoteChange]) -> Result<Result<(), StoreError>, Fault> {
        let kept = batch.iter().filter_map(|change| match change {
            NoteChange::Keep(note) => Some(note),
            NoteChange::Drop(_) => None,
        });
        if let Err(full) = self.notes.room(self.connection, &mut self.tally, self.latest, kept)? {
            return Ok(Err(full));
        }
        for change in batch {
            match change {
                NoteChange::Keep(note) => {
                    self.notes.keep(self.connection, &mut self.names, &mut self.tally, note)?;
                    self.latest = self.latest.max(note.at);
                }
                NoteChange::Drop(key) => {
                    if self.notes.drop(self.connection, &mut self.tally, key)? > 0 && key.mailbox.is_some() {
                        self.walk.is_owed();
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    /// Forgets notes that are over, at most `count`.
    pub(super) fn forget_notes(&mut self, count: usize) -> Result<(), Fault> {
        if self.notes.forget(&mut self.tally, self.latest, count)? > 0 {
            self.walk.is_owed();
        }
        Ok(())
    }

    fn insert_one(&mut self, new: &NewOperation) -> Result<Inserted, Fault> {
        let first = new.first_row();
        let mailbox = self.names.number(self.connection, &new.mailbox)?;
        let tenant = new.tenant.as_ref().map(|tenant| self.names.number(self.connection, tenant)).transpose()?;
        if self.write_row(new, &first, mailbox, tenant)? == 0 {
            return self.meet(new);
        }
        let email = &new.email;
        let recipients = row::recipients(email);
        self.insert_payload.execute((row::number(new.key.0), email.sender(), recipients, email.mime()))?;
        self.tally.added(mailbox, first.state);
        self.latest = self.latest.max(new.submitted_at);
        Ok(Inserted::New)
    }

    fn write_row(
        &mut self,
        new: &NewOperation,
        first: &OperationRecord,
        mailbox: i64,
        tenant: Option<i64>,
    ) -> rusqlite::Result<usize> {
        self.insert.execute(rusqlite::params![
            row::number(new.key.0),
            &*new.id,
            new.fingerprint.cast_signed(),
            mailbox,
            tenant,
            new.campaign.as_deref(),
            row::lane_number(new.lane),
            new.cost.requests,
            new.cost.recipients,
            new.cost.external_recipients,
            new.cost.quota_units,
            row::number(new.cost.bytes),
            row::state_number(first.state),
            row::stamp(new.submitted_at),
            row::stamp(new.not_before),
            row::stamp(new.deadline),
        ])
    }

    /// Something with this id is there.
    fn meet(&mut self, new: &NewOperation) -> Result<Inserted, Fault> {
        let (connection, names) = (self.connection, &mut self.names);
        let mut rows = self.by_id.query([&*new.id])?;
        let Some(found) = rows.next()? else {
            return Err(Fault::Answer(taken_key(new.key)));
        };
        if found.get::<_, i64>("fingerprint")?.cast_unsigned() == new.fingerprint {
            Ok(Inserted::Existing(Box::new(row::operation(found, connection, names)?)))
        } else {
            Ok(Inserted::Conflict)
        }
    }

    fn find(&mut self, key: OperationKey) -> Result<Option<Found>, Fault> {
        let mut rows = self.by_key.query([row::number(key.0)])?;
        let Some(found) = rows.next()? else { return Ok(None) };
        let seen = Seen {
            state: row::state(found.get(0)?)?,
            changed_at: row::instant(found.get(1)?),
            attempts: found.get(2)?,
            rows: found.get(3)?,
        };
        Ok(Some(Found { seen, mailbox: found.get(4)? }))
    }

    /// Writes all attempt rows and answers with what to send; or names what is damaged of that, and who asked undoes the
    /// transaction.
    pub(super) fn claim_all(&mut self, batch: &[Claim]) -> Result<Vec<Option<Email>>, Fault> {
        let (mut answers, mut damaged) = (Vec::with_capacity(batch.len()), Vec::new());
        for claim in batch {
            match self.claim(claim) {
                Ok(email) => answers.push(email),
                Err(Fault::Answer(StoreError::EmailDamaged { emails })) => damaged.extend_from_slice(&emails),
                Err(fault) => return Err(fault),
            }
        }
        if damaged.is_empty() {
            return Ok(answers);
        }
        Err(Fault::Answer(StoreError::EmailDamaged { emails: damaged.into() }))
    }

    /// Writes one attempt row and answers with what to send.
    fn claim(&mut self, claim: &Claim) -> Result<Option<Email>, Fault> {
        let Some(found) = self.find(claim.key)? else { return Ok(None) };
        match found.seen.claim(claim.attempt) {
            ClaimRule::Refuse => return Ok(None),
            ClaimRule::Repeat => {}
            ClaimRule::Write => {
                let (key, at, cost) = (row::number(claim.key.0), row::stamp(claim.at), &claim.cost);
                let bytes = row::number(cost.bytes);
                self.insert_attempt.execute((
                    key,
                    claim.attempt,
                    cost.requests,
                    cost.recipients,
                    cost.external_recipients,
                    cost.quota_units,
                    bytes,
                    at,
                ))?;
                self.claim.execute((key, at, claim.attempt))?;
                self.tally.moved(found.mailbox, found.seen.state, OperationState::Attempting);
                self.latest = self.latest.max(claim.at);
                self.oldest.attempt = self.oldest.attempt.min(claim.at);
            }
        }
        self.email(claim.key).map(Some).map_err(|fault| row::of_email(claim.key, fault))
    }

    fn email(&mut self, key: OperationKey) -> Result<Email, Fault> {
        let mut rows = self.payload.query([row::number(key.0)])?;
        row::email(rows.next()?.ok_or_else(|| Fault::Row("its row is missing".to_owned()))?)
    }

    /// Moves one operation along a listed transition. The inner answer is for the caller; the store is well.
    pub(super) fn record(&mut self, record: &Record) -> Result<Result<(), StoreError>, Fault> {
        // Not there: it ended long ago and was forgotten.
        let Some(found) = self.find(record.key)? else { return Ok(Ok(())) };
        match found.seen.record(record) {
            Err(illegal) => Ok(Err(impossible(record.key, illegal))),
            Ok(RecordRule::Skip) => Ok(Ok(())),
            Ok(RecordRule::Apply) => self.apply(&found, record).map(Ok),
        }
    }

    fn apply(&mut self, found: &Found, record: &Record) -> Result<(), Fault> {
        let (key, at, from) = (row::number(record.key.0), row::stamp(record.at), found.seen.state);
        if from == OperationState::Attempting {
            // A lost attempt is not known to have ended: its charge counts from its claim.
            let finished = record.transition.ends_attempt().then_some(at);
            let how = row::ended(record);
            self.end_attempt.execute((key, found.seen.rows, finished, how, record.status))?;
        }
        self.update.execute((
            key,
            row::state_number(record.state),
            at,
            record.next_at.map(row::stamp),
            record.attempts,
            record.status,
            record.provider_id.as_deref(),
            record.maybe_sent,
        ))?;
        if let Some(order) = &record.order {
            self.order.execute((key, &*order.reason, order.by.as_deref(), order.deadline.map(row::stamp)))?;
        }
        self.tally.moved(found.mailbox, from, record.state);
        self.latest = self.latest.max(record.at);
        if is_over(record.state) {
            self.oldest.ended = self.oldest.ended.min(record.at);
            if self.keeps_payloads {
                self.keep_payload.execute((at, key))?;
                self.tally.kept_moved(1);
            } else {
                self.drop_payload.execute([key])?;
            }
        }
        Ok(())
    }
}
