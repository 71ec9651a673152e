//! A mailbox that was packed and unpacked while it had nothing to do behaves as one that was not.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::mailbox::{AskShared, Effect, Input, Mailbox};
use mailweir::engine::operation::OperationKind;
use mailweir::engine::policy::{MailboxPolicy, ScopePolicy};
use mailweir::engine::{
    Answer, Cost, Lane, Operation, OperationKey, Sent, Subject, Throttle, ThrottleKind, Timestamp, Verdict,
};
use proptest::prelude::*;

const T0: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const ID: &str = "noreply@contoso.example";

#[derive(Clone, Debug)]
enum Step {
    /// Time passes.
    Wait(Duration),
    Submit {
        lane: Lane,
        recipients: u32,
    },
    /// The oldest attempt ends.
    End(Verdict),
    /// Passivated, and back.
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![0..5_000_u64, 5_000..200_000_u64, 200_000..200_000_000_u64];
    let transient = |sent| Verdict::Transient { sent, retry_after: None };
    let throttle = Throttle { retry_after: Some(Duration::from_secs(40)), scope: None, kind: ThrottleKind::Rate };
    let verdict = prop_oneof![
        12 => Just(Verdict::Accepted),
        2 => Just(transient(Sent::No)),
        1 => Just(transient(Sent::Maybe)),
        1 => Just(Verdict::Unknown),
        1 => Just(Verdict::Throttled(throttle)),
        1 => Just(Verdict::Permanent { of: Subject::Message }),
    ];
    let lane = prop_oneof![Just(Lane::Foreground), Just(Lane::Background)];
    prop_oneof![
        3 => wait.prop_map(|millis| Step::Wait(Duration::from_millis(millis))),
        4 => (lane, 1..4_u32).prop_map(|(lane, recipients)| Step::Submit { lane, recipients }),
        5 => verdict.prop_map(Step::End),
        2 => Just(Step::Rest),
    ]
}

fn policy() -> Arc<MailboxPolicy> {
    let limits = ["5 requests / 1m", "40 recipients / 24h", "12kB / 5m"];
    let limits = limits.iter().map(|text| text.parse().expect("a limit")).collect();
    let scope = ScopePolicy { limits, concurrency: NonZeroU32::new(3) };
    Arc::new(MailboxPolicy { scope, ..MailboxPolicy::default() })
}

/// The same mailbox twice: one stays, one is packed whenever it may be.
struct Twins {
    stays: Mailbox,
    rests: Mailbox,
    policy: Arc<MailboxPolicy>,
    now: Timestamp,
    keys: u64,
    in_flight: Vec<OperationKey>,
    /// How often one that had something to remember was packed.
    rested: u32,
}

impl Twins {
    fn new() -> Self {
        let policy = policy();
        let new = || Mailbox::new(ID.into(), Arc::clone(&policy));
        let (stays, rests) = (new(), new());
        let mut twins = Self { stays, rests, policy, now: T0, keys: 0, in_flight: Vec::new(), rested: 0 };
        twins.input(Input::AskShared(AskShared::OnTrouble));
        twins
    }

    fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.stays.handle(self.now, input.clone());
            self.rests.handle(self.now, input);
            loop {
                let (effect, other) = (self.stays.poll_effect(), self.rests.poll_effect());
                assert_eq!(format!("{effect:?}"), format!("{other:?}"));
                match effect {
                    None => break,
                    Some(Effect::Claim { key, .. }) => inputs.push(Input::Claimed { key }),
                    Some(Effect::Send { key, .. }) => self.in_flight.push(key),
                    Some(_) => {}
                }
            }
        }
        assert_eq!(self.stays.poll_deadline(), self.rests.poll_deadline());
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now.after(span);
        while let Some(next) = self.stays.poll_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.input(Input::Wake);
        }
        self.now = until;
    }

    fn submit(&mut self, lane: Lane, recipients: u32) {
        self.keys += 1;
        let operation = Operation {
            key: OperationKey(self.keys),
            id_hash: self.keys.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            lane,
            kind: OperationKind::Send,
            tenant: None,
            campaign: None,
            cost: Cost::email(recipients, 1_000),
            submitted_at: self.now,
            not_before: self.now,
            deadline: self.now.after(Duration::from_secs(3_600)),
            attempts: 0,
        };
        self.input(Input::Enqueue(operation));
    }

    fn rest(&mut self) {
        if !self.stays.is_idle() {
            return;
        }
        let rested = self.rests.clone().rested(self.now);
        self.rested += u32::from(!rested.is_blank(self.now));
        assert_eq!(rested.is_blank(self.now), self.stays.is_blank(self.now));
        self.rests = rested.awake(ID.into());
        // As the shell does with every engine that it takes up.
        self.input(Input::AskShared(AskShared::OnTrouble));
        self.input(Input::Reconfigure(Arc::clone(&self.policy)));
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Wait(span) => self.wait(span),
            Step::Submit { lane, recipients } => self.submit(lane, recipients),
            Step::End(verdict) if !self.in_flight.is_empty() => {
                let key = self.in_flight.remove(0);
                self.input(Input::Finished { key, answer: Answer::from(verdict) });
            }
            Step::End(_) => {}
            Step::Rest => self.rest(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_mailbox_that_rested_answers_as_one_that_did_not(steps in prop::collection::vec(step(), 1..80)) {
        let mut twins = Twins::new();
        for step in steps {
            twins.take(step);
        }
        let (facts, others) = (twins.stays.facts(twins.now), twins.rests.facts(twins.now));
        for (mine, other) in facts.windows.iter().zip(&others.windows) {
            prop_assert_eq!((mine.limit, mine.used, mine.effective), (other.limit, other.used, other.effective));
        }
    }
}

/// The property above is about something: mailboxes are packed while charges count, in a few bytes.
#[test]
fn what_still_counts_is_there_after_a_rest() {
    let mut twins = Twins::new();
    for _ in 0..3 {
        twins.submit(Lane::Foreground, 2);
        twins.take(Step::End(Verdict::Accepted));
        twins.wait(Duration::from_secs(120));
        twins.rest();
    }
    assert_eq!(twins.rested, 3);
    let used = twins.rests.facts(twins.now).windows.iter().map(|window| window.used[0]).collect::<Vec<_>>();
    assert_eq!(used, [0, 6, 2_000], "of a minute, a day and five minutes");
}
