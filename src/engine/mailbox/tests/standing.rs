//! A remembered wait changes no decision: one mailbox keeps its last answer, its twin forgets it before every input.

use proptest::prelude::*;

use super::*;
use crate::engine::constraint::Constraint;
use crate::engine::limit::{Limit, WindowKind};
use crate::engine::policy::LanesMode;
use crate::engine::ratio::Ratio;
use crate::engine::scope::ScopeKind;

/// What happens next, as far as the outside decides it.
#[derive(Clone, Debug)]
enum Move {
    Later(u32),
    /// To the instant that was named, or a little before or past it.
    Deadline(i8),
    Submit {
        lane: Lane,
        kind: OperationKind,
        recipients: u32,
        tenant: u8,
        delay: u64,
        lives: u64,
    },
    End(prop::sample::Index, Verdict, Option<u32>),
    Shared(prop::sample::Index),
    Order(Input),
    Cancel(prop::sample::Index),
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let text = prop::sample::select(vec![
        "5 requests / 1m",
        "3 requests / 1s",
        "20 requests / 10m",
        "300 requests / 1h",
        "6 recipients / 1m",
        "40 recipients / 24h",
        "12kB / 5m",
        "9000 requests / 24h",
    ]);
    let kind =
        prop_oneof![4 => Just(WindowKind::Unknown), 1 => Just(WindowKind::Paranoid), 1 => Just(WindowKind::Fixed)];
    let limit = (text, kind).prop_map(|(text, kind)| {
        let limit: Limit = text.parse().expect("a limit");
        limit.with_kind(kind).unwrap_or(limit)
    });
    prop::collection::vec(limit, 0..4)
}

fn a_policy() -> impl Strategy<Value = MailboxPolicy> {
    (limits(), 0_u32..5, 0_u32..8, any::<[bool; 3]>()).prop_map(
        |(limits, connections, bypass_max, [cap, repeat, known])| {
            let scope = ScopePolicy { limits, concurrency: NonZeroU32::new(connections) };
            let mut policy = MailboxPolicy { scope, ..MailboxPolicy::default() };
            policy.lanes.bypass_max = bypass_max;
            policy.lanes.mode = if cap && bypass_max == 3 { LanesMode::HardCap } else { LanesMode::ReservedWindow };
            policy.retry.duplicates = if repeat { DuplicatePolicy::AtLeastOnce } else { DuplicatePolicy::AtMostOnce };
            policy.lanes.foreground_expected_per_hour = known.then_some(20);
            policy.queue.background_max = 40;
            policy
        },
    )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let throttled = |kind, scope, seconds: Option<u64>| {
        Verdict::Throttled(Throttle { retry_after: seconds.map(Duration::from_secs), scope, kind })
    };
    prop_oneof![
        30 => Just(Verdict::Accepted),
        1 => Just(throttled(ThrottleKind::Rate, None, Some(40))),
        1 => Just(throttled(ThrottleKind::Rate, Some(ScopeKind::Application), None)),
        1 => Just(throttled(ThrottleKind::Concurrency, None, None)),
        1 => Just(Verdict::Transient { sent: Sent::No, retry_after: None }),
        1 => Just(Verdict::Transient { sent: Sent::Maybe, retry_after: None }),
        1 => Just(Verdict::Unknown),
        1 => Just(Verdict::Permanent { of: Subject::Message }),
    ]
}

fn order() -> impl Strategy<Value = Input> {
    let hold = |target| Input::Hold(Hold::new(target, Timestamp::NEVER));
    prop_oneof![
        2 => Just(Input::Hold(Hold::new(HoldTarget::Mailbox, at(900)))),
        1 => Just(hold(HoldTarget::Tenant("b".into()))),
        2 => Just(Input::Resume(HoldTarget::Mailbox)),
        2 => Just(Input::Resume(HoldTarget::Tenant("b".into()))),
        1 => Just(Input::Trip { until: at(1_200) }),
        2 => Just(Input::CloseBreaker),
        2 => a_policy().prop_map(|policy| Input::Reconfigure(Arc::new(policy))),
        2 => Just(Input::AskShared(AskShared::OnTrouble)),
        1 => Just(Input::AskShared(AskShared::Always)),
    ]
}

fn a_move() -> impl Strategy<Value = Move> {
    let lane = prop_oneof![Just(Lane::Foreground), Just(Lane::Background)];
    let kind = prop_oneof![8 => Just(OperationKind::Send), 1 => Just(OperationKind::Permit)];
    let delay = prop_oneof![9 => Just(0_u64), 1 => Just(60)];
    let lives = prop_oneof![9 => Just(86_400_u64), 1 => Just(90)];
    let submit = (lane, kind, 1_u32..6, 0_u8..3, delay, lives);
    prop_oneof![
        3 => (0_u32..8).prop_map(|power| Move::Later(10_u32.pow(power))),
        8 => (-1_i8..=1).prop_map(Move::Deadline),
        10 => submit.prop_map(|(lane, kind, recipients, tenant, delay, lives)| {
            Move::Submit { lane, kind, recipients, tenant, delay, lives }
        }),
        8 => (any::<prop::sample::Index>(), verdict(), prop::option::weighted(0.1, 70_u32..120))
            .prop_map(|(which, verdict, usage)| Move::End(which, verdict, usage)),
        2 => any::<prop::sample::Index>().prop_map(Move::Shared),
        1 => order().prop_map(Move::Order),
        1 => any::<prop::sample::Index>().prop_map(Move::Cancel),
    ]
}

/// Two mailboxes that are told the same.
struct Twins {
    keeps: Mailbox,
    forgets: Mailbox,
    now: Timestamp,
    keys: u64,
    attempting: Vec<OperationKey>,
    asked: Vec<OperationKey>,
}

impl Twins {
    fn tell(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.forgets.table.set_standing(None);
            self.keeps.handle(self.now, input.clone());
            self.forgets.handle(self.now, input.clone());
            loop {
                let (effect, other) = (self.keeps.poll_effect(), self.forgets.poll_effect());
                assert_eq!(format!("{effect:?}"), format!("{other:?}"), "at {:?}, after {input:?}", self.now);
                match effect {
                    None => break,
                    Some(Effect::Claim { key, .. }) => inputs.push(Input::Claimed { key }),
                    Some(Effect::Send { key, .. } | Effect::Grant { key }) => self.attempting.push(key),
                    Some(Effect::Reserve { key, .. }) => self.asked.push(key),
                    Some(_) => {}
                }
            }
            assert_eq!(self.keeps.poll_deadline(), self.forgets.poll_deadline(), "after {input:?}");
        }
    }

    fn act(&mut self, next: Move) {
        match next {
            Move::Later(micros) => self.now = self.now.after(Duration::from_micros(micros.into())),
            Move::Deadline(off) => {
                let Some(at) = self.keeps.poll_deadline() else { return };
                let at = at.as_micros().saturating_add_signed(off.into());
                self.now = self.now.max(Timestamp::from_micros(at)).min(at_most());
                self.tell(Input::Wake);
            }
            Move::Submit { lane, kind, recipients, tenant, delay, lives } => {
                self.keys += 1;
                let operation = Operation {
                    key: OperationKey(self.keys),
                    id_hash: self.keys.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    lane,
                    kind,
                    tenant: [None, Some("a"), Some("b")][usize::from(tenant)].map(Arc::from),
                    campaign: None,
                    cost: Cost::email(recipients, 1_000),
                    submitted_at: self.now,
                    not_before: self.now.after(Duration::from_secs(delay)),
                    deadline: self.now.after(Duration::from_secs(lives)),
                    attempts: 0,
                };
                if self.keeps.check(self.now, &operation, None).is_ok() {
                    self.tell(Input::Enqueue(operation));
                }
            }
            Move::End(which, verdict, usage) if !self.attempting.is_empty() => {
                let key = self.attempting.remove(which.index(self.attempting.len()));
                let answer = Answer { usage: usage.map(Ratio::percent), ..Answer::from(verdict) };
                self.tell(Input::Finished { key, answer });
            }
            Move::Shared(which) if !self.asked.is_empty() => {
                let at = which.index(self.asked.len());
                let key = self.asked[at];
                if which.index(5) > 0 {
                    self.asked.remove(at);
                    return self.tell(Input::Granted { key });
                }
                let until = self.now.after(Duration::from_secs(5));
                let constraint = Constraint::exact(Wall::InFlight, ScopeKind::Application, until);
                self.tell(Input::Waiting { key, until, constraint });
            }
            Move::Order(input) => self.tell(input),
            Move::Cancel(which) if self.keys > 0 => {
                let key = OperationKey(1 + which.index(usize::try_from(self.keys).expect("few")) as u64);
                self.tell(Input::Cancel { key });
            }
            Move::End(..) | Move::Shared(_) | Move::Cancel(_) => {}
        }
    }
}

/// Before the end of time.
fn at_most() -> Timestamp {
    at(1_000_000_000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn who_keeps_the_last_answer_decides_like_who_asks_anew(
        policy in a_policy(),
        moves in prop::collection::vec(a_move(), 0..200),
    ) {
        let mailbox = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy));
        let (attempting, asked) = (Vec::new(), Vec::new());
        let mut twins = Twins { keeps: mailbox.clone(), forgets: mailbox, now: T0, keys: 0, attempting, asked };
        moves.into_iter().for_each(|next| twins.act(next));
    }
}

#[test]
fn a_wait_stands_through_arrivals_behind_it_and_ends_that_free_nothing_yet() {
    let mut rig = Rig::new(policy(&["5 requests / 1m"], 8));
    (1..=9).for_each(|key| rig.submit(key, Lane::Foreground));
    (1..=5).for_each(|key| rig.answer(key, Verdict::Accepted));
    let stands_until = |rig: &Rig| rig.mailbox.table.standing().map(|standing| standing.wait.stands_until);
    assert_eq!(stands_until(&rig), Some(T0.after(GUARDED)), "when the first of them is free");
    rig.now = at(1);
    rig.submit(10, Lane::Foreground);
    assert!(!rig.mailbox.stirred, "behind others of its tenant, and no lighter");
    rig.submit(11, Lane::Background);
    rig.input(Input::Wake);
    assert!(!rig.mailbox.stirred);
    rig.input(Input::Cancel { key: OperationKey(6) });
    assert!(rig.mailbox.stirred, "the head is another one");
    rig.now = T0.after(GUARDED);
    rig.input(Input::Wake);
    assert_eq!(rig.sent[5..], [7, 8, 9, 10].map(OperationKey), "and nothing for background beside the reserve");
}
