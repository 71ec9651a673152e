//! Taking submissions in.

use std::collections::{HashMap, VecDeque};
use std::iter::Peekable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fnv::FnvHashMap;
use tokio::sync::oneshot;

use super::handle::{NoSeat, SchedulerHandle};
use crate::actor::{Admit, BatchReply, Handed, NotTaken, Seat, Ticket, TicketReply, TurnedAway};
use crate::config::Config;
use crate::engine::{Cost, Timestamp};
use crate::submission::{Submission, SubmitError};

/// When to come back after a queue was full: a turn of its actor takes far less.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Items of one batch under way at once.
const ROUND_MAX: usize = 4_096;
/// Those of one mailbox among them, so that a batch of any size fits the queues and leaves room for others.
const ROUND_MAILBOX_MAX: usize = 512;

impl SchedulerHandle {
    /// Hands over one email. When it returns `Ok`, the operation is stored, and it will be sent, or its ticket says
    /// why not.
    ///
    /// The same operation id with the same content is the same operation: its ticket is answered like the first.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was stored, unless it says so, and the submission is in it.
    ///
    /// # Cancel safety
    /// Dropped while the submission waits for the store to be called, nothing happens. From that call on it may be
    /// stored, and then it is sent: who does not know and hands it over again gives it an operation id, the same each time
    /// ([`Submission::operation_id`]), and it stays one. [`SchedulerHandle::cancel`] stops what was stored.
    pub async fn submit(&self, submission: Submission) -> Result<Ticket, SubmitError> {
        let (sender, answer) = oneshot::channel();
        let handed = self.prepare(submission, TicketReply::One(sender))?;
        let id = Arc::clone(&handed.id);
        if let Err(Refused { admit, why }) = self.put(Admit::Send(handed)) {
            let Admit::Send(handed) = admit else { return Err(SubmitError::Interrupted { id }) };
            return Err(why.error(Box::new(handed.submission), self.world.directory.live_max()));
        }
        answer.await.unwrap_or(Err(SubmitError::Interrupted { id }))
    }

    /// Hands over several emails and answers each, in order. Whatever shares a mailbox is stored together, in order.
    ///
    /// A batch larger than the queues is taken in piece by piece, so it takes as long as storing it takes; only what a
    /// mailbox itself refuses is refused.
    ///
    /// # Cancel safety
    /// As [`SchedulerHandle::submit`], item by item.
    pub async fn submit_many(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Vec<Result<Ticket, SubmitError>> {
        let mut results = Vec::new();
        let mut submissions = submissions.into_iter().peekable();
        loop {
            let round = self.next_round(&mut submissions);
            if round.is_empty() {
                return results;
            }
            results.extend(self.submit_round(round).await);
        }
    }

    /// The next items that fit the queues together.
    fn next_round(&self, submissions: &mut Peekable<impl Iterator<Item = Submission>>) -> Vec<Submission> {
        let capacity = self.world.settings.load().config.actors.actor_queue_capacity;
        let mailbox_max = ROUND_MAILBOX_MAX.min(capacity).max(1);
        let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
        let mut round = Vec::new();
        let mut fits = |submission: &Submission| {
            let count = counts.entry(Arc::clone(&submission.mailbox)).or_default();
            *count += 1;
            *count <= mailbox_max
        };
        while round.len() < ROUND_MAX {
            let Some(submission) = submissions.next_if(&mut fits) else { break };
            round.push(submission);
        }
        round
    }

    async fn submit_round(&self, round: Vec<Submission>) -> Vec<Result<Ticket, SubmitError>> {
        let count = round.len();
        let (reply, answers) = BatchReply::new(count);
        let mut ids: Vec<Option<Arc<str>>> = vec![None; count];
        let mut groups: Vec<(Arc<Seat>, VecDeque<Admit>)> = Vec::new();
        let mut places: FnvHashMap<u32, usize> = FnvHashMap::default();
        for (at, submission) in round.into_iter().enumerate() {
            let to = TicketReply::Many(Arc::clone(&reply), at);
            let handed = match self.prepare(submission, TicketReply::Many(Arc::clone(&reply), at)) {
                Ok(handed) => handed,
                Err(error) => {
                    to.send(Err(error));
                    continue;
                }
            };
            ids[at] = Some(Arc::clone(&handed.id));
            match self.seat_of_new(&handed.submission.mailbox) {
                Ok(seat) => {
                    let place = *places.entry(seat.key().0).or_insert(groups.len());
                    if place == groups.len() {
                        groups.push((seat, VecDeque::new()));
                    }
                    groups[place].1.push_back(Admit::Send(handed));
                }
                Err(none) => self.turn_down(Admit::Send(handed), &none),
            }
        }
        drop(reply);
        for (seat, group) in groups {
            self.put_many(seat, group);
        }
        let answers = answers.await.unwrap_or_default();
        let answers = answers.into_iter().zip(ids).map(|(answer, id)| {
            let id = id.unwrap_or_else(|| Arc::from(""));
            answer.unwrap_or(Err(SubmitError::Interrupted { id }))
        });
        answers.collect()
    }

    /// Judges a submission and gives it its id.
    fn prepare(&self, mut submission: Submission, reply: TicketReply) -> Result<Box<Handed>, SubmitError> {
        if self.world.is_closing() {
            return Err(SubmitError::ShuttingDown { submission: Box::new(submission) });
        }
        let now = self.world.clock.now();
        let settings = self.world.settings.load();
        if let Err(problem) = submission.validate(now, &settings.config.submit) {
            return Err(SubmitError::Invalid { problem, submission: Box::new(submission) });
        }
        // Of what the caller asked for: a tenant that the configuration gives may be another one at the next try.
        let fingerprint = submission.fingerprint();
        if submission.tenant.is_none() {
            submission.tenant = settings.config.tenant_of(&submission.mailbox).map(Arc::clone);
        }
        let id = self.id_of(&submission, now);
        let cost = self.cost_of(&settings.config, &submission);
        Ok(Box::new(Handed { submission, id, cost, fingerprint, reply }))
    }

    /// What one attempt takes: as the caller said, or as the transport says of what the email counts.
    fn cost_of(&self, config: &Config, submission: &Submission) -> Cost {
        let transported = self.transported(counted(config, submission));
        match submission.cost {
            // How many requests an attempt makes is the transport's to say.
            Some(named) => Cost { requests: named.requests.max(transported.requests), ..named },
            None => transported,
        }
    }

    /// What one attempt takes by the transport, of what the email counts.
    pub(super) fn transported(&self, counted: Cost) -> Cost {
        // A transport that panics is no reason to take nothing in.
        catch_unwind(AssertUnwindSafe(|| self.world.transport.cost(counted))).unwrap_or(counted)
    }

    fn id_of(&self, submission: &Submission, now: Timestamp) -> Arc<str> {
        submission.operation_id.as_ref().map_or_else(|| self.mint.id(now), Arc::clone)
    }

    /// Puts one thing into its mailbox's queue.
    pub(super) fn put(&self, mut admit: Admit) -> Result<Arc<Seat>, Refused> {
        loop {
            let seat = match self.seat_of_new(admit.mailbox()) {
                Ok(seat) => seat,
                Err(none) => return Err(Refused { admit, why: Why::NoSeat(none) }),
            };
            match seat.ingress().admit(admit) {
                Ok(rung) => {
                    self.world.heard(&seat, rung);
                    return Ok(seat);
                }
                // Passivated between the look-up and the push: its next seat takes it.
                Err(NotTaken::Retired(back)) => {
                    self.world.directory.leave(&seat);
                    admit = back;
                }
                Err(NotTaken::Closed(admit)) => return Err(Refused { admit, why: Why::NoSeat(NoSeat::Closed) }),
                Err(NotTaken::Full(admit)) => return Err(Refused { admit, why: Why::Full(seat.ingress().lane_max()) }),
            }
        }
    }

    /// Puts a group into one mailbox's queue; what does not fit is refused item by item.
    fn put_many(&self, seat: Arc<Seat>, mut group: VecDeque<Admit>) {
        match seat.ingress().admit_many(&mut group) {
            Ok(rung) => self.world.heard(&seat, rung),
            Err(NotTaken::Retired(())) => {
                // One by one: each finds the mailbox's next seat.
                for admit in group {
                    if let Err(refused) = self.put(admit) {
                        self.answer_refused(refused);
                    }
                }
                return;
            }
            Err(NotTaken::Closed(()) | NotTaken::Full(())) => {
                group.drain(..).for_each(|admit| admit.turn_away(TurnedAway::ShuttingDown));
            }
        }
        for admit in group {
            self.answer_refused(Refused { admit, why: Why::Full(seat.ingress().lane_max()) });
        }
    }

    fn turn_down(&self, admit: Admit, none: &NoSeat) {
        let none = match none {
            NoSeat::Unknown => NoSeat::Unknown,
            NoSeat::Full => NoSeat::Full,
            NoSeat::Closed => NoSeat::Closed,
        };
        self.answer_refused(Refused { admit, why: Why::NoSeat(none) });
    }

    fn answer_refused(&self, refused: Refused) {
        let Refused { admit, why } = refused;
        if let Admit::Send(handed) = admit {
            let mailboxes_max = self.world.directory.live_max();
            handed.refuse(|submission| why.error(submission, mailboxes_max));
        }
    }
}

/// What was not taken in, and why.
pub(super) struct Refused {
    pub(super) admit: Admit,
    pub(super) why: Why,
}

pub(super) enum Why {
    NoSeat(NoSeat),
    /// The lane's queue is full at this many.
    Full(usize),
}

impl Why {
    fn error(self, submission: Box<Submission>, mailboxes_max: usize) -> SubmitError {
        match self {
            Self::NoSeat(NoSeat::Unknown) => SubmitError::UnknownMailbox { submission },
            Self::NoSeat(NoSeat::Full) => {
                SubmitError::TooManyMailboxes { mailboxes_max, retry_after: RETRY_AFTER, submission }
            }
            Self::NoSeat(NoSeat::Closed) => SubmitError::ShuttingDown { submission },
            Self::Full(depth_max) => {
                let lane = submission.lane;
                SubmitError::QueueFull { lane, depth_max, retry_after: RETRY_AFTER, submission }
            }
        }
    }
}

/// What the email counts. Without configured domains of our own, the mailbox's domain is.
fn counted(config: &Config, submission: &Submission) -> Cost {
    let own = &config.submit.own_domains;
    match submission.mailbox.rsplit_once('@') {
        Some((_, domain)) if own.is_empty() => submission.email.cost(&[domain]),
        _ => submission.email.cost(own),
    }
}
