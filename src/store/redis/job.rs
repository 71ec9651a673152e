//! One call on its way through a round: a first step, and for some a second one that depends on the first.

use std::sync::Arc;

use redis::Cmd;

use super::claim::Claims;
use super::context::Context;
use super::insert::Incoming;
use super::link::Answer;
use super::write::{Keeping, Records};
use crate::store::StoreError;

pub(super) enum Job {
    Insert(Box<Incoming>),
    Claims(Claims),
    Records(Records),
    Keep(Keeping),
}

impl Job {
    /// Adds the commands of the first step.
    pub(super) fn first(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        match self {
            Self::Insert(incoming) => incoming.ask(context, commands),
            Self::Claims(claims) => claims.commands(context, commands),
            Self::Records(records) => records.commands(context, commands),
            Self::Keep(keeping) => keeping.ask(context, commands),
        }
    }

    /// Takes the answers to the first step; `None`, when that was all. `due` are mailboxes with something to forget.
    pub(super) fn first_done(
        mut self,
        context: &Context,
        answers: Vec<Answer>,
        due: &mut Vec<Arc<str>>,
    ) -> Option<Self> {
        match self {
            Self::Insert(ref mut incoming) => incoming.asked(context, answers),
            Self::Keep(ref mut keeping) => keeping.asked(context, answers),
            Self::Claims(claims) => {
                claims.finish(answers);
                return None;
            }
            Self::Records(records) => {
                records.finish(context, answers, due);
                return None;
            }
        }
        Some(self)
    }

    /// Adds the commands of the second step.
    pub(super) fn second(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        match self {
            Self::Insert(incoming) => incoming.write(context, commands),
            Self::Keep(keeping) => keeping.write(context, commands),
            Self::Claims(_) | Self::Records(_) => {}
        }
    }

    /// Takes the answers to the second step.
    pub(super) async fn second_done(self, context: &Context, answers: Vec<Answer>) {
        match self {
            Self::Insert(incoming) => incoming.finish(context, answers).await,
            Self::Keep(keeping) => keeping.finish(answers),
            Self::Claims(_) | Self::Records(_) => {}
        }
    }

    /// Nothing is known of it. Who has stopped listening is told nothing.
    pub(super) fn fail(self, context: &Context, error: &StoreError) {
        match self {
            Self::Insert(incoming) => incoming.fail(context, error),
            Self::Claims(claims) => claims.fail(error),
            Self::Records(records) => drop(records.reply.send(Err(error.clone()))),
            Self::Keep(keeping) => drop(keeping.reply.send(Err(error.clone()))),
        }
    }
}
