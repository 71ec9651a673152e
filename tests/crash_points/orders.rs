//! What people ordered, and what they were told. Each order carries its number as its reason, so what is found later of
//! it says which one it was.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::{Resolution, Scope, Timestamp};
use mailweir::scheduler::{HoldScope, OrderAnswer};

/// Who gives them.
pub(crate) const WHO: &str = "kim";
/// The time that a released operation gets.
pub(crate) const MORE_TIME: Duration = Duration::from_secs(4 * 3_600);

#[derive(Clone, Debug)]
pub(crate) enum Word {
    Hold(HoldScope, Duration),
    Resume(HoldScope),
    /// Lifts a hold for so many first, which are watched for so long.
    ResumeFirst(HoldScope, u32, Duration),
    Trip(Scope, Duration),
    Close(Scope),
    About(Arc<str>, Verb),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    Quarantine,
    Release,
    Resolve(Resolution),
}

impl Word {
    pub(crate) fn about(id: &str, verb: Verb) -> Self {
        Self::About(Arc::from(id), verb)
    }

    /// What it is about: orders about the same thing follow each other.
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Hold(scope, _) | Self::Resume(scope) | Self::ResumeFirst(scope, ..) => format!("hold of {scope}"),
            Self::Trip(scope, _) | Self::Close(scope) => format!("breaker of {scope}"),
            Self::About(id, _) => format!("operation {id}"),
        }
    }

    /// How long it is in force, where it stops something.
    const fn lasts(&self) -> Option<Duration> {
        match self {
            Self::Hold(_, lasts) | Self::Trip(_, lasts) => Some(*lasts),
            Self::Resume(_) | Self::ResumeFirst(..) | Self::Close(_) | Self::About(..) => None,
        }
    }

    pub(crate) const fn lifts(&self) -> bool {
        matches!(self, Self::Resume(_) | Self::Close(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Done,
    /// Of an order about an operation.
    Answer(OrderAnswer),
}

#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) number: usize,
    pub(crate) word: Word,
    pub(crate) begun: Timestamp,
    /// When it was acknowledged, and how. Without, it may be in force or not, but nothing between.
    pub(crate) told: Option<(Timestamp, Said)>,
}

impl Given {
    pub(crate) fn reason(&self) -> String {
        format!("order {}", self.number)
    }

    pub(crate) fn until(&self) -> Option<Timestamp> {
        Some(self.begun.after(self.word.lasts()?))
    }

    pub(crate) fn told_at(&self) -> Option<Timestamp> {
        self.told.map(|(at, _)| at)
    }

    pub(crate) fn is_lift(&self) -> bool {
        self.word.lifts()
    }

    /// Whether it was a partial one: what is in force after it changes by itself.
    fn is_partial(&self) -> bool {
        matches!(self.word, Word::ResumeFirst(..))
    }

    pub(crate) fn verb(&self) -> Option<(&Arc<str>, Verb)> {
        if let Word::About(id, verb) = &self.word { Some((id, *verb)) } else { None }
    }

    pub(crate) fn answer(&self) -> Option<OrderAnswer> {
        if let Some((_, Said::Answer(answer))) = self.told { Some(answer) } else { None }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}, given at {}, told {:?})", self.reason(), self.word, self.begun, self.told)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Orders(Vec<Given>);

impl Orders {
    /// An order begins; its number.
    pub(crate) fn begin(&mut self, word: Word, begun: Timestamp) -> usize {
        let number = self.0.len();
        self.0.push(Given { number, word, begun, told: None });
        number
    }

    pub(crate) fn acknowledge(&mut self, number: usize, at: Timestamp, said: Said) {
        self.0[number].told = Some((at, said));
    }

    pub(crate) fn all(&self) -> &[Given] {
        &self.0
    }

    pub(crate) fn of_reason(&self, reason: &str) -> Option<&Given> {
        self.0.get(reason.strip_prefix("order ")?.parse::<usize>().ok()?)
    }

    pub(crate) fn about<'a>(&'a self, subject: &'a str) -> impl DoubleEndedIterator<Item = &'a Given> {
        self.0.iter().filter(move |given| given.word.subject() == subject)
    }

    /// The next order about the same thing, acknowledged or not.
    pub(crate) fn after(&self, given: &Given) -> Option<&Given> {
        let subject = given.word.subject();
        self.0[given.number + 1..].iter().find(|later| later.word.subject() == subject)
    }

    /// What may be in force of one thing at `now`: what the last order that was acknowledged says, or one after it that
    /// was not. Nothing where that changes by itself.
    pub(crate) fn possible<'a>(&'a self, subject: &'a str, now: Timestamp) -> Option<Vec<Option<&'a Given>>> {
        let mut possible = vec![None];
        for given in self.about(subject) {
            if given.told.is_some() {
                possible.clear();
            }
            if given.is_partial() {
                return None;
            }
            possible.push(given.until().is_some_and(|until| until > now).then_some(given));
        }
        Some(possible)
    }

    /// From when until when an order certainly stopped something.
    pub(crate) fn surely_in_force(&self, given: &Given) -> Option<(Timestamp, Timestamp)> {
        let until = given.until()?;
        let next = self.after(given).map_or(until, |next| next.begun.min(until));
        Some((given.told_at()?, next))
    }
}
