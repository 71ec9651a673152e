//! Records and notes as calls of scripts: one per mailbox and call, in order.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use redis::Cmd;

use super::context::Context;
use super::fault::damaged;
use super::link::Answer;
use super::names::key_text;
use super::worker::Reply;
use super::{row, scripts, value};
use crate::engine::mailbox::Record;
use crate::engine::operation::{IllegalTransition, Transition};
use crate::engine::{Leaves, OperationState};
use crate::store::rules::{impossible, is_over};
use crate::store::{Note, NoteChange, StoreError};

/// Records in one call.
const RECORDS_MAX: usize = 256;

/// Where the parts of one call's answer go: places in the call, per command.
pub(super) type Parts = Vec<Vec<usize>>;

/// Puts places with the same name together, at most `max` in one, names in the order they come.
pub(super) fn grouped<N: Clone + Eq + Hash>(
    names: impl Iterator<Item = Option<N>>,
    max: usize,
) -> Vec<(N, Vec<usize>)> {
    let mut groups: Vec<(N, Vec<usize>)> = Vec::new();
    let mut open: HashMap<N, usize> = HashMap::new();
    for (place, name) in names.enumerate() {
        let Some(name) = name else { continue };
        match open.get(&name) {
            Some(group) if groups[*group].1.len() < max => groups[*group].1.push(place),
            _ => {
                open.insert(name.clone(), groups.len());
                groups.push((name, vec![place]));
            }
        }
    }
    groups
}

/// Records of one call.
pub(super) struct Records {
    batch: Arc<[Record]>,
    parts: Parts,
    mailboxes: Vec<Arc<str>>,
    pub(super) reply: Reply<()>,
}

impl Records {
    pub(super) fn new(batch: Arc<[Record]>, reply: Reply<()>) -> Self {
        Self { batch, parts: Vec::new(), mailboxes: Vec::new(), reply }
    }

    pub(super) fn commands(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        let routes = self.batch.iter().map(|record| context.routes.find(record.key));
        for (mailbox, places) in grouped(routes, RECORDS_MAX) {
            let mut command = scripts::call(&scripts::RECORD, &[&context.names.base(Some(&mailbox))]);
            command.arg(format!("{:x}", context.generation));
            for record in places.iter().map(|place| &self.batch[*place]) {
                arguments(&mut command, record, context);
            }
            commands.push(command);
            self.parts.push(places);
            self.mailboxes.push(mailbox);
        }
    }

    pub(super) fn finish(self, context: &Context, answers: Vec<Answer>, due: &mut Vec<Arc<str>>) {
        // The others are done; the first that contradicts is told.
        let mut told: Vec<(usize, StoreError)> = Vec::new();
        for ((answer, places), mailbox) in answers.into_iter().zip(&self.parts).zip(&self.mailboxes) {
            let first = places.first().copied().unwrap_or_default();
            match self.judge(answer, places) {
                Err(error) => told.push((first, error)),
                Ok((ended, against)) => {
                    told.extend(against);
                    if ended > context.options.ended_max {
                        due.push(Arc::clone(mailbox));
                    }
                }
            }
        }
        for record in self.batch.iter().filter(|record| is_over(record.state)) {
            context.routes.forget(record.key);
        }
        let first = told.into_iter().min_by_key(|(place, error)| (error.is_contradiction(), *place));
        drop(self.reply.send(first.map_or(Ok(()), |(_, error)| Err(error))));
    }

    /// How many have ended in the mailbox, and what is contradicted.
    fn judge(&self, answer: Answer, places: &[usize]) -> Result<(u64, Vec<(usize, StoreError)>), StoreError> {
        let mut items = value::items(answer?)?.into_iter();
        let ended = value::number(items.next())?.unsigned_abs();
        let mut against = Vec::new();
        for (item, place) in items.zip(places) {
            let state = value::some_bytes(Some(item))?;
            let Some(digit) = state.first() else { continue };
            let from = OperationState::ALL.get(usize::from(digit.wrapping_sub(b'0')));
            let from = *from.ok_or_else(|| damaged("a state that is none"))?;
            let record = &self.batch[*place];
            let illegal = IllegalTransition { transition: record.transition, from };
            against.push((*place, impossible(record.key, illegal)));
        }
        Ok((ended, against))
    }
}

/// The thirteen arguments of one record.
fn arguments(command: &mut Cmd, record: &Record, context: &Context) {
    let to = context.translation();
    let listed: String = OperationState::ALL
        .iter()
        .map(|state| if record.transition.from_states().contains(state) { '1' } else { '0' })
        .collect();
    let state = char::from(row::state_digit(record.state));
    let does = match record.transition {
        Transition::Void => "v".to_owned(),
        Transition::Lose => "l".to_owned(),
        other if other.ends_attempt() && record.leaves != Leaves::All => format!("e:{}", record.leaves.as_str()),
        other if other.ends_attempt() => "e".to_owned(),
        _ => String::new(),
    };
    // Text of this program's own types: it is always JSON.
    let provider = record.provider_id.as_ref().and_then(|id| row::json(id).ok()).unwrap_or_default();
    let words = record.order.as_ref().and_then(|words| row::order(words).ok()).unwrap_or_default();
    let deadline = record.order.as_ref().and_then(|words| words.deadline);
    command.arg(key_text(record.key)).arg(listed);
    command.arg(if record.transition.to() == record.state { state } else { 'x' }.to_string());
    command.arg(to.server(record.at)).arg(record.at.as_micros());
    command.arg(row::maybe_instant(record.next_at, to)).arg(record.attempts);
    let mut status = record.status.map(|status| status.to_string()).unwrap_or_default();
    status.extend(record.maybe_sent.then_some(row::MAYBE_SENT));
    command.arg(status).arg(provider).arg(words);
    command.arg(row::maybe_instant(deadline, to)).arg(does).arg(state.to_string());
}

/// Whether a change may meet the bound on notes.
pub(super) fn needs_room(change: &NoteChange) -> bool {
    matches!(change, NoteChange::Keep(note) if note.key.kind.needs_room())
}

/// Asks how much room there is in mailboxes, for notes too: one command per mailbox, which are answered with.
pub(super) fn ask_room<'n>(
    context: &Context,
    notes: impl Iterator<Item = (Option<Arc<str>>, Option<&'n Note>)>,
    commands: &mut Vec<Cmd>,
) -> Vec<Option<Arc<str>>> {
    let mut by_mailbox: Vec<(Option<Arc<str>>, Vec<&Note>)> = Vec::new();
    for (of, note) in notes {
        match by_mailbox.iter_mut().find(|(mailbox, _)| *mailbox == of) {
            Some((_, notes)) => notes.extend(note),
            None => by_mailbox.push((of, note.into_iter().collect())),
        }
    }
    let mut mailboxes = Vec::with_capacity(by_mailbox.len());
    for (mailbox, notes) in by_mailbox {
        let mut command = scripts::call(&scripts::ROOM, &[&context.names.base(mailbox.as_deref())]);
        command.arg(context.latest(notes.iter().map(|note| note.at)));
        for note in notes.iter().filter(|note| note.key.kind.needs_room()) {
            command.arg(row::note_field(&note.key));
        }
        commands.push(command);
        mailboxes.push(mailbox);
    }
    mailboxes
}

/// Live and quarantined operations of a mailbox; an error when its notes do not fit.
pub(super) fn room(context: &Context, answer: Answer) -> Result<u64, StoreError> {
    let mut items = value::items(answer?)?.into_iter();
    let mut number = || value::number(items.next()).map(i64::unsigned_abs);
    let (held, notes, fresh) = (number()?, number()?, number()?);
    let max = context.options.notes_max;
    if fresh > 0 && notes + fresh > max {
        return Err(StoreError::Full { bound: format!("notes_max = {max} notes of one mailbox") });
    }
    Ok(held)
}

/// Commands that keep and forget notes, in order: one per mailbox.
pub(super) fn keep<'n>(
    context: &Context,
    changes: impl Iterator<Item = &'n NoteChange>,
    commands: &mut Vec<Cmd>,
) -> Result<(), StoreError> {
    let to = context.translation();
    let mut by_mailbox: Vec<(&Option<Arc<str>>, Vec<&NoteChange>)> = Vec::new();
    for change in changes {
        let of = &change.key().mailbox;
        match by_mailbox.iter_mut().find(|(mailbox, _)| *mailbox == of) {
            Some((_, changes)) => changes.push(change),
            None => by_mailbox.push((of, vec![change])),
        }
    }
    for (mailbox, changes) in by_mailbox {
        context.list(mailbox.as_deref(), commands);
        let mut command = scripts::call(&scripts::KEEP, &[&context.names.base(mailbox.as_deref())]);
        let said = changes.iter().filter_map(|change| match change {
            NoteChange::Keep(note) => Some(note.at),
            NoteChange::Drop(_) => None,
        });
        command.arg(context.latest(said));
        for change in changes {
            command.arg(row::note_field(change.key()));
            match change {
                NoteChange::Drop(_) => command.arg("").arg(""),
                NoteChange::Keep(note) => {
                    command.arg(to.server(note.until)).arg(row::note_value(note, to).map_err(damaged)?)
                }
            };
        }
        commands.push(command);
    }
    Ok(())
}

/// Changes of notes of one call.
pub(super) struct Keeping {
    batch: Arc<[NoteChange]>,
    refused: Result<(), StoreError>,
    asked: bool,
    pub(super) reply: Reply<()>,
}

impl Keeping {
    pub(super) fn new(batch: Arc<[NoteChange]>, reply: Reply<()>) -> Self {
        Self { batch, refused: Ok(()), asked: false, reply }
    }

    /// Asks for room where some is needed; writes at once where none is.
    pub(super) fn ask(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        self.asked = self.batch.iter().any(needs_room);
        if self.asked {
            let notes = self.batch.iter().filter_map(|change| match change {
                NoteChange::Keep(note) => Some((note.key.mailbox.clone(), Some(note))),
                NoteChange::Drop(_) => None,
            });
            drop(ask_room(context, notes, commands));
        } else {
            self.refused = keep(context, self.batch.iter(), commands);
        }
    }

    pub(super) fn asked(&mut self, context: &Context, answers: Vec<Answer>) {
        for answer in answers {
            let told = if self.asked { room(context, answer).map(drop) } else { answer.map(drop) };
            if self.refused.is_ok() {
                self.refused = told;
            }
        }
    }

    pub(super) fn write(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        if self.asked && self.refused.is_ok() {
            self.refused = keep(context, self.batch.iter(), commands);
        }
    }

    pub(super) fn finish(self, answers: Vec<Answer>) {
        let written = answers.into_iter().try_for_each(|answer| answer.map(drop));
        drop(self.reply.send(self.refused.and(written)));
    }
}
