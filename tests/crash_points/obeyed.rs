//! What people ordered was obeyed, to the end, from the moment at which they were told so.

use mailweir::engine::Scope;
use mailweir::engine::operation::Transition;
use mailweir::scheduler::{HoldScope, OrderAnswer};

use crate::book::History;
use crate::orders::{Given, Verb, Word};
use crate::stands::rows_stand;
use crate::world::Run;

pub(crate) fn check(run: &Run) -> Result<(), String> {
    let rows: Vec<_> = run.rows.values().cloned().collect();
    rows_stand(&run.told.orders, &rows).map_err(|what| format!("at the end: {what}"))?;
    for given in run.told.orders.all() {
        nothing_was_granted(run, given)?;
        nothing_followed(run, given)?;
    }
    nothing_of_itself(run)
}

/// While a hold or an open breaker was in force, nothing of its scope was granted.
fn nothing_was_granted(run: &Run, given: &Given) -> Result<(), String> {
    let Some((from, until)) = run.told.orders.surely_in_force(given) else { return Ok(()) };
    for history in run.book.histories.values().filter(|history| covers(&given.word, history)) {
        if let Some((at, _)) = history.claims.iter().find(|(at, _)| from < *at && *at < until) {
            return Err(format!("{given} was in force until {until}, and {} was granted at {at}", history.id));
        }
    }
    Ok(())
}

fn covers(word: &Word, history: &History) -> bool {
    match word {
        Word::Hold(HoldScope::Mailbox(mailbox), _) | Word::Trip(Scope::Mailbox(mailbox), _) => {
            *mailbox == history.mailbox
        }
        Word::Hold(HoldScope::Campaign(campaign), _) => history.campaign.as_ref() == Some(campaign),
        Word::Hold(HoldScope::Operation(id), _) => *id == history.id,
        Word::Hold(HoldScope::All, _) | Word::Trip(Scope::Application, _) => true,
        Word::Hold(..)
        | Word::Trip(..)
        | Word::Resume(_)
        | Word::ResumeFirst(..)
        | Word::Close(_)
        | Word::About(..) => false,
    }
}

/// What was to be cancelled or set aside was not sent after that, unless somebody released it.
fn nothing_followed(run: &Run, given: &Given) -> Result<(), String> {
    let (Some((id, verb)), Some((at, _))) = (given.verb(), given.told) else { return Ok(()) };
    let stops = matches!(verb, Verb::Cancel | Verb::Quarantine);
    let is_obeyed = matches!(given.answer(), Some(OrderAnswer::Done { .. } | OrderAnswer::Requested { .. }));
    if !stops || !is_obeyed {
        return Ok(());
    }
    let later = run.told.orders.all()[given.number..].iter();
    let releases = later.filter(|later| later.verb() == Some((id, Verb::Release)));
    let until = releases.map(|release| release.begun).min().unwrap_or(mailweir::engine::Timestamp::NEVER);
    match run.book.flights.iter().find(|flight| flight.id == *id && at < flight.started && flight.started < until) {
        Some(flight) => Err(format!("{given}, and {id} was sent at {}", flight.started)),
        None => Ok(()),
    }
}

/// What only a person does was done as often as persons ordered it, and not more often than they did.
fn nothing_of_itself(run: &Run) -> Result<(), String> {
    for history in run.book.histories.values() {
        let subject = format!("operation {}", history.id);
        let begun = |verb| {
            run.told.orders.about(&subject).filter(|given| given.verb().is_some_and(|(_, of)| of == verb)).count()
        };
        let done = |verb| {
            let of = run.told.orders.about(&subject).filter(|given| given.verb().is_some_and(|(_, of)| of == verb));
            of.filter(|given| matches!(given.answer(), Some(OrderAnswer::Done { .. }))).count()
        };
        let steps = |of: &[Transition]| history.steps.iter().filter(|step| of.contains(step)).count();
        for (verb, of) in [
            (Verb::Release, &[Transition::Release][..]),
            (Verb::Cancel, &[Transition::Cancel, Transition::Discard][..]),
        ] {
            let (least, found, most) = (done(verb), steps(of), begun(verb));
            if found < least || found > most {
                return Err(format!(
                    "{subject} {:?}: {verb:?} {found} times; {least} told, {most} ordered",
                    history.steps
                ));
            }
        }
    }
    Ok(())
}
