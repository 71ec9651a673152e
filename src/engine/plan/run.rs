//! The copy, run forward.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Bound, Forecast, Method, Plan, STEPS_MAX};
use crate::engine::constraint::Constraint;
use crate::engine::cost::Cost;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::mailbox::{Effect, Input, Mailbox, Stage};
use crate::engine::operation::{Operation, OperationKey, OperationKind};
use crate::engine::shared::{self, Asker, MailboxKey, Shared};
use crate::engine::time::{Timestamp, micros};
use crate::engine::verdict::{Answer, Verdict};

/// Operations of one line that stand in the copy's lanes at a time; the rest follows as they leave.
const FED: u64 = 256;
/// Keys of operations that only a plan knows. No scheduler gets there by counting.
const FIRST_KEY: u64 = 1 << 62;
/// No campaign is followed further than this.
const HORIZON: Duration = Duration::from_secs(20 * 366 * 86_400);

/// Whether an operation belongs to the campaign that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Campaign,
    Other,
}

/// Operations of one lane and tenant, in order.
struct Feed {
    lane: Lane,
    tenant: Option<Arc<str>>,
    /// How many of what cost, and whose.
    runs: VecDeque<(u64, Cost, Whose)>,
    /// How many stand in the lanes.
    fed: u64,
}

/// An attempt that ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flight {
    Ours(OperationKey),
    /// On a reservation at the shared scopes of a mailbox that is not copied.
    Theirs(Asker, Option<Arc<str>>),
}

struct Run {
    mailbox: Mailbox,
    own: MailboxKey,
    shared: Option<Shared>,
    start: Timestamp,
    now: Timestamp,
    latency: Duration,
    feeds: Vec<Feed>,
    /// The feed and the owner of each operation that a feed put in; the key counts from [`FIRST_KEY`].
    fed: Vec<(usize, Whose)>,
    flights: BTreeSet<(Timestamp, Flight)>,
    to_shared: VecDeque<shared::Input>,
    left: u64,
    sent: u64,
    first_send: Option<Timestamp>,
    /// The latest acceptance.
    last: Timestamp,
    /// An acceptance near half of the steps, and how many were left then.
    half: Option<(Timestamp, u64)>,
    binding: Option<Constraint>,
    bounds: Vec<Bound>,
}

pub(super) fn forecast(plan: &Plan) -> Forecast {
    let mut run = Run::new(plan);
    let shared = |run: &Run| run.shared.as_ref()?.limit_below(plan.tenant.as_ref(), &plan.cost);
    let never_fits = run.mailbox.limit_below(&plan.cost).or_else(|| shared(&run));
    let mut method = Method::Stepped;
    if never_fits.is_none() && plan.count > 0 {
        method = run.go();
    }
    let finished = run.left == 0 || method == Method::Extrapolated;
    let finish = match (finished, plan.count) {
        (false, _) => None,
        (true, 0) => Some(run.start),
        (true, _) => Some(run.finish()),
    };
    let mut bounds = std::mem::take(&mut run.bounds);
    bounds.sort_by_key(|bound| (std::cmp::Reverse(bound.total), bound.from));
    let blocked = run.binding.filter(|_| finish.is_none() && never_fits.is_none());
    Forecast {
        at: run.start,
        count: plan.count,
        first_send: run.first_send,
        finish,
        blocked_by: blocked.map(|constraint| Constraint { binding: true, ..constraint }),
        never_fits,
        bounds,
        ahead: plan.snapshot.lines.iter().map(|line| line.count).sum(),
        left_out: plan.snapshot.left_out,
        method,
        latency: plan.latency,
    }
}

impl Run {
    fn new(plan: &Plan) -> Self {
        let snapshot = plan.snapshot.clone();
        let start = snapshot.at;
        let mut feeds: Vec<Feed> = Vec::new();
        for line in snapshot.lines {
            let runs = VecDeque::from([(line.count, line.cost, Whose::Other)]);
            feeds.push(Feed { lane: line.lane, tenant: line.tenant, runs, fed: 0 });
        }
        let campaign = (plan.count, plan.cost, Whose::Campaign);
        match feeds.iter_mut().find(|feed| feed.lane == plan.lane && feed.tenant == plan.tenant) {
            Some(feed) => feed.runs.push_back(campaign),
            None => {
                let (lane, tenant) = (plan.lane, plan.tenant.clone());
                feeds.push(Feed { lane, tenant, runs: VecDeque::from([campaign]), fed: 0 });
            }
        }
        let (shared, own) = match &plan.shared {
            Some((shared, own)) => (Some(shared.clone()), *own),
            None => (None, MailboxKey(0)),
        };
        let mut run = Self {
            mailbox: snapshot.mailbox,
            own,
            shared,
            start,
            now: start,
            latency: plan.latency,
            feeds,
            fed: Vec::new(),
            flights: BTreeSet::new(),
            to_shared: VecDeque::new(),
            left: plan.count,
            sent: 0,
            first_send: None,
            last: start,
            half: None,
            binding: None,
            bounds: Vec::new(),
        };
        if let Some(limits) = plan.limits.clone() {
            run.mailbox.relimit(start, limits);
        }
        run.take_up(&snapshot.under_way);
        run
    }

    /// What was under way at the snapshot goes on.
    fn take_up(&mut self, under_way: &[(OperationKey, Stage)]) {
        let soon = self.now.after(Duration::from_micros(1));
        let mut ours = BTreeSet::new();
        for (key, stage) in under_way {
            ours.insert(*key);
            match stage {
                Stage::Reserving => self.tell(Input::Granted { key: *key }),
                Stage::Claiming => self.tell(Input::Claimed { key: *key }),
                Stage::Attempting(sent_at) => {
                    let at = sent_at.after(self.latency).max(soon);
                    self.flights.insert((at, Flight::Ours(*key)));
                }
            }
        }
        let end = self.now.after(self.latency);
        for (asker, tenant) in self.shared.as_ref().map(Shared::granted).unwrap_or_default() {
            if asker.mailbox != self.own || !ours.contains(&asker.key) {
                self.flights.insert((end, Flight::Theirs(asker, tenant)));
            }
        }
        self.drain_shared();
    }

    /// Runs until the campaign is over, or nothing happens by itself any more.
    fn go(&mut self) -> Method {
        if self.shared.is_some() {
            self.to_shared.push_back(shared::Input::Wake);
            self.drain_shared();
        }
        self.refill();
        self.tell(Input::Wake);
        self.settle_down();
        while self.left > 0 {
            if self.sent >= STEPS_MAX && self.half.is_some_and(|(_, then)| self.left < then) {
                return Method::Extrapolated;
            }
            let ends = self.flights.first().map(|(at, _)| *at);
            let shared = self.shared.as_ref().and_then(Shared::poll_deadline);
            let Some(next) = [ends, self.mailbox.poll_deadline(), shared].into_iter().flatten().min() else { break };
            if next == Timestamp::NEVER || next > self.start.after(HORIZON) {
                break;
            }
            self.pass(next);
            self.happen(ends == Some(next), shared == Some(next));
            self.settle_down();
        }
        Method::Stepped
    }

    /// Everything that is due now: what ends first, as answers come before timers.
    fn happen(&mut self, ends: bool, shared: bool) {
        if ends {
            let Some((_, flight)) = self.flights.pop_first() else { return };
            let answer: Answer = Verdict::Accepted.into();
            match flight {
                Flight::Ours(key) => self.tell(Input::Finished { key, answer }),
                Flight::Theirs(asker, tenant) => {
                    let sent_at = self.now.before(self.latency);
                    self.to_shared.push_back(shared::Input::Settle { asker, tenant, sent_at, answer });
                }
            }
        } else if shared {
            self.to_shared.push_back(shared::Input::Wake);
        } else {
            self.tell(Input::Wake);
        }
    }

    /// Works off what one happening set going, and keeps the lanes filled.
    fn settle_down(&mut self) {
        self.drain_shared();
        while self.refill() {
            self.tell(Input::Wake);
            self.drain_shared();
        }
    }

    /// Tops up every line that has run down to half; whether any had.
    fn refill(&mut self) -> bool {
        let mut filled = false;
        for place in 0..self.feeds.len() {
            if self.feeds[place].fed > FED / 2 {
                continue;
            }
            while self.feeds[place].fed < FED {
                let Some((cost, whose)) = self.feeds[place].next() else { break };
                self.feed(place, cost, whose);
                filled = true;
            }
        }
        filled
    }

    fn feed(&mut self, place: usize, cost: Cost, whose: Whose) {
        let key = FIRST_KEY + self.fed.len() as u64;
        self.fed.push((place, whose));
        let feed = &mut self.feeds[place];
        feed.fed += 1;
        let operation = Operation {
            key: OperationKey(key),
            id_hash: key,
            lane: feed.lane,
            kind: OperationKind::Send,
            tenant: feed.tenant.clone(),
            campaign: None,
            cost,
            submitted_at: self.start,
            not_before: self.start,
            deadline: Timestamp::NEVER,
            attempts: 0,
        };
        if whose == Whose::Campaign && operation.lane == Lane::Foreground {
            self.tell(Input::Enqueue(operation));
        } else {
            self.mailbox.feed(self.now, operation);
        }
    }

    fn tell(&mut self, input: Input) {
        self.mailbox.handle(self.now, input);
        while let Some(effect) = self.mailbox.poll_effect() {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        let own = self.own;
        let asker = |key| Asker { mailbox: own, key };
        match effect {
            Effect::Reserve { key, lane, tenant, cost } if self.shared.is_some() => {
                self.to_shared.push_back(shared::Input::Reserve { asker: asker(key), lane, tenant, cost });
            }
            Effect::Reserve { key, .. } => self.tell(Input::Granted { key }),
            Effect::Return { key, .. } => self.to_shared.push_back(shared::Input::Return { asker: asker(key) }),
            Effect::Settle { key, tenant, sent_at, answer } => {
                self.to_shared.push_back(shared::Input::Settle { asker: asker(key), tenant, sent_at, answer });
            }
            Effect::Claim { key, .. } => self.tell(Input::Claimed { key }),
            Effect::Send { key, .. } => self.send(key),
            Effect::Grant { key } => {
                self.flights.insert((self.now.after(self.latency), Flight::Ours(key)));
            }
            Effect::Outcome { key, .. } => self.end(key),
            Effect::Event(Event::OperationDeferred { constraint, .. }) => self.binding = Some(constraint),
            Effect::Event(_) | Effect::Record(_) | Effect::Reconcile { .. } | Effect::Remember(_) => {}
            Effect::Passing { .. } | Effect::Failed { .. } | Effect::Troubled { .. } => {}
        }
    }

    fn drain_shared(&mut self) {
        while let Some(input) = self.to_shared.pop_front() {
            let Some(shared) = &mut self.shared else { continue };
            shared.handle(self.now, input);
            while let Some(effect) = self.shared.as_mut().and_then(Shared::poll_effect) {
                match effect {
                    shared::Effect::Grant(asker) if asker.mailbox == self.own => {
                        self.tell(Input::Granted { key: asker.key });
                    }
                    shared::Effect::Grant(asker) => {
                        self.flights.insert((self.now.after(self.latency), Flight::Theirs(asker, None)));
                    }
                    shared::Effect::Wait { asker, until, constraint } if asker.mailbox == self.own => {
                        self.binding = Some(constraint);
                        self.tell(Input::Waiting { key: asker.key, until, constraint });
                    }
                    shared::Effect::Deny(asker) if asker.mailbox == self.own => {
                        self.tell(Input::Denied { key: asker.key });
                    }
                    shared::Effect::Announce(ask) => self.tell(Input::AskShared(ask)),
                    shared::Effect::Wait { .. }
                    | shared::Effect::Deny(_)
                    | shared::Effect::Event(_)
                    | shared::Effect::Remember { .. }
                    | shared::Effect::Elect { .. }
                    | shared::Effect::Yield { .. }
                    | shared::Effect::Troubled { .. } => {}
                }
            }
        }
    }

    fn send(&mut self, key: OperationKey) {
        self.sent += 1;
        if self.whose(key) == Some(Whose::Campaign) {
            self.first_send.get_or_insert(self.now);
        }
        self.flights.insert((self.now.after(self.latency), Flight::Ours(key)));
    }

    fn end(&mut self, key: OperationKey) {
        let Some((place, whose)) = self.place(key).and_then(|place| self.fed.get(place)).copied() else { return };
        self.feeds[place].fed = self.feeds[place].fed.saturating_sub(1);
        if whose == Whose::Campaign {
            self.left = self.left.saturating_sub(1);
            self.last = self.now;
            if self.sent >= STEPS_MAX / 2 && self.half.is_none() {
                self.half = Some((self.now, self.left));
            }
        }
    }

    fn whose(&self, key: OperationKey) -> Option<Whose> {
        self.place(key).and_then(|place| self.fed.get(place)).map(|(_, whose)| *whose)
    }

    fn place(&self, key: OperationKey) -> Option<usize> {
        key.0.checked_sub(FIRST_KEY).and_then(|place| usize::try_from(place).ok())
    }

    /// Time passes, and whatever binds now has bound for so long.
    fn pass(&mut self, next: Timestamp) {
        let (from, span) = (self.now, next.since(self.now));
        self.now = next;
        let Some(constraint) = self.binding.filter(|_| !span.is_zero()) else { return };
        let Constraint { wall, scope, .. } = constraint;
        match self.bounds.iter_mut().find(|bound| bound.wall == wall && bound.scope == scope) {
            Some(bound) => (bound.total, bound.until) = (bound.total + span, next),
            None => self.bounds.push(Bound { wall, scope, total: span, from, until: next }),
        }
    }

    /// When the last one is accepted; those that are still to come are taken at the rate of the last half.
    fn finish(&self) -> Timestamp {
        let Some((since, then)) = self.half.filter(|_| self.left > 0) else { return self.last };
        let (span, done) = (micros(self.last.since(since)), then.saturating_sub(self.left).max(1));
        let rest = u128::from(span) * u128::from(self.left) / u128::from(done);
        Timestamp::from_micros(self.last.as_micros().saturating_add(u64::try_from(rest).unwrap_or(u64::MAX)))
    }
}

impl Feed {
    fn next(&mut self) -> Option<(Cost, Whose)> {
        loop {
            let (count, cost, whose) = self.runs.front_mut()?;
            if *count == 0 {
                self.runs.pop_front();
                continue;
            }
            *count -= 1;
            return Some((*cost, *whose));
        }
    }
}
