//! The life of an operation: which transitions are listed, how an attempt is settled, and the invariants O1 to O11.

use std::time::Duration;

use mailweir::engine::cost::Unit;
use mailweir::engine::invariants::operation as o;
use mailweir::engine::invariants::operation::AttemptView;
use mailweir::engine::operation::{Budget, IllegalTransition, OperationKey, OperationState, Transition};
use mailweir::engine::scope::ScopeKind;
use mailweir::engine::settlement::{Charge, Settlement, Slot, settle};
use mailweir::engine::time::Timestamp;
use mailweir::engine::verdict::{Answer, Sent, Subject, Throttle, ThrottleKind, Verdict};
use proptest::prelude::*;

use OperationState as S;
use Transition as T;

/// The specification's table, written out a second time on purpose: (number, transition, from, to).
const LISTED: [(u8, T, &[S], S); 19] = [
    (2, T::Enqueue, &[S::Admitted], S::Queued),
    (3, T::Claim, &[S::Queued, S::Deferred], S::Attempting),
    (4, T::Accept, &[S::Attempting], S::Accepted),
    (5, T::Throttle, &[S::Attempting], S::Deferred),
    (6, T::Retry, &[S::Attempting], S::Deferred),
    (7, T::Void, &[S::Attempting], S::Queued),
    (8, T::Lose, &[S::Attempting], S::Unknown),
    (9, T::Find, &[S::Unknown], S::Accepted),
    (10, T::Repeat, &[S::Unknown], S::Deferred),
    (11, T::GiveUp, &[S::Unknown], S::Quarantined),
    (12, T::Reject, &[S::Attempting], S::Rejected),
    (12, T::Poison, &[S::Attempting], S::Quarantined),
    (13, T::Suspend, &[S::Attempting], S::Deferred),
    (14, T::Exhaust, &[S::Queued, S::Deferred], S::Exhausted),
    (15, T::Expire, &[S::Unknown], S::Exhausted),
    (16, T::Cancel, &[S::Admitted, S::Queued, S::Deferred], S::Cancelled),
    (18, T::Release, &[S::Quarantined], S::Queued),
    (18, T::Discard, &[S::Quarantined], S::Cancelled),
    (19, T::Quarantine, &[S::Admitted, S::Queued, S::Deferred], S::Quarantined),
];

const KEY: OperationKey = OperationKey(7);
const D_MAX: Duration = Duration::from_secs(65);

fn second(s: u64) -> Timestamp {
    Timestamp::from_micros(s * 1_000_000)
}

#[test]
fn of_all_pairs_of_state_and_transition_only_the_listed_ones_are_legal() {
    let mut legal = 0;
    for (number, transition, from_states, to) in LISTED {
        assert_eq!(transition.number(), number, "{transition}");
        for from in S::ALL {
            let expected =
                if from_states.contains(&from) { Ok(to) } else { Err(IllegalTransition { transition, from }) };
            assert_eq!(transition.apply(from), expected, "{transition} from {from}");
            legal += u32::from(expected.is_ok());
        }
    }
    assert_eq!(legal, 25);
    assert_eq!(T::ALL.len(), LISTED.len());
    assert!(LISTED.iter().all(|row| T::ALL.contains(&row.1)));
}

#[test]
fn a_final_state_is_left_by_a_person_only() {
    for from in S::ALL.into_iter().filter(|state| state.is_final()) {
        for transition in T::ALL.into_iter().filter(|transition| transition.apply(from).is_ok()) {
            assert_eq!((from, transition.number()), (S::Quarantined, 18));
        }
    }
}

#[test]
fn only_a_retry_and_a_repeat_move_the_attempt_number() {
    for transition in T::ALL {
        let moves = matches!(transition, T::Retry | T::Repeat);
        assert_eq!(transition.attempts_after(3), if moves { 4 } else { 3 }, "{transition}");
        assert_eq!(transition.attempts_after(u32::MAX), u32::MAX);
    }
}

#[test]
fn budget_is_given_back_by_one_transition_only() {
    let released: Vec<T> = T::ALL.into_iter().filter(|one| one.budget() == Budget::Release).collect();
    assert_eq!(released, [T::Void]);
    let reserved: Vec<T> = T::ALL.into_iter().filter(|one| one.budget() == Budget::Reserve).collect();
    assert_eq!(reserved, [T::Claim]);
}

#[test]
fn an_illegal_transition_says_what_would_have_been_legal() {
    let error = T::Cancel.apply(S::Attempting).unwrap_err();
    let text =
        "transition 16 (cancel) is not listed from state attempting; it is listed from: admitted, queued, deferred";
    assert_eq!(error.to_string(), text);
}

#[test]
fn names_of_transitions_are_distinct_and_lowercase() {
    let all: std::collections::BTreeSet<&str> = T::ALL.into_iter().map(T::as_str).collect();
    assert_eq!(all.len(), T::ALL.len());
    assert!(all.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
}

// ---- the release table -------------------------------------------------------------------------------------------

fn throttled(scope: Option<ScopeKind>, kind: ThrottleKind) -> Verdict {
    Verdict::Throttled(Throttle { retry_after: None, scope, kind })
}

fn settled(verdict: Verdict, status: u16) -> Settlement {
    let answer = Answer { status: Some(status), ..Answer::from(verdict) };
    settle(&answer, ScopeKind::Mailbox, second(100), second(103), D_MAX)
}

const COUNT: Charge = Charge::CountUntil(Timestamp::from_micros(103_000_000));
const COUNT_LONG: Charge = Charge::CountUntil(Timestamp::from_micros(165_000_000));
const LINGER: Slot = Slot::Linger(Timestamp::from_micros(165_000_000));

#[test]
fn every_row_of_the_release_table_is_settled_as_written() {
    let not_sent = Verdict::Transient { sent: Sent::No, retry_after: None };
    let failed = Verdict::Transient { sent: Sent::Maybe, retry_after: None };
    let back = Charge::Release;
    let table = [
        ("local error before the first byte", settled(not_sent, 0), back, back, back, Slot::Free),
        ("denied by the parent scope", Settlement::NOTHING_SENT, back, back, back, Slot::Free),
        ("2xx", settled(Verdict::Accepted, 202), COUNT, COUNT, COUNT, Slot::Free),
        ("429", settled(throttled(None, ThrottleKind::Rate), 429), COUNT, COUNT, COUNT, Slot::Free),
        ("429 quota", settled(throttled(None, ThrottleKind::Quota), 429), COUNT, COUNT, COUNT, Slot::Free),
        (
            "429 of another resource",
            settled(throttled(Some(ScopeKind::Application), ThrottleKind::Rate), 429),
            COUNT,
            back,
            back,
            Slot::Free,
        ),
        ("429 concurrency", settled(throttled(None, ThrottleKind::Concurrency), 429), COUNT, back, back, Slot::Free),
        ("400", settled(Verdict::Permanent { of: Subject::Message }, 400), COUNT, back, COUNT, Slot::Free),
        ("no token", settled(Verdict::Permanent { of: Subject::Credentials }, 401), back, back, back, Slot::Free),
        ("403", settled(Verdict::Permanent { of: Subject::Account }, 403), COUNT, back, COUNT, Slot::Free),
        ("500", settled(failed.clone(), 500), COUNT, COUNT, COUNT, Slot::Free),
        ("408", settled(failed, 408), COUNT, COUNT, COUNT, LINGER),
        ("timeout after the first byte", settled(Verdict::Unknown, 0), COUNT_LONG, COUNT_LONG, COUNT_LONG, LINGER),
    ];
    for (row, settlement, requests, recipients, bytes, slot) in table {
        assert_eq!(settlement, Settlement { requests, recipients, bytes, slot }, "{row}");
    }
}

#[test]
fn a_throttle_that_names_the_application_counts_in_full_there() {
    let answer = Answer::from(throttled(Some(ScopeKind::Application), ThrottleKind::Rate));
    let there = settle(&answer, ScopeKind::Application, second(100), second(103), D_MAX);
    assert_eq!(there.recipients, COUNT);
}

#[test]
fn a_crash_counts_from_the_claim_and_lingers_for_the_longer_of_lease_and_deadline() {
    let short = Settlement::after_crash(second(100), D_MAX, second(115));
    assert_eq!((short.requests, short.slot), (COUNT_LONG, LINGER));
    let long = Settlement::after_crash(second(100), D_MAX, second(200));
    assert_eq!((long.bytes, long.slot), (COUNT_LONG, Slot::Linger(second(200))));
}

#[test]
fn an_outcome_that_comes_after_the_deadline_is_never_settled_before_it_came() {
    let late = settle(&Answer::from(Verdict::Unknown), ScopeKind::Mailbox, second(100), second(500), D_MAX);
    assert_eq!(late.requests, Charge::CountUntil(second(500)));
    let never = settle(&Answer::from(Verdict::Unknown), ScopeKind::Mailbox, Timestamp::NEVER, second(0), Duration::MAX);
    assert_eq!(never.slot, Slot::Linger(Timestamp::NEVER));
}

#[test]
fn units_follow_the_part_of_the_settlement_that_they_belong_to() {
    let settlement = settled(Verdict::Permanent { of: Subject::Message }, 400);
    let parts = Unit::ALL.map(|unit| settlement.of(unit));
    assert_eq!(parts, [COUNT, Charge::Release, Charge::Release, COUNT, COUNT]);
}

proptest! {
    #[test]
    fn a_charge_comes_back_whole_only_when_no_byte_left(
        sent_at in any::<u64>(), took in any::<u64>(), d_max in any::<u64>(), status in any::<Option<u16>>(),
        verdict in verdicts(),
    ) {
        let (sent_at, took) = (Timestamp::from_micros(sent_at), Duration::from_micros(took));
        let ended_at = sent_at.after(took);
        let answer = Answer { status, ..Answer::from(verdict.clone()) };
        let settlement = settle(&answer, ScopeKind::Mailbox, sent_at, ended_at, Duration::from_micros(d_max));
        match settlement.requests {
            Charge::Release => {
                let not_sent = matches!(verdict, Verdict::Transient { sent: Sent::No, .. });
                prop_assert!(not_sent, "{:?} gave a request back", verdict);
            }
            Charge::CountUntil(at) => prop_assert!(at >= ended_at),
        }
    }
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    let kind = prop_oneof![Just(ThrottleKind::Rate), Just(ThrottleKind::Quota), Just(ThrottleKind::Concurrency)];
    let scope = prop_oneof![Just(None), Just(Some(ScopeKind::Mailbox)), Just(Some(ScopeKind::Application))];
    let sent = prop_oneof![Just(Sent::No), Just(Sent::Maybe)];
    prop_oneof![
        Just(Verdict::Accepted),
        (scope, kind).prop_map(|(scope, kind)| throttled(scope, kind)),
        sent.prop_map(|sent| Verdict::Transient { sent, retry_after: None }),
        Just(Verdict::Permanent { of: Subject::Mailbox }),
        Just(Verdict::Unknown),
    ]
}

// ---- the invariants ----------------------------------------------------------------------------------------------

fn id<T>(result: Result<T, mailweir::engine::invariants::Violation>) -> Option<&'static str> {
    result.err().map(|violation| violation.id)
}

#[test]
fn o1_finds_the_missing_the_doubled_and_the_unknown_operation() {
    let (a, b) = (OperationKey(1), OperationKey(2));
    assert_eq!(id(o::one_state(&[a, b], &[(b, S::Queued), (a, S::Accepted)])), None);
    assert_eq!(id(o::one_state(&[a, b], &[(a, S::Queued)])), Some("O1"));
    assert_eq!(id(o::one_state(&[a], &[(a, S::Queued), (a, S::Accepted)])), Some("O1"));
    assert_eq!(id(o::one_state(&[a], &[(a, S::Queued), (b, S::Queued)])), Some("O1"));
    assert_eq!(id(o::listed(T::Claim, S::Queued, S::Attempting)), None);
    assert_eq!(id(o::listed(T::Claim, S::Queued, S::Accepted)), Some("O1"));
    assert_eq!(id(o::listed(T::Claim, S::Unknown, S::Attempting)), Some("O1"));
}

#[test]
fn o2_counts_an_attempt_as_live_until_its_end_or_its_deadline() {
    let old = AttemptView { key: KEY, claimed_at: second(0), ended_at: None };
    let new = AttemptView { key: KEY, claimed_at: second(65), ended_at: None };
    let other = AttemptView { key: OperationKey(8), ..new };
    assert_eq!(id(o::one_live_attempt(second(65), D_MAX, &[old, new, other])), None);
    let early = AttemptView { claimed_at: second(64), ..new };
    assert_eq!(id(o::one_live_attempt(second(64), D_MAX, &[old, early])), Some("O2"));
    let ended = AttemptView { ended_at: Some(second(64)), ..old };
    assert_eq!(id(o::one_live_attempt(second(64), D_MAX, &[ended, early])), None);
}

#[test]
fn bounds_hold_at_the_limit_and_break_at_one_more() {
    assert_eq!(id(o::sends_are_recorded(KEY, 3, 3)), None);
    assert_eq!(id(o::sends_are_recorded(KEY, 4, 3)), Some("O3"));
    assert_eq!(id(o::attempts_are_bounded(KEY, 8, 8)), None);
    assert_eq!(id(o::attempts_are_bounded(KEY, 9, 8)), Some("O7"));
    assert_eq!(id(o::duplicates_are_accounted(KEY, 2, 1)), None);
    assert_eq!(id(o::duplicates_are_accounted(KEY, 3, 1)), Some("O10"));
    assert_eq!(id(o::duplicates_are_accounted(KEY, 0, 0)), None);
    assert_eq!(id(o::refusal_leaves_nothing((4, 2), (4, 2))), None);
    assert_eq!(id(o::refusal_leaves_nothing((4, 2), (4, 3))), Some("O11"));
}

#[test]
fn o4_and_o5_find_a_changed_payload_and_a_left_acceptance() {
    assert_eq!(id(o::payload_is_fixed(KEY, &[9, 9, 9])), None);
    let changed = o::payload_is_fixed(KEY, &[9, 9, 8]).unwrap_err();
    assert_eq!(changed.to_string(), "invariant O4 is broken: operation 7 changed with its attempt 3");
    assert_eq!(id(o::accepted_stays(KEY, S::Accepted, S::Accepted)), None);
    assert_eq!(id(o::accepted_stays(KEY, S::Accepted, S::Queued)), Some("O5"));
}

#[test]
fn o6_lets_an_unknown_go_on_by_its_four_ways_only() {
    for next in T::ALL {
        let allowed = matches!(next, T::Find | T::Repeat | T::GiveUp | T::Expire);
        let found = id(o::unknown_is_not_repeated(KEY, &[T::Enqueue, T::Claim, T::Lose, next]));
        assert_eq!(found, if allowed { None } else { Some("O6") }, "{next}");
    }
}

#[test]
fn o8_allows_the_bypass_and_not_one_more() {
    let order = |keys: &[u64]| keys.iter().copied().map(OperationKey).collect::<Vec<_>>();
    assert_eq!(id(o::first_attempts_in_order(&order(&[2, 3, 1, 4]), 2)), None);
    assert_eq!(id(o::first_attempts_in_order(&order(&[2, 3, 4, 1]), 2)), Some("O8"));
    assert_eq!(id(o::first_attempts_in_order(&order(&[1, 1, 2]), 0)), None);
    assert_eq!(id(o::first_attempts_in_order(&order(&[u64::MAX, 0]), u32::MAX)), None);
}

#[test]
fn o9_is_met_at_the_end_of_the_dedupe_window_and_missed_after_it() {
    let window = Duration::from_secs(300);
    let at = |s| o::repeat_is_deduplicated(KEY, (second(0), second(s)), (D_MAX, Duration::from_secs(5)), window);
    assert_eq!(id(at(230)), None);
    assert_eq!(id(at(231)), Some("O9"));
}

#[test]
fn a_history_is_replayed_to_its_state_or_to_what_it_breaks() {
    let told = [T::Enqueue, T::Claim, T::Throttle, T::Claim, T::Lose, T::GiveUp, T::Release, T::Claim, T::Accept];
    assert_eq!(o::replay(KEY, &told), Ok(S::Accepted));
    assert_eq!(id(o::replay(KEY, &[T::Enqueue, T::Claim, T::Accept, T::Claim])), Some("O1"));
    assert_eq!(id(o::replay(KEY, &[T::Enqueue, T::Claim, T::Lose, T::Claim])), Some("O6"));
}

proptest! {
    #[test]
    fn whatever_is_tried_the_state_moves_by_listed_steps_and_accepted_stays(tries in prop::collection::vec(0..T::ALL.len(), 0..200)) {
        let (mut state, mut history) = (S::Admitted, Vec::new());
        for transition in tries.into_iter().map(|index| T::ALL[index]) {
            if let Ok(next) = transition.apply(state) {
                prop_assert!(o::listed(transition, state, next).is_ok());
                history.push(transition);
                state = next;
            }
        }
        prop_assert_eq!(o::replay(KEY, &history), Ok(state));
    }
}
