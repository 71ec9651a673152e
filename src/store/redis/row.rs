//! Rows, attempts, emails and notes as text, and back.
//!
//! What scripts look at stands in the first line of a row, as numbers; the form is described in `scripts/row.lua`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::instant::{NEVER, Translation};
use super::names::{key_of, key_text};
use crate::email::Email;
use crate::engine::operation::OrderWords;
use crate::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use crate::store::{AttemptRecord, NewOperation, Note, NoteKey, NoteKind, OperationRecord};

/// What is wrong with something that was read.
pub(super) type Wrong = String;

/// What never changes, as JSON at the end of a row.
#[derive(Serialize, Deserialize)]
struct Fixed<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    campaign: Option<std::borrow::Cow<'a, str>>,
    cost: Cost,
    at: u64,
}

/// A row as it was read.
pub(super) struct Row {
    pub(super) record: OperationRecord,
    pub(super) fingerprint: u64,
}

/// A state as it is stored: its place in [`OperationState::ALL`].
pub(super) const fn state_digit(state: OperationState) -> u8 {
    b'0' + state as u8
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Wrong> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}

/// The first row of an operation.
pub(super) fn first(new: &NewOperation, to: Translation, generation: u64) -> Result<String, Wrong> {
    let row = new.first_row();
    let campaign = new.campaign.as_deref().map(Into::into);
    let fixed = Fixed { id: (&*new.id).into(), campaign, cost: new.cost, at: to.server(new.submitted_at) };
    Ok(format!(
        "{}|{}|{generation:x}|{}||0|0||{}|{}|{}|{:x}\n\n\n{}\n{}",
        row.state as u8,
        fixed.at,
        new.submitted_at.as_micros(),
        new.lane as u8,
        to.server(new.not_before),
        to.server(new.deadline),
        new.fingerprint,
        new.tenant.as_deref().map(|tenant| json(&tenant)).transpose()?.unwrap_or_default(),
        json(&fixed)?,
    ))
}

/// The id of an operation, from its row.
pub(super) fn id_of(row: &[u8]) -> Result<String, Wrong> {
    let fixed = row.splitn(5, |byte| *byte == b'\n').nth(4).ok_or("a row without its last line")?;
    serde_json::from_slice::<Fixed<'_>>(fixed).map(|fixed| fixed.id.into_owned()).map_err(|error| error.to_string())
}

/// Stands behind the status of an operation that may have been sent.
pub(super) const MAYBE_SENT: char = '!';

struct Head<'a> {
    parts: std::str::Split<'a, char>,
}

impl<'a> Head<'a> {
    fn text(&mut self) -> Result<&'a str, Wrong> {
        self.parts.next().ok_or_else(|| "a row with too few numbers".to_owned())
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, Wrong> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("{text:?} where a number belongs"))
    }

    fn maybe<T: std::str::FromStr>(&mut self) -> Result<Option<T>, Wrong> {
        let text = self.text()?;
        let wrong = |_| format!("{text:?} where a number belongs");
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(wrong) }
    }

    /// A status, and whether it is marked as that of an operation that may have been sent.
    fn status(&mut self) -> Result<(Option<u16>, bool), Wrong> {
        let text = self.text()?;
        let bare = text.strip_suffix(MAYBE_SENT).unwrap_or(text);
        let wrong = |_| format!("{text:?} where a status belongs");
        let status = if bare.is_empty() { None } else { Some(bare.parse().map_err(wrong)?) };
        Ok((status, bare.len() < text.len()))
    }

    fn lane(&mut self) -> Result<Lane, Wrong> {
        let lane: usize = self.number()?;
        Lane::ALL.get(lane).copied().ok_or_else(|| format!("lane {lane}"))
    }

    fn cost(&mut self) -> Result<Cost, Wrong> {
        let (requests, recipients, external_recipients) = (self.number()?, self.number()?, self.number()?);
        Ok(Cost { requests, recipients, external_recipients, quota_units: self.number()?, bytes: self.number()? })
    }
}

fn maybe_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Option<T>, Wrong> {
    if text.is_empty() { Ok(None) } else { serde_json::from_str(text).map(Some).map_err(|error| error.to_string()) }
}

/// One operation of `mailbox`.
pub(super) fn operation(key: OperationKey, mailbox: &Arc<str>, row: &[u8], to: Translation) -> Result<Row, Wrong> {
    let row = std::str::from_utf8(row).map_err(|error| error.to_string())?;
    let mut lines = row.splitn(5, '\n');
    let mut line = || lines.next().ok_or("a row with too few lines");
    let (head, provider, order, tenant, fixed) = (line()?, line()?, line()?, line()?, line()?);
    let mut head = Head { parts: head.split('|') };
    let state: usize = head.number()?;
    let state = OperationState::ALL.get(state).copied().ok_or_else(|| format!("state {state}"))?;
    let changed_at = to.local(head.number()?);
    let _ = (head.text()?, head.text()?);
    let next_at = head.maybe()?.map(|next_at| to.local(next_at));
    let (attempts, rows, (last_status, maybe_sent)) = (head.number()?, head.number()?, head.status()?);
    let (lane, not_before, deadline) = (head.lane()?, to.local(head.number()?), to.local(head.number()?));
    let fingerprint = u64::from_str_radix(head.text()?, 16).map_err(|error| error.to_string())?;
    let fixed: Fixed<'_> = serde_json::from_str(fixed).map_err(|error| error.to_string())?;
    let record = OperationRecord {
        key,
        id: fixed.id.into(),
        mailbox: Arc::clone(mailbox),
        lane,
        tenant: maybe_json::<String>(tenant)?.map(Into::into),
        campaign: fixed.campaign.map(Into::into),
        cost: fixed.cost,
        state,
        submitted_at: to.local(fixed.at),
        not_before,
        deadline,
        changed_at,
        next_at,
        attempts,
        rows,
        last_status,
        provider_id: maybe_json(provider)?,
        maybe_sent,
        order: maybe_json::<Said>(order)?.map(|said| {
            Arc::new(OrderWords { reason: said.reason.into(), by: said.by.map(Into::into), deadline: None })
        }),
    };
    Ok(Row { record, fingerprint })
}

/// A person's words, as JSON in a row.
#[derive(Serialize, Deserialize)]
struct Said {
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// A person's words.
pub(super) fn order(words: &OrderWords) -> Result<String, Wrong> {
    json(&Said { reason: words.reason.to_string(), by: words.by.as_deref().map(str::to_owned) })
}

/// Costs as they stand in an attempt.
pub(super) fn cost(cost: &Cost) -> String {
    let Cost { requests, recipients, external_recipients, quota_units, bytes } = cost;
    format!("{requests}|{recipients}|{external_recipients}|{quota_units}|{bytes}")
}

/// One attempt: `KEY.NUMBER`, and `finished|lane|costs|tenant`; behind its end, after a colon, what it leaves charged, if
/// that is not all.
pub(super) fn attempt(
    mailbox: &Arc<str>,
    member: &[u8],
    claimed_at: u64,
    value: &[u8],
    to: Translation,
) -> Result<AttemptRecord, Wrong> {
    let key = key_of(member).ok_or("an attempt without a key")?;
    let number = member.get(17..).and_then(|number| std::str::from_utf8(number).ok()).ok_or("an attempt's number")?;
    let value = std::str::from_utf8(value).map_err(|error| error.to_string())?;
    let mut head = Head { parts: value.split('|') };
    let finished = head.text()?;
    let (finished, leaves) =
        finished.split_once(':').map_or((finished, Leaves::All), |(at, word)| (at, Leaves::from_word(word)));
    let finished_at = match finished {
        "" => None,
        at => Some(to.local(at.parse().map_err(|_| format!("{at:?} where an instant belongs"))?)),
    };
    let (lane, cost) = (head.lane()?, head.cost()?);
    // A tenant's name may hold bars.
    let tenant = value.splitn(8, '|').nth(7).unwrap_or_default();
    Ok(AttemptRecord {
        key,
        attempt: number.parse().map_err(|_| format!("attempt {number:?}"))?,
        mailbox: Arc::clone(mailbox),
        lane,
        tenant: maybe_json::<String>(tenant)?.map(Into::into),
        cost,
        claimed_at: to.local(claimed_at),
        finished_at,
        leaves,
    })
}

/// An email: sender and recipients, a line each, an empty line, its bytes. No address holds a line break.
pub(super) fn mail(email: &Email) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(email.mime().len() + 64);
    bytes.extend_from_slice(email.sender().as_bytes());
    for recipient in email.recipients() {
        bytes.push(b'\n');
        bytes.extend_from_slice(recipient.as_bytes());
    }
    bytes.extend_from_slice(b"\n\n");
    bytes.extend_from_slice(email.mime());
    bytes
}

/// What [`mail`] wrote. It passes the checks it passed when it was made.
pub(super) fn email(bytes: &[u8]) -> Result<Email, Wrong> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").ok_or("an email without addresses")?;
    let addresses = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    let (sender, recipients) = addresses.split_once('\n').ok_or("an email without recipients")?;
    Email::from_mime(sender, recipients.split('\n'), Arc::<[u8]>::from(&bytes[end + 2..]))
        .map_err(|error| format!("an email that this version would not take: {error}"))
}

/// The field of a note: its kind's place in [`NoteKind::ALL`], and its name.
pub(super) fn note_field(key: &NoteKey) -> String {
    format!("{}:{}", key.kind as u8, key.name)
}

/// A note: `at|until|body`.
pub(super) fn note_value(note: &Note, to: Translation) -> Result<String, Wrong> {
    Ok(format!("{}|{}|{}", to.server(note.at), to.server(note.until), json(&note.body)?))
}

/// The kind of a note, from its field; `None`: only a newer program knows it.
pub(super) fn note_kind(field: &[u8]) -> Option<(NoteKind, Arc<str>)> {
    let (kind, name) = std::str::from_utf8(field).ok()?.split_once(':')?;
    let kind = kind.parse::<usize>().ok().and_then(|place| NoteKind::ALL.get(place))?;
    Some((*kind, name.into()))
}

/// One note; `None`, when this version cannot read it.
pub(super) fn note(key: NoteKey, value: &[u8], to: Translation) -> Option<Note> {
    let mut parts = std::str::from_utf8(value).ok()?.splitn(3, '|');
    let mut instant = || parts.next()?.parse().ok().map(|stored| to.local(stored));
    let (at, until) = (instant()?, instant()?);
    let body = serde_json::from_str(parts.next()?).ok()?;
    Some(Note { key, at, until, body })
}

/// Who has an id: generation, key, mailbox.
pub(super) struct Holder {
    pub(super) generation: u64,
    pub(super) key: OperationKey,
    pub(super) mailbox: Arc<str>,
}

/// Who has an id, as it is stored.
pub(super) fn holder(generation: u64, key: OperationKey, mailbox: &str) -> String {
    format!("{generation:x}|{}", owner(key, mailbox))
}

/// The same, whoever gave it out.
pub(super) fn owner(key: OperationKey, mailbox: &str) -> String {
    format!("{}|{mailbox}", key_text(key))
}

/// What [`holder`] wrote.
pub(super) fn holder_of(value: &[u8]) -> Result<Holder, Wrong> {
    let wrong = || "an id that nobody has".to_owned();
    let mut parts = std::str::from_utf8(value).map_err(|error| error.to_string())?.splitn(3, '|');
    let generation = parts.next().and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(wrong)?;
    let key = parts.next().and_then(|text| key_of(text.as_bytes())).ok_or_else(wrong)?;
    Ok(Holder { generation, key, mailbox: parts.next().ok_or_else(wrong)?.into() })
}

/// An optional instant as an argument: empty where there is none.
pub(super) fn maybe_instant(instant: Option<Timestamp>, to: Translation) -> String {
    instant.map(|instant| to.server(instant).min(NEVER).to_string()).unwrap_or_default()
}
