//! What a caller hands over: an email, the mailbox it leaves from, its lane, and how long it may wait.
//!
//! Everything that can be judged without state is judged here, before anything is stored or queued, and the answer
//! names the field. Ids are short and free of control characters because they travel: into headers, logs, URLs and
//! stores. What is *not* checked here is whether a provider would take the email.

mod error;

pub(crate) use error::describe;
pub use error::{InvalidSubmission, SubmitError};

use std::hash::Hasher;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::config::SubmitConfig;
use crate::config::id::{IdFault, check_id};
use crate::email::Email;
use crate::engine::{Cost, Lane, Timestamp};

/// Longest mailbox id, in bytes: the longest address that SMTP can carry (RFC 5321, 4.5.3.1.3, with angle brackets).
pub const MAILBOX_ID_BYTES_MAX: usize = crate::config::id::MAILBOX_ID_BYTES_MAX;
/// Longest tenant, caller, campaign or admission key, in bytes.
pub const LABEL_BYTES_MAX: usize = crate::config::id::LABEL_BYTES_MAX;
/// Longest reason that an operator gives for an order, in bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// One email to be sent. Built with [`Submission::new`] and its setters, handed over with `SchedulerHandle::submit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub(crate) mailbox: Arc<str>,
    pub(crate) email: Email,
    pub(crate) lane: Lane,
    pub(crate) operation_id: Option<Arc<str>>,
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) campaign: Option<Arc<str>>,
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) admission: Option<AdmissionKey>,
    pub(crate) cost: Option<Cost>,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) deadline: Option<Deadline>,
    pub(crate) wait_max: Option<Duration>,
}

/// A key that admits one operation per cooldown: further submissions with it get the first one's ticket.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AdmissionKey {
    pub(crate) key: Arc<str>,
    pub(crate) cooldown: Duration,
}

/// Never the key: it names a person as often as not.
impl std::fmt::Debug for AdmissionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionKey").field("cooldown", &self.cooldown).finish_non_exhaustive()
    }
}

/// When a submission is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// This long after it was submitted.
    Within(Duration),
    /// At this instant.
    At(Timestamp),
}

impl Submission {
    /// A background submission of `email` from `mailbox`, without a deadline of its own.
    ///
    /// Ids of mailboxes are compared byte for byte: `Alerts@x.example` and `alerts@x.example` are two mailboxes with a
    /// budget each. Where the provider takes them for one, write them in one way, in lower case for instance, here and
    /// in `[mailboxes]`.
    #[must_use]
    pub fn new(mailbox: impl Into<Arc<str>>, email: Email) -> Self {
        Self {
            mailbox: mailbox.into(),
            email,
            lane: Lane::Background,
            operation_id: None,
            tenant: None,
            campaign: None,
            caller: None,
            admission: None,
            cost: None,
            not_before: None,
            deadline: None,
            wait_max: None,
        }
    }

    /// Who waits for it. Background unless said.
    #[must_use]
    pub const fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }

    /// The idempotency key: the same id with the same content is the same operation, with other content it is
    /// refused. A UUIDv7 is minted when there is none. Its longest form is configured:
    /// `submit.operation_id_bytes_max`.
    #[must_use]
    pub fn operation_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.operation_id = Some(id.into());
        self
    }

    /// Whose budget and fair share it uses. At most [`LABEL_BYTES_MAX`] bytes.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// The campaign it belongs to, so that the whole campaign can be held. At most [`LABEL_BYTES_MAX`] bytes.
    #[must_use]
    pub fn campaign(mut self, campaign: impl Into<Arc<str>>) -> Self {
        self.campaign = Some(campaign.into());
        self
    }

    /// The part of the program that asks for it, whose ceiling (`[callers]`) it uses; without one, none applies. At
    /// most [`LABEL_BYTES_MAX`] bytes.
    #[must_use]
    pub fn caller(mut self, caller: impl Into<Arc<str>>) -> Self {
        self.caller = Some(caller.into());
        self
    }

    /// Admits one operation per `cooldown` for this key within its mailbox: a repeat is answered with the ticket of
    /// the first. For buttons that people press more than once. At most [`LABEL_BYTES_MAX`] bytes; the longest cooldown
    /// is configured: `submit.admission_cooldown_max`.
    #[must_use]
    pub fn admission_key(mut self, key: impl Into<Arc<str>>, cooldown: Duration) -> Self {
        self.admission = Some(AdmissionKey { key: key.into(), cooldown });
        self
    }

    /// What one attempt takes, where counting the email is not enough (external recipients, quota units): at least one
    /// request, and as many as the transport makes where that is more.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Not sent before this.
    #[must_use]
    pub fn not_before(mut self, instant: SystemTime) -> Self {
        self.not_before = Some(timestamp(instant));
        self
    }

    /// Given up this long after it was submitted; the longest is configured: `submit.deadline_max`. The mailbox's own
    /// deadline applies when there is none.
    #[must_use]
    pub const fn deadline(mut self, within: Duration) -> Self {
        self.deadline = Some(Deadline::Within(within));
        self
    }

    /// Given up at this instant, which is at most `submit.deadline_max` away when it is submitted.
    #[must_use]
    pub fn deadline_at(mut self, instant: SystemTime) -> Self {
        self.deadline = Some(Deadline::At(timestamp(instant)));
        self
    }

    /// Refuse it at once when its known wait is longer than this. Without it, it waits in the outbox. Where several
    /// processes share the store, only the mailbox's owner knows the wait; the others refuse it (`Elsewhere`).
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.wait_max = Some(wait);
        self
    }

    /// The mailbox it leaves from.
    #[must_use]
    pub fn mailbox(&self) -> &str {
        &self.mailbox
    }

    /// The email.
    #[must_use]
    pub const fn email(&self) -> &Email {
        &self.email
    }

    /// The email, taken back out.
    #[must_use]
    pub fn into_email(self) -> Email {
        self.email
    }

    /// A stable number for what this submission asks for: the same id with another number is a conflict.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = fnv::FnvHasher::with_key(self.email.fingerprint());
        for field in [Some(&self.mailbox), self.tenant.as_ref(), self.campaign.as_ref()] {
            let field = field.map_or(&[][..], |field| field.as_bytes());
            hasher.write(&(field.len() as u64).to_le_bytes());
            hasher.write(field);
        }
        hasher.write(&[self.lane as u8]);
        hasher.finish()
    }

    /// The caller's name, for errors.
    pub(crate) fn caller_name(&self) -> &str {
        self.caller.as_deref().unwrap_or_default()
    }

    /// Judges what can be judged without state.
    pub(crate) fn validate(&self, now: Timestamp, bounds: &SubmitConfig) -> Result<(), InvalidSubmission> {
        id("mailbox", &self.mailbox, MAILBOX_ID_BYTES_MAX)?;
        let labels = [
            ("operation_id", self.operation_id.as_ref(), bounds.operation_id_bytes_max),
            ("tenant", self.tenant.as_ref(), LABEL_BYTES_MAX),
            ("campaign", self.campaign.as_ref(), LABEL_BYTES_MAX),
            ("caller", self.caller.as_ref(), LABEL_BYTES_MAX),
            ("admission_key", self.admission.as_ref().map(|admission| &admission.key), LABEL_BYTES_MAX),
        ];
        for (field, value, bytes_max) in labels {
            value.map_or(Ok(()), |value| id(field, value, bytes_max))?;
        }
        let cooldown = self.admission.as_ref().map_or(Duration::ZERO, |admission| admission.cooldown);
        if cooldown > bounds.admission_cooldown_max {
            let cooldown_max = bounds.admission_cooldown_max;
            return Err(InvalidSubmission::CooldownTooLong { cooldown, cooldown_max });
        }
        self.cost.as_ref().map_or(Ok(()), makes_a_request)?;
        self.validate_email(bounds)?;
        self.validate_instants(now, bounds.deadline_max)
    }

    fn validate_email(&self, bounds: &SubmitConfig) -> Result<(), InvalidSubmission> {
        let (recipients, bytes) = (self.email.recipients().len(), self.email.mime().len() as u64);
        if recipients == 0 {
            return Err(InvalidSubmission::NoRecipients);
        }
        if recipients > bounds.recipients_max as usize {
            let recipients_max = bounds.recipients_max;
            return Err(InvalidSubmission::TooManyRecipients { recipients, recipients_max });
        }
        if bytes > bounds.size_max {
            return Err(InvalidSubmission::TooLarge { bytes, bytes_max: bounds.size_max });
        }
        Ok(())
    }

    fn validate_instants(&self, now: Timestamp, deadline_max: Duration) -> Result<(), InvalidSubmission> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let within = deadline.within(now);
        let deadline = deadline.resolve(now);
        if deadline <= now {
            return Err(InvalidSubmission::DeadlinePast);
        }
        not_too_far(within, deadline_max)?;
        match self.not_before {
            Some(not_before) if not_before >= deadline => Err(InvalidSubmission::NotBeforeDeadline),
            _ => Ok(()),
        }
    }
}

impl Deadline {
    /// The instant meant, for a submission handed over at `now`.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Within(within) => now.after(within),
            Self::At(instant) => instant,
        }
    }

    /// How far it is from `now`; nothing for an instant that has passed.
    fn within(self, now: Timestamp) -> Duration {
        match self {
            Self::Within(within) => within,
            Self::At(instant) => instant.since(now),
        }
    }
}

/// Judges a deadline that is `within` away.
pub(crate) fn not_too_far(within: Duration, within_max: Duration) -> Result<(), InvalidSubmission> {
    if within > within_max {
        return Err(InvalidSubmission::DeadlineTooFar { within, within_max });
    }
    Ok(())
}

/// Judges a cost: a send that makes no request would go past every limit.
pub(crate) fn makes_a_request(cost: &Cost) -> Result<(), InvalidSubmission> {
    match cost.requests {
        0 => Err(InvalidSubmission::NotInRange { field: "cost.requests", value: 0, min: 1, max: u64::from(u32::MAX) }),
        _ => Ok(()),
    }
}

/// Judges one id, by the rule that those of the configuration meet as well.
pub(crate) fn id(field: &'static str, value: &str, bytes_max: usize) -> Result<(), InvalidSubmission> {
    check_id(value, bytes_max).map_err(|fault| match fault {
        IdFault::Empty => InvalidSubmission::Empty { field },
        IdFault::TooLong(bytes) => InvalidSubmission::TooLong { field, bytes, bytes_max },
        IdFault::Control(at, c) => InvalidSubmission::ControlCharacter { field, at, code: u32::from(c) },
    })
}

fn timestamp(instant: SystemTime) -> Timestamp {
    Timestamp::EPOCH.after(instant.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO))
}
