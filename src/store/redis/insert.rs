//! New operations: their ids are given out first, then their rows are written.
//!
//! An id has to be unique over all mailboxes and a script touches one slot, so an insert takes two steps. The first asks
//! for ids, leaves word which mailbox each key belongs to, and asks for room; nothing is written yet, and what does not fit is
//! given back whole. The second writes the rows, each mailbox's in one call. Who dies in between leaves ids without rows:
//! they are marked as waiting, and are taken over (`mend`) by whoever submits the id again, or taken back by whoever
//! looks after the house (`purge`).

use std::collections::HashMap;
use std::sync::Arc;

use redis::{Cmd, Value};

use super::context::Context;
use super::entry::{Posts, begin, fresh, meet, note, written};
use super::fault::{damaged, unavailable};
use super::instant::Translation;
use super::link::Answer;
use super::mend;
use super::names::key_text;
use super::row::{self, Holder};
use super::worker::Reply;
use super::write::{ask_room, keep, room};
use super::{scripts, value};
use crate::store::rules::taken_key;
use crate::store::{Inserted, NewOperation, NoteChange, StoreError};

/// Rows in one call of a script.
const ROWS_MAX: usize = 128;

/// What became of asking for an id.
enum Place {
    Unasked,
    /// It is ours. `is_new`: since this call, not since one whose answer was lost.
    Given {
        is_new: bool,
    },
    /// Somebody has it.
    Held(Holder),
}

/// Places of a batch that share a key.
type Groups = Vec<(String, Vec<usize>)>;

/// The operations of one call.
pub(super) struct Incoming {
    posts: Posts,
    batch: Vec<NewOperation>,
    reply: Reply<Vec<Inserted>>,
    to: Translation,
    shards: Groups,
    buckets: Groups,
    rooms: Vec<Option<Arc<str>>>,
    places: Vec<Place>,
    /// Whether its key was routed by this call.
    routed: Vec<bool>,
    given_at: u64,
    refused: Option<StoreError>,
    parts: Vec<Vec<usize>>,
}

fn group(names: impl Iterator<Item = String>) -> Groups {
    let mut groups: Groups = Vec::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (place, name) in names.enumerate() {
        let group = *by_name.entry(name.clone()).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(place);
    }
    groups
}

impl Incoming {
    pub(super) fn new(context: &Context, batch: Vec<NewOperation>, posts: Posts, reply: Reply<Vec<Inserted>>) -> Self {
        let places = batch.iter().map(|_| Place::Unasked).collect();
        let routed = vec![false; batch.len()];
        Self {
            posts,
            shards: group(batch.iter().map(|new| context.names.shard(&new.id))),
            buckets: group(batch.iter().map(|new| context.names.bucket(new.key))),
            batch,
            reply,
            to: context.translation(),
            rooms: Vec::new(),
            places,
            routed,
            given_at: u64::MAX,
            refused: None,
            parts: Vec::new(),
        }
    }

    /// The first step: ids, routes, room.
    pub(super) fn ask(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        for (shard, places) in &self.shards {
            let mut command = scripts::call(&scripts::RESERVE, &[shard]);
            for new in places.iter().map(|place| &self.batch[*place]) {
                command.arg(&*new.id).arg(self.holder(context, new)).arg("");
            }
            commands.push(command);
        }
        for (bucket, places) in &self.buckets {
            let mut command = scripts::call(&scripts::ROUTE, &[bucket]);
            for new in places.iter().map(|place| &self.batch[*place]) {
                command.arg(key_text(new.key)).arg(&*new.mailbox);
            }
            commands.push(command);
        }
        let mailboxes = self.batch.iter().map(|new| (Some(Arc::clone(&new.mailbox)), None));
        let notes = self.batch.iter().filter_map(|new| new.note.as_ref());
        let notes = notes.map(|note| (note.key.mailbox.clone(), Some(note)));
        self.rooms = ask_room(context, mailboxes.chain(notes), commands);
    }

    fn holder(&self, context: &Context, new: &NewOperation) -> String {
        row::holder(context.generation, new.key, &new.mailbox)
    }

    /// Takes the answers to the first step.
    pub(super) fn asked(&mut self, context: &Context, answers: Vec<Answer>) {
        if let Err(error) = self.judge(context, answers) {
            self.refused = Some(error);
        }
    }

    fn judge(&mut self, context: &Context, answers: Vec<Answer>) -> Result<(), StoreError> {
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let mut wrong = Ok(());
        for group in 0..self.shards.len() {
            let given = next().and_then(|answer| self.given(context, group, answer));
            wrong = wrong.and(given);
        }
        for (_, places) in &self.buckets {
            for (item, place) in value::items(next()?)?.into_iter().zip(places) {
                self.routed[*place] = value::some_bytes(Some(item))?.is_empty();
            }
        }
        // What was given is known from here on, so that it can be given back.
        wrong?;
        for ((place, routed), new) in self.places.iter().zip(&self.routed).zip(&self.batch) {
            if matches!(place, Place::Given { is_new: true }) && !routed {
                return Err(taken_key(new.key));
            }
        }
        let mut full = Ok(());
        for at in 0..self.rooms.len() {
            let fits = next().and_then(|answer| self.fits(context, at, room(context, Ok(answer))?));
            full = full.and(fits);
        }
        full
    }

    /// Who has the ids of one shard.
    fn given(&mut self, context: &Context, group: usize, answer: Value) -> Result<(), StoreError> {
        let mut items = value::items(answer)?.into_iter();
        let now = value::number(items.next())?.unsigned_abs();
        self.given_at = self.given_at.min(now);
        let places = std::mem::take(&mut self.shards[group].1);
        for place in &places {
            let found = value::some_bytes(items.next())?;
            let _ = items.next();
            let ours = self.holder(context, &self.batch[*place]);
            self.places[*place] = if found.is_empty() {
                Place::Given { is_new: true }
            } else if found == ours.as_bytes() {
                Place::Given { is_new: false }
            } else {
                Place::Held(row::holder_of(&found).map_err(damaged)?)
            };
        }
        self.shards[group].1 = places;
        Ok(())
    }

    fn fits(&self, context: &Context, at: usize, held: u64) -> Result<(), StoreError> {
        let mailbox = &self.rooms[at];
        let entries = self.batch.iter().zip(&self.places);
        let new = entries.filter(|(new, place)| {
            Some(&new.mailbox) == mailbox.as_ref() && matches!(place, Place::Given { is_new: true })
        });
        let (new, max) = (new.count() as u64, context.options.live_max);
        if new > 0 && held + new > max {
            let bound = format!("live_max = {max} operations of one mailbox that are live or quarantined");
            return Err(StoreError::Full { bound });
        }
        Ok(())
    }

    /// The second step: rows, or what was given is given back.
    pub(super) fn write(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        self.give_back(commands);
        if self.refused.is_some() {
            return;
        }
        let mut groups: Vec<(Arc<str>, Vec<usize>)> = Vec::new();
        for (at, (new, place)) in self.batch.iter().zip(&self.places).enumerate() {
            let mailbox = if let Place::Held(holder) = place { &holder.mailbox } else { &new.mailbox };
            match groups.iter_mut().rev().find(|(name, _)| name == mailbox) {
                Some((_, places)) if places.len() < ROWS_MAX => places.push(at),
                _ => groups.push((Arc::clone(mailbox), vec![at])),
            }
        }
        groups.iter().for_each(|(mailbox, _)| context.list(Some(mailbox), commands));
        for (mailbox, places) in groups {
            match self.rows(context, &mailbox, &places) {
                Ok(command) => commands.push(command),
                Err(wrong) => self.refused = Some(damaged(wrong)),
            }
            self.parts.push(places);
        }
    }

    /// Ids and routes that this call was given and will not use.
    fn give_back(&self, commands: &mut Vec<Cmd>) {
        let refused = self.refused.is_some();
        for (shard, places) in &self.shards {
            let given = |place: &&usize| refused && matches!(self.places[**place], Place::Given { is_new: true });
            let mut places = places.iter().filter(given).peekable();
            if places.peek().is_some() {
                let mut command = scripts::call(&scripts::RELEASE, &[shard]);
                for new in places.map(|place| &self.batch[*place]) {
                    command.arg(&*new.id).arg(row::owner(new.key, &new.mailbox));
                }
                commands.push(command);
            }
        }
        for (bucket, places) in &self.buckets {
            let unused =
                |place: &&usize| self.routed[**place] && (refused || matches!(self.places[**place], Place::Held(_)));
            let mut places = places.iter().filter(unused).peekable();
            if places.peek().is_some() {
                let mut command = redis::cmd("HDEL");
                command.arg(bucket);
                for place in places {
                    command.arg(key_text(self.batch[*place].key));
                }
                commands.push(command);
            }
        }
    }

    fn rows(&self, context: &Context, mailbox: &Arc<str>, places: &[usize]) -> Result<Cmd, row::Wrong> {
        let notes = places.iter().filter_map(|place| self.batch[*place].note.as_ref());
        let latest = context.latest(notes.map(|note| note.at));
        let mut command = begin(context, mailbox, self.given_at, latest, self.posts);
        for place in places {
            let new = &self.batch[*place];
            match &self.places[*place] {
                Place::Held(holder) => meet(&mut command, new, holder),
                Place::Given { .. } | Place::Unasked => fresh(&mut command, context, new, self.to)?,
            }
            note(&mut command, new, mailbox, self.to)?;
        }
        Ok(command)
    }

    /// Takes the answers to the second step.
    pub(super) async fn finish(self, context: &Context, answers: Vec<Answer>) {
        let told = match self.refused.clone() {
            Some(refused) => Err(refused),
            None => self.results(context, answers).await,
        };
        self.forget_routes(context, told.as_deref().unwrap_or_default());
        // Who has stopped listening is told nothing.
        drop(self.reply.send(told));
    }

    async fn results(&self, context: &Context, answers: Vec<Answer>) -> Result<Vec<Inserted>, StoreError> {
        // Before the rows come routes that were given back, and the list of mailboxes.
        let rows = answers.len().saturating_sub(self.parts.len());
        let mut results: Vec<Option<Inserted>> = vec![None; self.batch.len()];
        let mut answers = answers.into_iter().skip(rows);
        let mut missing = Vec::new();
        for places in &self.parts {
            let items = value::items(answers.next().unwrap_or(Ok(Value::Nil))?)?;
            for (item, place) in items.into_iter().zip(places) {
                let new = &self.batch[*place];
                let (key, mailbox) = match &self.places[*place] {
                    Place::Held(holder) => (holder.key, &holder.mailbox),
                    Place::Given { .. } | Place::Unasked => (new.key, &new.mailbox),
                };
                match written(context, new, key, mailbox, item)? {
                    Some(inserted) => results[*place] = Some(inserted),
                    None => missing.push(*place),
                }
            }
        }
        for place in missing {
            results[place] = Some(mend::mend(context, &self.batch[place], self.posts).await?);
        }
        let results: Vec<Inserted> = results.into_iter().flatten().collect();
        if results.len() < self.batch.len() {
            return Err(unavailable("redis answered less than it was asked"));
        }
        self.keep_notes_of_others(context, &results).await?;
        Ok(results)
    }

    /// Notes that came with an operation and belong to another mailbox than it.
    async fn keep_notes_of_others(&self, context: &Context, results: &[Inserted]) -> Result<(), StoreError> {
        let places = self.batch.iter().zip(&self.places).zip(results);
        let stored = places.filter(|(_, inserted)| **inserted != Inserted::Conflict);
        let notes = stored.filter_map(|((new, place), _)| {
            let mailbox = if let Place::Held(holder) = place { &holder.mailbox } else { &new.mailbox };
            new.note.as_ref().filter(|note| note.key.mailbox.as_ref() != Some(mailbox))
        });
        let changes: Vec<NoteChange> = notes.map(|note| NoteChange::Keep(note.clone())).collect();
        let mut commands = Vec::new();
        keep(context, changes.iter(), &mut commands)?;
        context.link.run(&commands).await?.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// A key whose operation was not stored leads nowhere.
    fn forget_routes(&self, context: &Context, stored: &[Inserted]) {
        for (at, new) in self.batch.iter().enumerate() {
            if stored.get(at) != Some(&Inserted::New) {
                context.routes.forget(new.key);
            }
        }
    }

    pub(super) fn fail(self, context: &Context, error: &StoreError) {
        self.forget_routes(context, &[]);
        drop(self.reply.send(Err(error.clone())));
    }
}
