//! Rows and what they mean.
//!
//! Numbers that SQLite cannot hold are brought to its largest: an instant at or beyond 2^63 microseconds is read back
//! as "never", a count of bytes beyond it as 2^63 - 1. Fingerprints keep their 64 bits and may look negative.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Connection, ErrorCode, Row};

use super::fault::Fault;
use super::names::Names;
use crate::email::Email;
use crate::engine::mailbox::Record;
use crate::engine::operation::{OrderWords, Transition};
use crate::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use crate::store::{AttemptRecord, DamagedEmail, OperationRecord, StoreError};

/// The columns of an operation in the order that [`operation`] reads.
pub(super) const OPERATION: &str = "key, id, mailbox, tenant, campaign, lane, requests, recipients, \
    external_recipients, quota_units, bytes, state, submitted_at, not_before, deadline, changed_at, next_at, attempts, \
    attempt_rows, last_status, provider_id, maybe_sent, order_reason, ordered_by";

/// The columns of an attempt in the order that [`attempt`] reads.
pub(super) const ATTEMPT: &str = "operation, number, mailbox, tenant, lane, requests, recipients, external_recipients, \
    quota_units, bytes, claimed_at, finished_at, ended";

/// The columns of an email in the order that [`email`] reads, of the table `p`.
pub(super) const EMAIL: &str = "p.sender, p.recipients, p.mime, p.size";

/// An instant as it is stored.
pub(super) fn stamp(instant: Timestamp) -> i64 {
    number(instant.as_micros())
}

/// A count as it is stored.
pub(super) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A stored instant.
pub(super) const fn instant(stored: i64) -> Timestamp {
    if stored == i64::MAX { Timestamp::NEVER } else { Timestamp::from_micros(stored.unsigned_abs()) }
}

/// A lane as it is stored.
pub(super) const fn lane_number(lane: Lane) -> i64 {
    lane as i64
}

/// A state as it is stored: its place in [`OperationState::ALL`].
pub(super) const fn state_number(state: OperationState) -> i64 {
    state as i64
}

/// A stored state.
pub(super) fn state(stored: i64) -> Result<OperationState, Fault> {
    let found = usize::try_from(stored).ok().and_then(|place| OperationState::ALL.get(place));
    found.copied().ok_or_else(|| Fault::Row(format!("state {stored} is not one of 0 to 9")))
}

fn lane(stored: i64) -> Result<Lane, Fault> {
    let found = usize::try_from(stored).ok().and_then(|place| Lane::ALL.get(place));
    found.copied().ok_or_else(|| Fault::Row(format!("lane {stored} is not 0 or 1")))
}

/// Reads the columns of one row, one after the other.
struct Columns<'a, 'row> {
    row: &'a Row<'row>,
    next: usize,
}

impl<'a, 'row> Columns<'a, 'row> {
    fn take<T: FromSql>(&mut self) -> Result<T, Fault> {
        self.next += 1;
        Ok(self.row.get(self.next - 1)?)
    }

    fn instant(&mut self) -> Result<Timestamp, Fault> {
        Ok(instant(self.take()?))
    }

    fn cost(&mut self) -> Result<Cost, Fault> {
        Ok(Cost {
            requests: self.take()?,
            recipients: self.take()?,
            external_recipients: self.take()?,
            quota_units: self.take()?,
            bytes: self.take::<i64>()?.unsigned_abs(),
        })
    }

    /// Text without a copy of its own; `None` where it is null.
    fn text(&mut self) -> Result<Option<&'a str>, Fault> {
        self.next += 1;
        match self.row.get_ref(self.next - 1)? {
            ValueRef::Null => Ok(None),
            value => value.as_str().map(Some).map_err(|error| Fault::Row(format!("column {}: {error}", self.next))),
        }
    }

    fn order(&mut self) -> Result<Option<Arc<OrderWords>>, Fault> {
        let (reason, by) = (self.text()?.map(Arc::from), self.text()?.map(Arc::from));
        Ok(reason.map(|reason| Arc::new(OrderWords { reason, by, deadline: None })))
    }

    fn key(&mut self) -> Result<OperationKey, Fault> {
        Ok(OperationKey(self.take::<i64>()?.unsigned_abs()))
    }
}

/// One operation, from the columns [`OPERATION`].
pub(super) fn operation(row: &Row<'_>, connection: &Connection, names: &mut Names) -> Result<OperationRecord, Fault> {
    let mut columns = Columns { row, next: 0 };
    Ok(OperationRecord {
        key: columns.key()?,
        id: columns.text()?.unwrap_or_default().into(),
        mailbox: names.text(connection, columns.take()?)?,
        tenant: columns.take::<Option<i64>>()?.map(|tenant| names.text(connection, tenant)).transpose()?,
        campaign: columns.text()?.map(|campaign| names.shared(campaign)),
        lane: lane(columns.take()?)?,
        cost: columns.cost()?,
        state: state(columns.take()?)?,
        submitted_at: columns.instant()?,
        not_before: columns.instant()?,
        deadline: columns.instant()?,
        changed_at: columns.instant()?,
        next_at: columns.take::<Option<i64>>()?.map(instant),
        attempts: columns.take()?,
        rows: columns.take()?,
        last_status: columns.take()?,
        provider_id: columns.text()?.map(str::to_owned),
        maybe_sent: columns.take()?,
        order: columns.order()?,
    })
}

/// One attempt, from the columns [`ATTEMPT`].
pub(super) fn attempt(row: &Row<'_>, connection: &Connection, names: &mut Names) -> Result<AttemptRecord, Fault> {
    let mut columns = Columns { row, next: 0 };
    Ok(AttemptRecord {
        key: columns.key()?,
        attempt: columns.take()?,
        mailbox: names.text(connection, columns.take()?)?,
        tenant: columns.take::<Option<i64>>()?.map(|tenant| names.text(connection, tenant)).transpose()?,
        lane: lane(columns.take()?)?,
        cost: columns.cost()?,
        claimed_at: columns.instant()?,
        finished_at: columns.take::<Option<i64>>()?.map(instant),
        leaves: leaves(columns.text()?),
    })
}

/// How an attempt ended, as it is stored: the transition, and what it leaves charged where that does not tell.
pub(super) fn ended(record: &Record) -> Cow<'static, str> {
    let name = record.transition.as_str();
    if record.leaves == Leaves::after(record.transition) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("{name}:{}", record.leaves.as_str()))
}

/// What a stored end leaves charged. Earlier versions did not say of a throttle whose it was: it counts everywhere.
fn leaves(ended: Option<&str>) -> Leaves {
    let Some(ended) = ended else { return Leaves::All };
    match ended.split_once(':') {
        Some((_, word)) => Leaves::from_word(word),
        None => {
            let known = Transition::ALL.into_iter().find(|transition| transition.as_str() == ended);
            known.map_or(Leaves::All, Leaves::after)
        }
    }
}

/// The recipients of an email as one text. No address holds a line break.
pub(super) fn recipients(email: &Email) -> Cow<'_, str> {
    let mut recipients = email.recipients();
    let first = recipients.next().unwrap_or_default();
    if recipients.len() == 0 {
        return Cow::Borrowed(first);
    }
    let mut text = first.to_owned();
    for recipient in recipients {
        text.push('\n');
        text.push_str(recipient);
    }
    Cow::Owned(text)
}

/// One email, from the columns [`EMAIL`]; what is wrong with it, where it is not what was stored. It passes the checks it
/// passed when it was made.
pub(super) fn email(row: &Row<'_>) -> Result<Email, Fault> {
    let text = |column: usize, name: &str| {
        let text = row.get_ref(column)?.as_str();
        text.map_err(|_| Fault::Row(format!("its {name} cannot be read")))
    };
    let (sender, recipients) = (text(0, "sender")?, text(1, "recipients")?);
    let mime = row.get_ref(2)?.as_blob().map_err(|_| Fault::Row("its bytes cannot be read".to_owned()))?;
    if let Some(size) = row.get::<_, Option<i64>>(3)?.filter(|size| *size != number(mime.len() as u64)) {
        return Err(Fault::Row(format!("{} bytes of {size} are there", mime.len())));
    }
    Email::from_mime(sender, recipients.split('\n'), Arc::<[u8]>::from(mime))
        .map_err(|error| Fault::Row(format!("it would not be taken as it is: {error}")))
}

/// What is wrong with one email is that email's trouble alone, where it is not the whole file's.
pub(super) fn of_email(key: OperationKey, fault: Fault) -> Fault {
    let reason = match fault {
        Fault::Row(reason) => reason,
        Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            format!("its page cannot be read: {error}")
        }
        fault => return fault,
    };
    Fault::Answer(StoreError::EmailDamaged { emails: [DamagedEmail { key, reason: reason.into() }].into() })
}
