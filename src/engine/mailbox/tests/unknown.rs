//! When "absent" is believed, and when an operation that may have been accepted is sent again.

use std::time::Duration;

use super::*;
use crate::engine::operation::ExhaustCause;
use crate::engine::time::micros;

const MINUTE: Duration = Duration::from_secs(60);

fn at_least_once() -> MailboxPolicy {
    let mut policy = policy(&["50 requests / 1h"], 4);
    policy.retry.duplicates = DuplicatePolicy::AtLeastOnce;
    policy
}

fn blind(horizon: Duration, dedupe_window: Duration) -> MailboxPolicy {
    let mut policy = at_least_once();
    (policy.retry.horizon, policy.provider.dedupe_window) = (horizon, dedupe_window);
    policy
}

/// An operation whose attempt was lost at the start.
fn lost(policy: MailboxPolicy) -> Rig {
    let mut rig = Rig::new(policy);
    rig.submit(1, Lane::Foreground);
    rig.answer(1, Verdict::Unknown);
    rig.sent.clear();
    rig
}

impl Rig {
    fn wake_at(&mut self, seconds: u64) {
        self.now = at(seconds);
        self.input(Input::Wake);
    }

    fn absent(&mut self) {
        self.input(Input::Resolved { key: OperationKey(1), accepted: false });
    }

    fn looks(&self) -> usize {
        self.others.iter().filter(|effect| matches!(effect, Effect::Reconcile { .. })).count()
    }

    fn repeats(&self) -> usize {
        self.records.iter().filter(|(_, transition)| *transition == Transition::Repeat).count()
    }

    /// Sends whatever becomes due until then, and answers nothing.
    pub(super) fn run_until(&mut self, until: Timestamp) {
        while let Some(next) = self.mailbox.poll_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.input(Input::Wake);
        }
        self.now = self.now.max(until);
    }
}

#[test]
fn absent_before_the_visibility_delay_is_not_believed() {
    let mut policy = at_least_once();
    policy.provider.visibility_delay = 5 * MINUTE;
    let mut rig = lost(policy);
    rig.wake_at(299);
    assert_eq!(rig.looks(), 0, "a look that proves nothing is not made");
    rig.absent();
    rig.absent();
    assert_eq!(rig.repeats(), 0, "an answer to no question");
    rig.wake_at(300);
    assert_eq!(rig.looks(), 1);
    rig.absent();
    rig.absent();
    assert_eq!(rig.repeats(), 0, "one look is one answer, however often it is heard");
    rig.wake_at(364);
    assert_eq!(rig.looks(), 1, "a request of the lost attempt could have been on its way until 65 s");
    rig.wake_at(365);
    assert_eq!(rig.looks(), 2);
    rig.absent();
    assert_eq!(rig.repeats(), 1);
}

#[test]
fn a_delay_that_was_raised_meanwhile_counts_for_answers_that_come_later() {
    let mut rig = lost(at_least_once());
    rig.wake_at(60);
    let mut raised = at_least_once();
    raised.provider.visibility_delay = 2 * MINUTE;
    rig.input(Input::Reconfigure(Arc::new(raised)));
    rig.absent();
    rig.wake_at(300);
    rig.absent();
    assert_eq!(rig.repeats(), 0, "the first was asked for too early");
}

#[test]
fn what_shows_only_after_half_an_hour_is_found_by_the_look_at_the_limit() {
    let by_default = || lost(policy(&["50 requests / 1h"], 4));
    let mut rig = by_default();
    for seconds in [60, 300] {
        rig.wake_at(seconds);
        rig.absent();
    }
    rig.wake_at(1_799);
    assert_eq!(rig.looks(), 2);
    rig.wake_at(1_800);
    assert_eq!(rig.looks(), 3, "the third look-up comes before it is given up");
    assert_eq!(rig.outcome(1), Some(&Outcome::Unknown));
    rig.input(Input::Resolved { key: OperationKey(1), accepted: true });
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
    let mut rig = by_default();
    rig.run_until(at(1_864));
    assert_eq!((rig.looks(), rig.outcome(1)), (3, Some(&Outcome::Unknown)), "an answer may still come");
    rig.run_until(at(1_865));
    assert_eq!((rig.looks(), rig.outcome(1)), (3, Some(&Outcome::Quarantined)));
}

#[test]
fn what_ends_while_nobody_knows_says_that_it_may_have_been_sent_and_what_is_known_absent_does_not() {
    let end = |policy: MailboxPolicy, is_absent: bool| {
        let mut rig = Rig::new(policy);
        let mut operation = rig.operation(1, Lane::Foreground);
        operation.deadline = T0.after(Duration::from_secs(600));
        rig.input(Input::Enqueue(operation));
        rig.answer(1, Verdict::Unknown);
        for seconds in [60, 300] {
            rig.wake_at(seconds);
            if is_absent {
                rig.absent();
            }
        }
        rig.run_until(at(3_600));
        rig.events.iter().find_map(|event| match event {
            Event::OperationExhausted { cause, maybe_sent, .. } => Some((*cause, *maybe_sent)),
            _ => None,
        })
    };
    assert_eq!(end(policy(&["50 requests / 1h"], 4), false), Some((ExhaustCause::Deadline, true)));
    let mut spent = at_least_once();
    spent.retry.attempts_max = NonZeroU32::new(1).expect("one");
    assert_eq!(end(spent, true), Some((ExhaustCause::Attempts, false)));
}

#[test]
fn found_is_believed_at_any_time() {
    let mut rig = lost(at_least_once());
    rig.now = at(1);
    rig.input(Input::Resolved { key: OperationKey(1), accepted: true });
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { .. })));
}

#[test]
fn without_a_horizon_nothing_is_repeated_blindly_however_long_the_provider_remembers() {
    let mut rig = lost(blind(Duration::ZERO, 24 * 60 * MINUTE));
    rig.run_until(at(3_600));
    assert!(rig.sent.is_empty());
    assert_eq!(rig.outcome(1), Some(&Outcome::Quarantined));
}

#[test]
fn within_the_horizon_a_lost_operation_goes_again_once_its_attempt_is_over() {
    let mut rig = lost(blind(10 * MINUTE, 60 * MINUTE));
    assert_eq!(rig.records, [Transition::Lose, Transition::Repeat].map(|one| (OperationKey(1), one)));
    assert_eq!(rig.outcome(1), None, "its end is still open");
    rig.run_until(at(64));
    assert!(rig.sent.is_empty(), "O2: the lost attempt may be live until 65 s");
    rig.run_until(at(70));
    assert_eq!(rig.sent, [OperationKey(1)]);
    rig.answer(1, Verdict::Accepted);
    assert!(matches!(rig.outcome(1), Some(Outcome::Accepted { attempts: 2, .. })));
}

#[test]
fn the_horizon_counts_from_the_first_attempt_that_may_have_been_accepted() {
    let mut rig = lost(blind(Duration::from_secs(100), 60 * MINUTE));
    for _ in 0..10 {
        rig.run_until(rig.now.after(2 * MINUTE));
        if rig.sent.pop().is_some() {
            rig.answer(1, Verdict::Unknown);
        }
    }
    assert_eq!(rig.repeats(), 1, "at 65 s; the next would come after 100 s");
    assert_eq!(rig.outcome(1), Some(&Outcome::Unknown));
}

#[test]
fn a_window_that_is_too_short_for_the_margins_allows_no_blind_repeat_whatever_the_horizon() {
    // 65 s until the attempt is over, 65 s that the repeat may take, and the slack of two clocks.
    let exactly = 2 * Duration::from_secs(65);
    for (window, repeats) in [(Duration::ZERO, 0), (exactly, 0), (exactly + Duration::from_secs(1), 1)] {
        let rig = lost(blind(60 * MINUTE, window));
        assert_eq!(rig.repeats(), repeats, "{window:?}");
    }
}

#[test]
fn a_repeat_that_waited_until_the_provider_forgot_is_unknown_again_and_nothing_is_sent() {
    let mut rig = lost(blind(5 * MINUTE, 60 * MINUTE));
    rig.input(Input::Hold(Hold::new(HoldTarget::Mailbox, at(301))));
    rig.run_until(at(310));
    assert!(rig.sent.is_empty(), "past the horizon");
    assert_eq!(rig.outcome(1), Some(&Outcome::Unknown));
    assert_eq!(rig.records.last(), Some(&(OperationKey(1), Transition::Lose)));
    assert_eq!(rig.mailbox.facts(rig.now).windows[0].used, [1, 0], "the lost attempt alone is charged");
    rig.run_until(at(301 + 61));
    assert_eq!(rig.looks(), 1, "it is looked up instead");
}

#[test]
fn a_cancelled_operation_is_not_repeated_blindly() {
    let mut rig = Rig::new(blind(10 * MINUTE, 60 * MINUTE));
    rig.submit(1, Lane::Foreground);
    rig.input(Input::Cancel { key: OperationKey(1) });
    rig.answer(1, Verdict::Unknown);
    assert_eq!((rig.repeats(), rig.outcome(1)), (0, Some(&Outcome::Unknown)));
}

#[test]
fn an_unknown_that_was_to_be_cancelled_ends_cancelled_however_it_is_given_up() {
    use Transition::{Discard, Expire, GiveUp, Lose};
    let spent = |mut policy: MailboxPolicy| {
        policy.retry.attempts_max = NonZeroU32::new(1).expect("one");
        policy
    };
    let at_most_once = || policy(&["50 requests / 1h"], 4);
    for (policy, deadline) in [(at_most_once(), 86_400), (at_most_once(), 600), (at_least_once(), 600)] {
        let mut rig = Rig::new(policy);
        let mut operation = rig.operation(1, Lane::Foreground);
        operation.deadline = T0.after(Duration::from_secs(deadline));
        rig.input(Input::Enqueue(operation));
        rig.answer(1, Verdict::Unknown);
        rig.input(Input::Cancel { key: OperationKey(1) });
        rig.run_until(at(7_200));
        assert_eq!(rig.outcome(1), Some(&Outcome::Cancelled { maybe_sent: true }));
        let moves: Vec<_> = rig.records.iter().map(|(_, transition)| *transition).collect();
        assert_eq!(moves, [Lose, GiveUp, Discard]);
        assert!(!rig.events.iter().any(|event| matches!(event, Event::OperationQuarantined { .. })));
    }
    let mut rig = lost(spent(at_least_once()));
    rig.input(Input::Cancel { key: OperationKey(1) });
    for seconds in [60, 300] {
        rig.wake_at(seconds);
        rig.absent();
    }
    assert_eq!(
        rig.outcome(1),
        Some(&Outcome::Cancelled { maybe_sent: false }),
        "absent for sure, and no attempt is left"
    );
    assert!(!rig.records.contains(&(OperationKey(1), Expire)));
}

#[test]
fn an_operation_that_was_to_be_cancelled_is_not_exhausted_by_the_attempt_that_it_waited_for() {
    let mut policy = policy(&["50 requests / 1h"], 4);
    policy.retry.attempts_max = NonZeroU32::new(1).expect("one");
    let mut rig = Rig::new(policy);
    rig.submit(1, Lane::Foreground);
    rig.input(Input::Cancel { key: OperationKey(1) });
    rig.answer(1, Verdict::Transient { sent: Sent::Maybe, retry_after: None });
    assert_eq!(rig.outcome(1), Some(&Outcome::Cancelled { maybe_sent: false }));
}

#[test]
fn after_a_restart_only_attempts_without_a_known_end_count_as_maybe_sent() {
    // Each attempt: when it was claimed, and whether it ended.
    let known: &[(u64, bool)] = &[(0, true)];
    let lost: &[(u64, bool)] = &[(0, false)];
    let five = || blind(5 * MINUTE, 60 * MINUTE);
    for (policy, attempts, rows, log, sent) in [
        (five(), 0, 1, known, true),                          // refused
        (five(), 0, 1, &[][..], true),                        // refused long ago: refusals use no attempt up
        (five(), 1, 1, known, true),                          // failed
        (five(), 1, 1, lost, false),                          // lost, and past the horizon
        (five(), 1, 2, &[(0, true), (500, false)][..], true), // refused, then lost lately
        (five(), 1, 2, &[(500, false)][..], true),            // the same, and the refusal is gone from the log
        (five(), 2, 2, &[(500, false)][..], false),           // an attempt that counted is not in the log
        (five(), 1, 1, &[][..], false),                       // nor is this one
        (five(), 0, 0, &[][..], true),                        // never tried
        (at_least_once(), 1, 1, lost, true),                  // no blind repeats: it was found absent
        (blind(20 * MINUTE, 60 * MINUTE), 1, 1, lost, true),  // within the horizon
    ] {
        let mut rig = Rig::new(policy.clone());
        let mut operation = rig.operation(1, Lane::Foreground);
        operation.attempts = attempts;
        let (state, changed_at) = (OperationState::Deferred, T0);
        let restored = RestoredOperation {
            operation,
            state,
            next_at: None,
            rows,
            changed_at,
            maybe_sent: false,
            crashes: 0,
            requested: None,
            accepted: None,
        };
        let (key, lane, cost) = (OperationKey(1), Lane::Foreground, Cost::ONE_REQUEST);
        let past = |(claimed, ended): &(u64, bool)| PastAttempt {
            key,
            lane,
            cost,
            claimed_at: at(*claimed),
            finished_at: ended.then(|| at(*claimed + 1)),
            kind: OperationKind::Send,
            leaves: Leaves::All,
        };
        let log: Vec<_> = log.iter().map(past).collect();
        rig.now = at(600);
        rig.mailbox.restore(rig.now, vec![restored], &log);
        rig.input(Input::Wake);
        assert_eq!(!rig.sent.is_empty(), sent, "{attempts} of {rows}, {log:?}, {:?}", policy.retry.horizon);
        assert!(sent || rig.outcome(1) == Some(&Outcome::Unknown));
    }
}

proptest::proptest! {
    /// O9 over whole lives: whatever is lost, held and answered when, no repeat of an operation that may have been
    /// accepted can arrive after the provider has forgotten it.
    #[test]
    fn no_blind_repeat_outlives_the_dedupe_window(
        horizon in 0_u64..7_200, window in 0_u64..7_200,
        steps in proptest::collection::vec((0_u64..900, 0_u8..4), 1..30),
    ) {
        let seconds = Duration::from_secs;
        let mut rig = Rig::new(blind(seconds(horizon), seconds(window)));
        rig.submit(1, Lane::Foreground);
        let mut first_lost: Option<Timestamp> = None;
        let margin = seconds(65).saturating_add(Duration::from_micros(micros(seconds(window)).div_ceil(1_000)));
        for (gap, what) in steps {
            if rig.sent.pop().is_some() {
                let sent_at = rig.now;
                if let Some(first) = first_lost {
                    let arrives = sent_at.since(first).saturating_add(margin);
                    proptest::prop_assert!(arrives <= seconds(window), "{arrives:?} of {window} s");
                    proptest::prop_assert!(sent_at.since(first) <= seconds(horizon));
                }
                match what {
                    0 => rig.answer(1, throttled(Some(gap))),
                    1 => rig.answer(1, Verdict::Transient { sent: Sent::Maybe, retry_after: None }),
                    _ => {
                        rig.answer(1, Verdict::Unknown);
                        first_lost.get_or_insert(sent_at);
                    }
                }
            } else if what == 3 {
                let hold = Hold::new(HoldTarget::Mailbox, rig.now.after(seconds(gap)));
                rig.input(Input::Hold(hold));
            }
            // One step at a time, so that an instant of sending is seen.
            let until = rig.now.after(seconds(gap));
            while rig.sent.is_empty() {
                let Some(next) = rig.mailbox.poll_deadline().filter(|next| *next <= until) else { break };
                rig.now = rig.now.max(next);
                rig.input(Input::Wake);
            }
            if rig.sent.is_empty() {
                rig.now = rig.now.max(until);
            }
        }
    }
}
