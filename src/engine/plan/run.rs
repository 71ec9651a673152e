//! The copy, run forward.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::feed::{Fed, Whose};
use super::member::Member;
use super::tally::Tally;
use super::what_if::Change;
use super::{Forecast, Method, Plan, Sender};
use crate::engine::constraint::Constraint;
use crate::engine::cost::Cost;
use crate::engine::event::Event;
use crate::engine::lane::Lane;
use crate::engine::mailbox::{Effect, Input, Stage};
use crate::engine::operation::{Operation, OperationKey, OperationKind};
use crate::engine::shared::{self, Asker, Shared};
use crate::engine::time::Timestamp;
use crate::engine::verdict::{Answer, Verdict};

/// Keys of operations that only a plan knows. No scheduler gets there by counting.
const FIRST_KEY: u64 = 1 << 62;
/// No campaign is followed further than this.
const HORIZON: Duration = Duration::from_secs(20 * 366 * 86_400);

/// An attempt that ends.
#[derive(Debug)]
enum Flight {
    Ours(usize, OperationKey),
    /// On a reservation at the shared scopes of a mailbox that is not copied.
    Theirs(Asker, Option<Arc<str>>),
}

struct Run {
    members: Vec<Member>,
    shared: Option<Shared>,
    start: Timestamp,
    now: Timestamp,
    latency: Duration,
    /// What feeds put in; the key counts from [`FIRST_KEY`].
    fed: Vec<Fed>,
    /// By when they end, and of those that end together in the order in which they left.
    flights: BTreeMap<(Timestamp, u64), Flight>,
    flown: u64,
    to_shared: VecDeque<shared::Input>,
    tally: Tally,
}

pub(super) fn forecast(plan: &Plan) -> Forecast {
    let mut run = Run::new(plan);
    let fits = run.members.iter().any(|member| member.never_fits.is_none());
    let never_fits = run.members[0].never_fits.filter(|_| !fits);
    let mut method = Method::Stepped;
    if fits && plan.count > 0 {
        method = run.go();
    }
    let finished = run.tally.left == 0 || method == Method::Extrapolated;
    let finish = finished.then(|| run.tally.finish());
    let blocked = run.members.iter().find_map(|member| member.binding).filter(|_| finish.is_none() && fits);
    let lines = || plan.parts.iter().flat_map(|part| &part.snapshot.lines);
    Forecast {
        at: run.start,
        count: plan.count,
        first_send: run.tally.first_send,
        finish,
        deadline: run.deadline(),
        past_deadline: if fits { run.tally.past(run.deadline(), finish) } else { 0 },
        senders: run.senders(method),
        blocked_by: blocked.map(|constraint| Constraint { binding: true, ..constraint }),
        never_fits,
        bounds: run.tally.bounds(),
        ahead: lines().map(|line| line.count).sum(),
        left_out: plan.parts.iter().map(|part| part.snapshot.left_out).sum(),
        method,
        latency: plan.latency,
    }
}

impl Run {
    fn new(plan: &Plan) -> Self {
        let start = plan.parts.iter().map(|part| part.snapshot.at).max().unwrap_or(Timestamp::EPOCH);
        let mut run = Self {
            members: Vec::new(),
            shared: plan.shared.clone(),
            start,
            now: start,
            latency: plan.latency,
            fed: Vec::new(),
            flights: BTreeMap::new(),
            flown: 0,
            to_shared: VecDeque::new(),
            tally: Tally::new(plan.count, start),
        };
        let (of_mailbox, common) = plan.changes.iter().partition::<Vec<&Change>, _>(|change| change.is_of_mailbox());
        if !common.is_empty() {
            run.change_shared(&common);
        }
        let mut under_way = Vec::new();
        for part in &plan.parts {
            let mut snapshot = part.snapshot.clone();
            snapshot.rescope(|policy| of_mailbox.iter().for_each(|change| change.apply(policy)));
            under_way.push(std::mem::take(&mut snapshot.under_way));
            run.members.push(Member::new(plan, part, snapshot, run.shared.as_ref(), start));
        }
        run.take_up(&under_way);
        run
    }

    /// Tells the shared scopes what is otherwise, as a live reload would.
    fn change_shared(&mut self, changes: &[&Change]) {
        let shared = self.shared.get_or_insert_with(|| Shared::new(Arc::default()));
        let mut policy = shared.policy().clone();
        changes.iter().for_each(|change| change.apply_shared(&mut policy));
        shared.handle(self.start, shared::Input::Reconfigure(Arc::new(policy)));
    }

    /// What was under way at the snapshots goes on.
    fn take_up(&mut self, under_way: &[Vec<(OperationKey, Stage)>]) {
        self.drain_shared();
        let soon = self.now.after(Duration::from_micros(1));
        let mut ours = BTreeSet::new();
        for (member, under_way) in under_way.iter().enumerate() {
            for (key, stage) in under_way {
                ours.insert(Asker { mailbox: self.members[member].key, key: *key });
                match stage {
                    Stage::Reserving => self.tell(member, Input::Granted { key: *key }),
                    Stage::Claiming => self.tell(member, Input::Claimed { key: *key }),
                    Stage::Attempting(sent_at) => {
                        let at = sent_at.after(self.latency).max(soon);
                        self.fly(at, Flight::Ours(member, *key));
                    }
                }
            }
        }
        let end = self.now.after(self.latency);
        for (asker, tenant) in self.shared.as_ref().map(Shared::granted).unwrap_or_default() {
            if !ours.contains(&asker) {
                self.fly(end, Flight::Theirs(asker, tenant));
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
        for member in 0..self.members.len() {
            self.refill(member);
            self.tell(member, Input::Wake);
        }
        self.settle_down();
        while self.tally.left > 0 {
            if self.tally.is_enough() {
                return Method::Extrapolated;
            }
            let ends = self.flights.first_key_value().map(|((at, _), _)| *at);
            let shared = self.shared.as_ref().and_then(Shared::poll_deadline);
            let members = self.members.iter().filter_map(|member| member.mailbox.poll_deadline()).min();
            let Some(next) = [ends, members, shared].into_iter().flatten().min() else { break };
            if next == Timestamp::NEVER || next > self.start.after(HORIZON) {
                break;
            }
            self.tally.pass(self.now, next, self.members.iter().filter_map(|member| member.binding));
            self.now = next;
            self.happen(ends == Some(next), shared == Some(next));
            self.settle_down();
        }
        Method::Stepped
    }

    /// Something that is due now: what ends first, as answers come before timers.
    fn happen(&mut self, ends: bool, shared: bool) {
        if ends {
            let Some((_, flight)) = self.flights.pop_first() else { return };
            let answer: Answer = Verdict::Accepted.into();
            match flight {
                Flight::Ours(member, key) => self.tell(member, Input::Finished { key, answer }),
                Flight::Theirs(asker, tenant) => {
                    let sent_at = self.now.before(self.latency);
                    self.to_shared.push_back(shared::Input::Settle { asker, tenant, sent_at, answer });
                }
            }
        } else if shared {
            self.to_shared.push_back(shared::Input::Wake);
        } else {
            let is_due = |member: &Member| member.mailbox.poll_deadline().is_some_and(|at| at <= self.now);
            if let Some(member) = self.members.iter().position(is_due) {
                self.tell(member, Input::Wake);
            }
        }
    }

    /// Works off what one happening set going, and keeps the lanes filled.
    fn settle_down(&mut self) {
        self.drain_shared();
        let mut filled = true;
        while filled {
            filled = false;
            for member in 0..self.members.len() {
                if self.refill(member) {
                    filled = true;
                    self.tell(member, Input::Wake);
                    self.drain_shared();
                }
            }
        }
    }

    /// Tops up every line of a mailbox that has run down to half; whether any had.
    fn refill(&mut self, member: usize) -> bool {
        let mut filled = false;
        for place in 0..self.members[member].feeds.len() {
            if !self.members[member].feeds[place].is_low() {
                continue;
            }
            while let Some((cost, whose)) = self.members[member].feeds[place].next(self.tally.unsent) {
                self.feed(Fed { member, place, whose, stands: true }, cost);
                filled = true;
            }
        }
        filled
    }

    fn feed(&mut self, fed: Fed, cost: Cost) {
        let key = FIRST_KEY + self.fed.len() as u64;
        let Fed { member, place, whose, .. } = fed;
        self.fed.push(fed);
        let feed = &self.members[member].feeds[place];
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
            self.tell(member, Input::Enqueue(operation));
        } else {
            self.members[member].mailbox.feed(self.now, operation);
        }
    }

    fn tell(&mut self, member: usize, input: Input) {
        self.members[member].mailbox.handle(self.now, input);
        while let Some(effect) = self.members[member].mailbox.poll_effect() {
            self.perform(member, effect);
        }
    }

    fn perform(&mut self, member: usize, effect: Effect) {
        let mailbox = self.members[member].key;
        let asker = |key| Asker { mailbox, key };
        match effect {
            Effect::Reserve { key, lane, tenant, cost } if self.shared.is_some() => {
                self.to_shared.push_back(shared::Input::Reserve { asker: asker(key), lane, tenant, cost });
            }
            Effect::Reserve { key, .. } => self.tell(member, Input::Granted { key }),
            Effect::Return { key, .. } => self.to_shared.push_back(shared::Input::Return { asker: asker(key) }),
            Effect::Settle { key, tenant, sent_at, answer } => {
                self.to_shared.push_back(shared::Input::Settle { asker: asker(key), tenant, sent_at, answer });
            }
            // The pool is empty: another mailbox has sent what would have been this one.
            Effect::Claim { key, .. } if self.tally.unsent == 0 && self.is_candidate(key) => {}
            Effect::Claim { key, .. } => self.tell(member, Input::Claimed { key }),
            Effect::Send { key, .. } => self.send(member, key),
            Effect::Grant { key } => {
                self.fly(self.now.after(self.latency), Flight::Ours(member, key));
            }
            Effect::Outcome { key, .. } => self.end(key),
            Effect::Event(Event::OperationDeferred { constraint, .. }) => {
                self.members[member].binding = Some(constraint);
            }
            Effect::Event(_) | Effect::Record(_) | Effect::Reconcile { .. } | Effect::Remember(_) => {}
            Effect::Passing { .. } | Effect::Failed { .. } | Effect::Troubled { .. } => {}
        }
    }

    fn drain_shared(&mut self) {
        self.hear_shared();
        while let Some(input) = self.to_shared.pop_front() {
            if let Some(shared) = &mut self.shared {
                shared.handle(self.now, input);
            }
            self.hear_shared();
        }
    }

    /// What the shared scopes have to say to the mailboxes of the plan.
    fn hear_shared(&mut self) {
        while let Some(effect) = self.shared.as_mut().and_then(Shared::poll_effect) {
            match effect {
                shared::Effect::Grant(asker) => match self.member(asker) {
                    Some(member) => self.tell(member, Input::Granted { key: asker.key }),
                    None => {
                        self.fly(self.now.after(self.latency), Flight::Theirs(asker, None));
                    }
                },
                shared::Effect::Wait { asker, until, constraint } => {
                    if let Some(member) = self.member(asker) {
                        self.members[member].binding = Some(constraint);
                        self.tell(member, Input::Waiting { key: asker.key, until, constraint });
                    }
                }
                shared::Effect::Deny(asker) => {
                    if let Some(member) = self.member(asker) {
                        self.tell(member, Input::Denied { key: asker.key });
                    }
                }
                shared::Effect::Announce(ask) => {
                    (0..self.members.len()).for_each(|member| self.tell(member, Input::AskShared(ask)));
                }
                shared::Effect::Event(_)
                | shared::Effect::Remember { .. }
                | shared::Effect::Elect { .. }
                | shared::Effect::Yield { .. }
                | shared::Effect::Troubled { .. } => {}
            }
        }
    }

    fn member(&self, asker: Asker) -> Option<usize> {
        self.members.iter().position(|member| member.key == asker.mailbox)
    }

    fn fly(&mut self, until: Timestamp, flight: Flight) {
        self.flown += 1;
        self.flights.insert((until, self.flown), flight);
    }

    fn send(&mut self, member: usize, key: OperationKey) {
        self.tally.sent += 1;
        if self.leaves(key) == Some(Whose::Campaign) {
            self.members[member].count += 1;
            self.tally.send(self.now, self.members[member].deadline);
        }
        self.fly(self.now.after(self.latency), Flight::Ours(member, key));
    }

    fn end(&mut self, key: OperationKey) {
        self.leaves(key);
        if self.fed(key).is_some_and(|fed| fed.whose == Whose::Campaign) {
            self.tally.accept(self.now);
        }
    }

    /// An operation stands in its lane no longer; whose it is, if it did until now.
    fn leaves(&mut self, key: OperationKey) -> Option<Whose> {
        let place = place(key)?;
        let fed = self.fed.get_mut(place).filter(|fed| fed.stands)?;
        fed.stands = false;
        let whose = fed.whose;
        self.members[fed.member].feeds[fed.place].leaves(whose);
        if whose == Whose::Campaign {
            self.tally.unsent = self.tally.unsent.saturating_sub(1);
        }
        Some(whose)
    }

    fn is_candidate(&self, key: OperationKey) -> bool {
        self.fed(key).is_some_and(|fed| fed.whose == Whose::Campaign && fed.stands)
    }

    fn fed(&self, key: OperationKey) -> Option<&Fed> {
        self.fed.get(place(key)?)
    }

    fn deadline(&self) -> Timestamp {
        self.members.iter().map(|member| member.deadline).min().unwrap_or(Timestamp::NEVER)
    }

    fn senders(&self, method: Method) -> Vec<Sender> {
        let stepped: Vec<u64> = self.members.iter().map(|member| member.count).collect();
        let counts = if method == Method::Extrapolated { self.tally.with_rest(&stepped) } else { stepped };
        let sender = |(member, count): (&Member, u64)| Sender { mailbox: member.mailbox.name(), count };
        self.members.iter().zip(counts).map(sender).collect()
    }
}

fn place(key: OperationKey) -> Option<usize> {
    key.0.checked_sub(FIRST_KEY).and_then(|place| usize::try_from(place).ok())
}
