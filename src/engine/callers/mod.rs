//! Ceilings per caller: how many emails and recipients one part of a program may hand over in a period.
//!
//! A limit is the provider's and makes a send wait; a ceiling is ours and refuses it, so that a caller gone wrong (a
//! loop, a replayed queue) cannot spend what the others need. Judged and charged in one step: between a look and a
//! later charge two submissions could both find the last place free.
//!
//! - A period begins with a caller's first charge and ends at its instant: from then on, and not a moment before, the
//!   next submission begins a new one. Nothing is timed in between; a ledger that nobody looks at costs nothing but its
//!   place.
//! - Charged once per mailbox and operation id, however often that is handed over: a repeat that names more recipients
//!   is charged the difference.
//! - What was not stored after all is given back, each submission its own: what stays charged is the most that is
//!   stored or still open. So a repeat that is refused as a conflict costs nothing, however many recipients it names.
//! - At most [`CallersPolicy::tracked_max`] callers without an override have a ledger. Above that, those whose period is over lose theirs,
//!   which loses nothing; if none is, a caller without a ledger is **refused** until the first period ends. A ledger in
//!   its period is never dropped: its caller would come back to a fresh one and be granted more. A shared ledger for
//!   the rest would do the same as soon as one of the rest got a ledger of its own. Callers with an override are listed
//!   by hand, so they are few, always have a place, and take none from the others.
//!
//! Not promised: that a ceiling outlives the process. Nothing about callers is stored.

mod ceiling;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use ceiling::{CallerCeiling, CeilingError, PERIOD_MAX, PERIOD_MIN};

use super::time::Timestamp;

/// Who may hand over how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallersPolicy {
    /// The ceiling of every caller without its own; `None`: no ceiling.
    pub ceiling: Option<CallerCeiling>,
    /// What single callers have instead.
    pub overrides: BTreeMap<Arc<str>, Option<CallerCeiling>>,
    /// Callers with a ledger at once, those with an override aside.
    pub tracked_max: u32,
}

impl Default for CallersPolicy {
    fn default() -> Self {
        Self { ceiling: None, overrides: BTreeMap::new(), tracked_max: 10_000 }
    }
}

impl CallersPolicy {
    fn of(&self, caller: &str) -> Option<&CallerCeiling> {
        self.overrides.get(caller).unwrap_or(&self.ceiling).as_ref()
    }
}

/// An operation as a caller names it: its mailbox and its id.
pub type OperationName = (Arc<str>, Arc<str>);

/// What a ceiling counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallerUnit {
    /// Emails.
    Emails,
    /// Their recipients.
    Recipients,
}

impl CallerUnit {
    /// Its name, as the ceiling's text has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Emails => "emails",
            Self::Recipients => "recipients",
        }
    }
}

/// Why a caller may not hand this over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallerRefusal {
    /// Its ceiling for this period is reached.
    Ceiling {
        /// In which unit.
        unit: CallerUnit,
        /// What it has used.
        used: u64,
        /// The most it may use.
        most: u64,
        /// When its period ends.
        retry_after: Duration,
    },
    /// No period can ever hold it: it has more recipients than the ceiling allows.
    NeverFits {
        /// How many it has.
        recipients: u64,
        /// The most a period allows.
        most: u64,
    },
    /// As many callers are followed as are allowed, each in its period.
    TooManyCallers {
        /// The bound that was met.
        tracked_max: u32,
        /// When the first of them ends.
        retry_after: Duration,
    },
}

/// A charge that was made, to be [kept](Callers::keep) or [given back](Callers::give_back) when it is known whether the
/// operation was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a charge that is neither kept nor given back counts until its period ends"]
pub struct Charge {
    caller: Arc<str>,
    operation: OperationName,
    recipients: u32,
    ends_at: Timestamp,
}

/// The ledgers of all callers.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    ledgers: HashMap<Arc<str>, Ledger>,
    /// When the periods of those without an override end.
    ends: BTreeSet<(Timestamp, Arc<str>)>,
    /// The same of those that had one when theirs began.
    listed_ends: BTreeSet<(Timestamp, Arc<str>)>,
}

/// What one caller has used in its period.
#[derive(Clone, Debug)]
struct Ledger {
    ends_at: Timestamp,
    recipients: u64,
    charges: HashMap<OperationName, Held>,
}

/// The charge of one operation: the most recipients of what is stored or open.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Submissions of it whose outcome is open, by recipients.
    open: BTreeMap<u32, u32>,
    /// The most recipients of those that were stored, or may have been.
    stored: Option<u32>,
}

impl Held {
    fn recipients(&self) -> u32 {
        let open = self.open.last_key_value().map(|(recipients, _)| *recipients);
        open.max(self.stored).unwrap_or_default()
    }

    fn is_nothing(&self) -> bool {
        self.open.is_empty() && self.stored.is_none()
    }

    /// The outcome of one submission is known.
    fn close(&mut self, recipients: u32, stored: Stored) {
        if let Entry::Occupied(mut open) = self.open.entry(recipients) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
        if stored == Stored::Yes {
            self.stored = self.stored.max(Some(recipients));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Not,
    Yes,
}

impl Callers {
    /// Judges and charges an operation of `caller` with `recipients` recipients. `None`: there is no ceiling, nothing
    /// was charged.
    ///
    /// # Errors
    /// [`CallerRefusal`]; nothing was charged, and nothing is remembered of it.
    pub fn charge(
        &mut self,
        now: Timestamp,
        policy: &CallersPolicy,
        caller: &Arc<str>,
        operation: OperationName,
        recipients: u32,
    ) -> Result<Option<Charge>, CallerRefusal> {
        let Some(ceiling) = policy.of(caller) else { return Ok(None) };
        self.end_period(now, caller);
        let ledger = self.ledgers.get(caller);
        judge(now, ceiling, ledger, &operation, recipients)?;
        if ledger.is_none() {
            self.open(now, policy, caller, ceiling.period())?;
        }
        let Some(ledger) = self.ledgers.get_mut(caller) else { return Ok(None) };
        let held = ledger.charges.entry(operation.clone()).or_default();
        let more = recipients.saturating_sub(held.recipients());
        *held.open.entry(recipients).or_default() += 1;
        ledger.recipients = ledger.recipients.saturating_add(u64::from(more));
        Ok(Some(Charge { caller: Arc::clone(caller), operation, recipients, ends_at: ledger.ends_at }))
    }

    /// The operation was stored, or may have been: its charge counts until the period ends.
    pub fn keep(&mut self, charge: Charge) {
        self.close(charge, Stored::Yes);
    }

    /// The operation was certainly not stored by this submission: what it added comes back, except for what another
    /// submission of it holds that was stored or is open.
    pub fn give_back(&mut self, charge: Charge) {
        self.close(charge, Stored::Not);
    }

    /// What a caller has used in its period: emails and recipients.
    #[must_use]
    pub fn used(&self, now: Timestamp, caller: &str) -> (u64, u64) {
        let ledger = self.ledgers.get(caller).filter(|ledger| now < ledger.ends_at);
        ledger.map_or((0, 0), |ledger| (ledger.emails(), ledger.recipients))
    }

    /// Callers that have a ledger, those with an override among them.
    #[must_use]
    pub fn tracked(&self) -> usize {
        self.ledgers.len()
    }

    fn close(&mut self, charge: Charge, stored: Stored) {
        let Charge { caller, operation, recipients, ends_at } = charge;
        // Of a period that is over nothing is left to keep or to give back.
        let Some(ledger) = self.ledgers.get_mut(&caller).filter(|ledger| ledger.ends_at == ends_at) else { return };
        let Some(held) = ledger.charges.get_mut(&operation) else { return };
        let before = held.recipients();
        held.close(recipients, stored);
        let less = before.saturating_sub(held.recipients());
        ledger.recipients = ledger.recipients.saturating_sub(u64::from(less));
        if held.is_nothing() {
            ledger.charges.remove(&operation);
        }
        if ledger.charges.is_empty() {
            self.forget(&caller);
        }
    }

    /// Ends a caller's period if its instant has come.
    fn end_period(&mut self, now: Timestamp, caller: &Arc<str>) {
        if self.ledgers.get(caller).is_some_and(|ledger| ledger.ends_at <= now) {
            self.forget(caller);
        }
    }

    fn open(
        &mut self,
        now: Timestamp,
        policy: &CallersPolicy,
        caller: &Arc<str>,
        period: Duration,
    ) -> Result<(), CallerRefusal> {
        let ends_at = now.after(period);
        if policy.overrides.contains_key(caller) {
            self.end_listed_periods(now);
            self.listed_ends.insert((ends_at, Arc::clone(caller)));
        } else {
            let tracked_max = policy.tracked_max;
            let full = |callers: &Self| callers.ends.len() >= usize::try_from(tracked_max).unwrap_or(usize::MAX);
            if full(self) {
                self.end_periods(now);
            }
            if full(self) {
                let first = self.ends.first().map_or(now, |(ends_at, _)| *ends_at);
                return Err(CallerRefusal::TooManyCallers { tracked_max, retry_after: first.since(now) });
            }
            self.ends.insert((ends_at, Arc::clone(caller)));
        }
        self.ledgers.insert(Arc::clone(caller), Ledger { ends_at, recipients: 0, charges: HashMap::new() });
        Ok(())
    }

    /// Ends every period whose instant has come.
    fn end_periods(&mut self, now: Timestamp) {
        while let Some((_, caller)) = self.ends.first().filter(|(ends_at, _)| *ends_at <= now).cloned() {
            self.forget(&caller);
        }
    }

    /// The same for those with an override: names that are listed no more must not gather.
    fn end_listed_periods(&mut self, now: Timestamp) {
        while let Some((_, caller)) = self.listed_ends.first().filter(|(ends_at, _)| *ends_at <= now).cloned() {
            self.forget(&caller);
        }
    }

    fn forget(&mut self, caller: &Arc<str>) {
        if let Some(ledger) = self.ledgers.remove(caller) {
            let end = (ledger.ends_at, Arc::clone(caller));
            self.ends.remove(&end);
            self.listed_ends.remove(&end);
        }
    }
}

impl Ledger {
    fn emails(&self) -> u64 {
        self.charges.len() as u64
    }
}

/// Whether the ceiling has room for what this operation adds to the ledger.
fn judge(
    now: Timestamp,
    ceiling: &CallerCeiling,
    ledger: Option<&Ledger>,
    operation: &OperationName,
    recipients: u32,
) -> Result<(), CallerRefusal> {
    let held = ledger.and_then(|ledger| ledger.charges.get(operation));
    let more_emails = u64::from(held.is_none());
    let more_recipients = u64::from(recipients.saturating_sub(held.map_or(0, Held::recipients)));
    if let Some(most) = ceiling.recipients_max().filter(|most| more_recipients > 0 && u64::from(recipients) > *most) {
        return Err(CallerRefusal::NeverFits { recipients: u64::from(recipients), most });
    }
    let (used_emails, used_recipients) = ledger.map_or((0, 0), |ledger| (ledger.emails(), ledger.recipients));
    let retry_after = ledger.map_or(Duration::ZERO, |ledger| ledger.ends_at.since(now));
    let rows = [
        (CallerUnit::Emails, used_emails, more_emails, ceiling.emails_max()),
        (CallerUnit::Recipients, used_recipients, more_recipients, ceiling.recipients_max()),
    ];
    for (unit, used, more, most) in rows {
        // What adds nothing is not refused, even if the ceiling was lowered below what is used.
        if let Some(most) = most.filter(|most| more > 0 && used.saturating_add(more) > *most) {
            return Err(CallerRefusal::Ceiling { unit, used, most, retry_after });
        }
    }
    Ok(())
}
