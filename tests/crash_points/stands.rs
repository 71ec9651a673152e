//! What people ordered is in force after a restart: all of what was acknowledged, and of the rest each order whole or
//! not at all.

use std::cell::RefCell;
use std::sync::Arc;

use mailweir::clock::Clock;
use mailweir::engine::breaker::{BreakerFacts, BreakerState};
use mailweir::engine::{OperationState, Resolution, Scope, Timestamp, TripReason};
use mailweir::scheduler::{EndedFacts, HoldFacts, OrderAnswer, OrderEnd, OrderScope, SchedulerHandle, TripFacts};
use mailweir::store::{OperationQuery, OperationRecord};

use crate::orders::{Given, Orders, Verb, WHO, Word};
use crate::world::Told;

/// What a process shows that has just begun.
struct Shown {
    holds: Vec<HoldFacts>,
    trips: Vec<TripFacts>,
    ended: Vec<EndedFacts>,
    breakers: Vec<(Scope, BreakerFacts)>,
    rows: Vec<OperationRecord>,
    at: Timestamp,
}

/// Looks at a process that has just begun.
pub(crate) async fn stands(told: &RefCell<Told>, handle: &SchedulerHandle, clock: &dyn Clock) -> Result<(), String> {
    if told.borrow().orders.all().is_empty() {
        return Ok(());
    }
    let mailboxes: Vec<_> = told.borrow().orders.all().iter().filter_map(tripped_mailbox).collect();
    let mut breakers = handle.breakers().await.map_err(|error| format!("breakers: {error}"))?;
    breakers.retain(|(scope, _)| !matches!(scope, Scope::Mailbox(_)));
    for mailbox in mailboxes {
        let facts = handle.mailbox(mailbox).await.map_err(|error| format!("a mailbox: {error}"))?;
        breakers.push((facts.scope, facts.breaker));
    }
    let everything = OperationQuery { limit: usize::MAX, ..OperationQuery::default() };
    let rows = handle.operations(everything).await.map_err(|error| format!("rows: {error}"))?;
    let (holds, trips, ended) = (handle.holds(), handle.trips(), handle.ended_orders());
    let shown = Shown { holds, trips, ended, breakers, rows, at: clock.now() };
    let named = |what: String| format!("after a restart at {}: {what}", shown.at);
    shown.check(&told.borrow().orders).map_err(named)
}

fn tripped_mailbox(given: &Given) -> Option<Arc<str>> {
    match &given.word {
        Word::Trip(Scope::Mailbox(mailbox), _) => Some(Arc::clone(mailbox)),
        _ => None,
    }
}

/// One hold or trip, as it is listed.
struct Listed<'a> {
    subject: String,
    reason: &'a str,
    by: Option<&'a str>,
    until: Timestamp,
}

impl Shown {
    fn check(&self, orders: &Orders) -> Result<(), String> {
        let holds = self.holds.iter().map(|hold| Listed {
            subject: format!("hold of {}", hold.scope),
            reason: &hold.reason,
            by: hold.by.as_deref(),
            until: hold.until,
        });
        let trips = self.trips.iter().map(|trip| Listed {
            subject: format!("breaker of {}", trip.scope),
            reason: &trip.reason,
            by: trip.by.as_deref(),
            until: trip.until,
        });
        let listed: Vec<_> = holds.chain(trips).collect();
        listed.iter().try_for_each(|one| self.is_whole(orders, one))?;
        for given in orders.all().iter().filter(|given| given.verb().is_none()) {
            self.is_in_force(orders, given, &listed)?;
        }
        self.ended_are_listed(orders)?;
        rows_stand(orders, &self.rows)
    }

    /// Nothing is in force that nobody ordered, nor a half of it.
    fn is_whole(&self, orders: &Orders, listed: &Listed<'_>) -> Result<(), String> {
        let Listed { subject, reason, by, until } = listed;
        let Some(given) = orders.of_reason(reason).filter(|given| given.word.subject() == *subject) else {
            return Err(format!("{subject}: {reason:?}, and nobody ordered that"));
        };
        if (*by, Some(*until)) != (Some(WHO), given.until()) {
            return Err(format!("{given}: listed by {by:?} until {until}"));
        }
        match orders.possible(subject, self.at) {
            Some(possible) if !possible.iter().flatten().any(|other| other.number == given.number) => {
                Err(format!("{given}: in force, and it was replaced, lifted or over"))
            }
            _ => Ok(()),
        }
    }

    /// What certainly is in force is listed, and stops.
    fn is_in_force(&self, orders: &Orders, given: &Given, listed: &[Listed<'_>]) -> Result<(), String> {
        let subject = given.word.subject();
        let Some(possible) = orders.possible(&subject, self.at) else { return Ok(()) };
        let is_listed = listed.iter().any(|listed| listed.subject == subject);
        if !is_listed && possible.iter().all(Option::is_some) {
            return Err(format!("{given}: it or one after it was acknowledged, and none is in force"));
        }
        let (Word::Trip(scope, _) | Word::Close(scope)) = &given.word else { return Ok(()) };
        let breaker = self.breakers.iter().find(|(of, _)| of == scope).map(|(_, breaker)| breaker);
        match possible[..] {
            [Some(trip)]
                if breaker
                    .is_none_or(|breaker| breaker.state != BreakerState::Open || breaker.until < trip.until()) =>
            {
                Err(format!("{trip}: the breaker is {breaker:?}"))
            }
            [None] if given.told.is_some() && orders.after(given).is_none() && given.is_lift() => {
                let by_hand = |breaker: &&BreakerFacts| {
                    breaker.state == BreakerState::Open && breaker.reason == Some(TripReason::Manual)
                };
                breaker.filter(by_hand).map_or(Ok(()), |breaker| Err(format!("{given}: the breaker is {breaker:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Who lifted something, and why, is listed, and what ended by itself; and nothing that nobody ordered.
    fn ended_are_listed(&self, orders: &Orders) -> Result<(), String> {
        for given in orders.all().iter().filter(|given| given.told.is_some() && given.verb().is_none()) {
            let subject = given.word.subject();
            let is_its = |ended: &&EndedFacts| subject_of(&ended.what) == subject;
            let mut ended = self.ended.iter().filter(is_its);
            let is_listed = if given.is_lift() {
                // The first of those that say the same lifted it.
                let earlier = orders.about(&subject).filter(|other| other.number <= given.number);
                let lifts: Vec<_> = earlier.rev().take_while(|other| other.is_lift()).map(Given::reason).collect();
                ended.any(|ended| matches!(&ended.end, OrderEnd::Lifted { reason, .. } if lifts.contains(&reason.to_string())))
            } else if given.until().is_some_and(|until| until < self.at) && orders.after(given).is_none() {
                let reason =
                    |ended: &EndedFacts| ended.order.as_ref().is_some_and(|order| *order.reason == given.reason());
                ended.any(|ended| ended.end == OrderEnd::Expired && reason(ended))
            } else {
                true
            };
            if !is_listed {
                return Err(format!("{given}: its end is not listed: {:?}", self.ended));
            }
        }
        let is_known =
            |reason: &str, by: &Option<Arc<str>>| orders.of_reason(reason).is_some() && by.as_deref() == Some(WHO);
        let nobodys = |ended: &&EndedFacts| {
            let order = ended.order.as_ref().is_none_or(|order| is_known(&order.reason, &order.by));
            let end = match &ended.end {
                OrderEnd::Lifted { reason, by }
                | OrderEnd::InPart { reason, by }
                | OrderEnd::Replaced { reason, by } => is_known(reason, by),
                _ => true,
            };
            !(order && end)
        };
        self.ended.iter().find(nobodys).map_or(Ok(()), |ended| Err(format!("{ended:?}: nobody ordered that")))
    }
}

fn subject_of(what: &OrderScope) -> String {
    match what {
        OrderScope::Hold(scope) => format!("hold of {scope}"),
        OrderScope::Breaker(scope) => format!("breaker of {scope}"),
        other => format!("{other:?}"),
    }
}

/// What was ordered about operations stands in their rows.
pub(crate) fn rows_stand(orders: &Orders, rows: &[OperationRecord]) -> Result<(), String> {
    for row in rows {
        if let Some(words) = &row.order {
            let found = orders.of_reason(&words.reason).and_then(|given| Some((given, given.verb()?)));
            let Some((given, (id, verb))) = found else { return Err(format!("{row:?}: nobody ordered that")) };
            let more_time = (verb == Verb::Release).then(|| given.begun.after(crate::orders::MORE_TIME));
            let is_whole = *id == row.id && words.by.as_deref() == Some(WHO);
            if !is_whole || more_time.is_some_and(|deadline| deadline != row.deadline) {
                return Err(format!("{given} is in force in part: {row:?}"));
            }
        }
        let subject = format!("operation {}", row.id);
        let did_nothing = |given: &&Given| {
            matches!(given.answer(), Some(OrderAnswer::TooLate { .. } | OrderAnswer::NotInState { .. }))
        };
        let last = orders.about(&subject).rev().find(|given| !did_nothing(given));
        let Some((given, Some(OrderAnswer::Done { .. }))) = last.map(|given| (given, given.answer())) else { continue };
        if row.order.as_ref().is_none_or(|words| *words.reason != given.reason()) {
            return Err(format!("{given} was acknowledged, and is not in force: {row:?}"));
        }
        let Some((_, verb)) = given.verb() else { continue };
        let stands = match verb {
            Verb::Cancel => row.state == OperationState::Cancelled,
            Verb::Quarantine => row.state == OperationState::Quarantined,
            Verb::Resolve(Resolution::Accepted) => row.state == OperationState::Accepted,
            // Where it goes from there is its own affair.
            Verb::Release | Verb::Resolve(Resolution::Absent) => true,
        };
        if !stands {
            return Err(format!("{given} was acknowledged, and it is {}", row.state));
        }
    }
    Ok(())
}
