//! Attempt rows: one call of a script per mailbox, which answers with the emails.

use std::sync::Arc;

use redis::{Cmd, Value};

use super::context::Context;
use super::fault::damaged;
use super::link::Answer;
use super::names::key_text;
use super::worker::Reply;
use super::write::{Parts, grouped};
use super::{row, scripts, value};
use crate::email::Email;
use crate::store::fleet::{Claimed, FencedClaim, Token};
use crate::store::{Claim, StoreError};

/// Claims in one call of a script: each is answered with an email.
const CLAIMS_MAX: usize = 64;

/// Claims of one call.
pub(super) struct Claims {
    batch: Vec<Claim>,
    /// Under which leases; `None`: nobody asks.
    leases: Option<Vec<(Arc<str>, Token)>>,
    parts: Parts,
    told: Told,
}

/// Who is answered.
enum Told {
    Plain(Reply<Vec<Option<Email>>>),
    Fenced(Reply<Vec<Claimed>>),
}

impl Claims {
    pub(super) fn plain(batch: Vec<Claim>, reply: Reply<Vec<Option<Email>>>) -> Self {
        Self { batch, leases: None, parts: Vec::new(), told: Told::Plain(reply) }
    }

    pub(super) fn fenced(batch: Vec<FencedClaim>, reply: Reply<Vec<Claimed>>) -> Self {
        let leases = batch.iter().map(|one| (Arc::clone(&one.lease.mailbox), one.lease.token)).collect();
        let batch = batch.into_iter().map(|one| one.claim).collect();
        Self { batch, leases: Some(leases), parts: Vec::new(), told: Told::Fenced(reply) }
    }

    pub(super) fn commands(&mut self, context: &Context, commands: &mut Vec<Cmd>) {
        let to = context.translation();
        let lease = |(place, claim): (usize, &Claim)| match &self.leases {
            None => context.routes.find(claim.key).map(|mailbox| (mailbox, None)),
            Some(leases) => leases.get(place).map(|(mailbox, token)| (Arc::clone(mailbox), Some(*token))),
        };
        for ((mailbox, token), places) in grouped(self.batch.iter().enumerate().map(lease), CLAIMS_MAX) {
            let mut command = scripts::call(&scripts::CLAIM, &[&context.names.base(Some(&mailbox))]);
            command.arg(context.options.attempts_for.as_micros() as u64).arg(format!("{:x}", context.generation));
            command.arg(token.map(|token| token.0.to_string()).unwrap_or_default());
            for claim in places.iter().map(|place| &self.batch[*place]) {
                command.arg(key_text(claim.key)).arg(claim.attempt).arg(to.server(claim.at));
                command.arg(claim.at.as_micros()).arg(row::cost(&claim.cost));
            }
            commands.push(command);
            self.parts.push(places);
        }
    }

    pub(super) fn finish(self, answers: Vec<Answer>) {
        let mut claimed: Vec<Claimed> = vec![Claimed::Gone; self.batch.len()];
        let fill = || -> Result<(), StoreError> {
            for (answer, places) in answers.into_iter().zip(self.parts) {
                for (found, place) in value::items(answer?)?.into_iter().zip(places) {
                    claimed[place] = one(found)?;
                }
            }
            Ok(())
        };
        let answer = fill().map(|()| claimed);
        // Who has stopped listening is told nothing.
        match self.told {
            Told::Fenced(reply) => drop(reply.send(answer)),
            Told::Plain(reply) => drop(reply.send(answer.map(|claimed| claimed.into_iter().map(email).collect()))),
        }
    }

    pub(super) fn fail(self, error: &StoreError) {
        match self.told {
            Told::Fenced(reply) => drop(reply.send(Err(error.clone()))),
            Told::Plain(reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}

fn one(found: Value) -> Result<Claimed, StoreError> {
    match found {
        Value::Int(_) => Ok(Claimed::Fenced),
        Value::Nil => Ok(Claimed::Gone),
        mail => {
            let mail = value::some_bytes(Some(mail))?;
            row::email(&mail).map(|email| Claimed::Written(Box::new(email))).map_err(damaged)
        }
    }
}

fn email(claimed: Claimed) -> Option<Email> {
    match claimed {
        Claimed::Written(email) => Some(*email),
        Claimed::Gone | Claimed::Fenced => None,
    }
}
