//! Ceilings per caller: never above the ceiling in a period, once per operation, and a bound on callers that grants
//! nobody more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mailweir::engine::Timestamp;
use mailweir::engine::callers::{CallerCeiling, CallerRefusal, CallerUnit, Callers, CallersPolicy, Charge};
use proptest::prelude::*;

const HOUR: Duration = Duration::from_secs(3_600);
const START: Timestamp = Timestamp::from_micros(1_764_500_000_000_000);

fn policy(ceiling: &str) -> CallersPolicy {
    CallersPolicy { ceiling: Some(ceiling.parse().expect("a ceiling")), ..CallersPolicy::default() }
}

fn name(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// Hands over `id` of one mailbox.
fn charge(
    callers: &mut Callers,
    now: Timestamp,
    policy: &CallersPolicy,
    caller: &str,
    (id, recipients): (&str, u32),
) -> Result<Charge, CallerRefusal> {
    let operation = (name("noreply@contoso.example"), name(id));
    callers.charge(now, policy, &name(caller), operation, recipients).map(|charge| charge.expect("it has a ceiling"))
}

/// Hands over and stores.
fn keep(
    callers: &mut Callers,
    now: Timestamp,
    policy: &CallersPolicy,
    caller: &str,
    operation: (&str, u32),
) -> Result<(), CallerRefusal> {
    let charge = charge(callers, now, policy, caller, operation)?;
    callers.keep(charge);
    Ok(())
}

#[test]
fn a_ceiling_reads_back_as_it_is_written() {
    for (text, shown) in [
        ("500 emails, 5_000 recipients / 1h", "500 emails, 5000 recipients / 1h"),
        ("10_000 recipients/1h30m", "10_000 recipients / 90m"),
        (" 1 email / 24h ", "1 email / 24h"),
        ("2 recipient, 1 emails / 31d", "1 email, 2 recipients / 31d"),
    ] {
        let ceiling: CallerCeiling = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ceiling.to_string(), shown);
        assert_eq!(shown.parse(), Ok(ceiling));
    }
    for bad in [
        "",
        "500 emails",
        "/ 1h",
        "0 emails / 1h",
        "-1 emails / 1h",
        "5000000000 emails / 1h",
        "5 emails, 6 emails / 1h",
        "5 requests / 1h",
        "5 emails / 0s",
        "5 emails / 999ms",
        "5 emails / 32d",
        "5 emails / soon",
    ] {
        let error = bad.parse::<CallerCeiling>().expect_err(bad);
        assert!(error.to_string().contains("500 emails"), "{error}: says how to write it");
    }
    assert!(CallerCeiling::new(None, None, HOUR).is_err(), "a ceiling bounds something");
}

#[test]
fn the_ceiling_is_reached_exactly_and_the_period_ends_at_its_instant() {
    let (policy, mut callers) = (policy("2 emails, 10 recipients / 1h"), Callers::default());
    for id in ["a", "b"] {
        let kept = charge(&mut callers, START, &policy, "billing", (id, 5)).expect("room");
        callers.keep(kept);
    }
    let last = START.after(HOUR).before(Duration::from_micros(1));
    let refused = charge(&mut callers, last, &policy, "billing", ("c", 1)).expect_err("the ceiling");
    let retry_after = Duration::from_micros(1);
    assert_eq!(refused, CallerRefusal::Ceiling { unit: CallerUnit::Emails, used: 2, most: 2, retry_after });
    assert_eq!(callers.used(last, "billing"), (2, 10));
    let next = charge(&mut callers, START.after(HOUR), &policy, "billing", ("c", 1)).expect("a new period");
    callers.keep(next);
    assert_eq!(callers.used(START.after(HOUR), "billing"), (1, 1));
}

#[test]
fn recipients_are_bounded_and_an_email_above_the_whole_ceiling_never_fits() {
    let (policy, mut callers) = (policy("10 recipients / 1h"), Callers::default());
    let never = charge(&mut callers, START, &policy, "billing", ("a", 11)).expect_err("too many");
    assert_eq!(never, CallerRefusal::NeverFits { recipients: 11, most: 10 });
    assert_eq!(callers.tracked(), 0, "a refusal leaves nothing");
    keep(&mut callers, START, &policy, "billing", ("a", 6)).expect("room");
    let refused = charge(&mut callers, START, &policy, "billing", ("b", 5)).expect_err("4 are left");
    let ceiling = CallerRefusal::Ceiling { unit: CallerUnit::Recipients, used: 6, most: 10, retry_after: HOUR };
    assert_eq!(refused, ceiling);
    keep(&mut callers, START, &policy, "billing", ("b", 4)).expect("exactly");
}

#[test]
fn an_operation_is_charged_once_and_a_larger_repeat_the_difference() {
    let (policy, mut callers) = (policy("1 emails, 10 recipients / 1h"), Callers::default());
    for _ in 0..5 {
        keep(&mut callers, START, &policy, "billing", ("a", 4)).expect("the same one");
    }
    assert_eq!(callers.used(START, "billing"), (1, 4));
    keep(&mut callers, START, &policy, "billing", ("a", 10)).expect("six more");
    assert_eq!(callers.used(START, "billing"), (1, 10));
    assert!(charge(&mut callers, START, &policy, "billing", ("a", 11)).is_err());
    let other = (name("other@contoso.example"), name("a"));
    let other = callers.charge(START, &policy, &name("billing"), other, 1);
    assert!(matches!(other, Err(CallerRefusal::Ceiling { .. })), "the same id in another mailbox is another one");
}

#[test]
fn a_charge_comes_back_with_the_last_submission_of_its_operation() {
    let (policy, mut callers) = (policy("1 emails / 1h"), Callers::default());
    let first = charge(&mut callers, START, &policy, "billing", ("a", 1)).expect("room");
    let second = charge(&mut callers, START, &policy, "billing", ("a", 1)).expect("the same one");
    callers.give_back(first);
    assert_eq!(callers.used(START, "billing"), (1, 1), "the second is open");
    callers.give_back(second);
    assert_eq!((callers.used(START, "billing"), callers.tracked()), ((0, 0), 0));
    let third = charge(&mut callers, START, &policy, "billing", ("b", 1)).expect("free again");
    let fourth = charge(&mut callers, START, &policy, "billing", ("b", 1)).expect("the same one");
    callers.keep(third);
    callers.give_back(fourth);
    assert_eq!(callers.used(START, "billing"), (1, 1), "one of them was stored");
}

#[test]
fn a_charge_of_an_ended_period_changes_nothing_of_the_next() {
    let (policy, mut callers) = (policy("1 emails / 1h"), Callers::default());
    let old = charge(&mut callers, START, &policy, "billing", ("a", 1)).expect("room");
    let next = START.after(HOUR);
    keep(&mut callers, next, &policy, "billing", ("a", 1)).expect("a new period");
    callers.give_back(old);
    assert_eq!(callers.used(next, "billing"), (1, 1));
}

#[test]
fn above_the_bound_new_callers_are_refused_and_listed_ones_never() {
    let mut policy = policy("1 emails / 1h");
    policy.tracked_max = 2;
    policy.overrides.insert(name("reset"), "5 emails / 1h".parse().ok());
    policy.overrides.insert(name("free"), None);
    let mut callers = Callers::default();
    keep(&mut callers, START, &policy, "a", ("1", 1)).expect("room");
    let later = START.after(Duration::from_secs(60));
    keep(&mut callers, later, &policy, "b", ("1", 1)).expect("room");
    let refused = charge(&mut callers, later, &policy, "c", ("1", 1)).expect_err("two are followed");
    let retry_after = HOUR - Duration::from_secs(60);
    assert_eq!(refused, CallerRefusal::TooManyCallers { tracked_max: 2, retry_after });
    keep(&mut callers, later, &policy, "reset", ("1", 1)).expect("a listed one has its place");
    let free = callers.charge(later, &policy, &name("free"), (name("m"), name("1")), 1_000_000);
    assert_eq!(free, Ok(None), "no ceiling, no ledger");
    // The bound cannot be used to shake off a ledger: whoever is at the ceiling stays there.
    assert!(charge(&mut callers, later, &policy, "a", ("2", 1)).is_err());
    assert_eq!(callers.tracked(), 3);
    // The listed one takes no place: as soon as one of the two ends there is one for another.
    let first = START.after(HOUR);
    assert!(charge(&mut callers, first.before(Duration::from_micros(1)), &policy, "c", ("1", 1)).is_err());
    keep(&mut callers, first, &policy, "c", ("1", 1)).expect("a has ended, and reset does not count");
    // Those that were listed once and have ended are forgotten with the next that is listed.
    policy.overrides.insert(name("other"), "5 emails / 1h".parse().ok());
    keep(&mut callers, later.after(HOUR), &policy, "other", ("1", 1)).expect("listed");
    assert_eq!(callers.used(later.after(HOUR), "reset"), (0, 0));
    assert_eq!(callers.tracked(), 3, "b, c and other");
}

#[test]
fn raising_a_ceiling_grants_the_difference_and_lowering_it_counts_at_once() {
    let mut callers = Callers::default();
    let (low, high) = (policy("1 emails / 1h"), policy("3 emails / 2h"));
    keep(&mut callers, START, &low, "a", ("1", 1)).expect("room");
    for id in ["2", "3"] {
        keep(&mut callers, START, &high, "a", (id, 1)).expect("two more");
    }
    assert!(charge(&mut callers, START, &high, "a", ("4", 1)).is_err());
    assert!(charge(&mut callers, START, &low, "a", ("4", 1)).is_err());
    keep(&mut callers, START, &low, "a", ("3", 1)).expect("a repeat adds nothing");
    let end = START.after(HOUR);
    keep(&mut callers, end, &high, "a", ("4", 1)).expect("the period keeps the end it began with");
}

/// One submission of the property tests: how long after the last, whose, which operation, to how many.
type Step = (u64, u8, u8, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0_u64..2_000_000_000, 0_u8..4, 0_u8..12, 1_u32..8), 1..200)
}

proptest! {
    #[test]
    fn no_period_of_a_caller_holds_more_than_the_ceiling(steps in steps(), emails in 1_u64..6, recipients in 7_u64..20) {
        let policy = policy(&format!("{emails} emails, {recipients} recipients / 1h"));
        let mut callers = Callers::default();
        let mut now = START;
        // Everything granted is kept, so each caller's periods can be told from its grants alone.
        let mut periods: BTreeMap<u8, (Timestamp, BTreeMap<u8, u32>)> = BTreeMap::new();
        for (gap, caller, id, count) in steps {
            now = now.after(Duration::from_micros(gap));
            let answer = charge(&mut callers, now, &policy, &caller.to_string(), (&id.to_string(), count));
            let period = periods.entry(caller).or_insert_with(|| (now, BTreeMap::new()));
            if now >= period.0.after(HOUR) || period.1.is_empty() {
                *period = (now, BTreeMap::new());
            }
            let before: u32 = period.1.values().sum();
            match answer {
                Ok(granted) => {
                    callers.keep(granted);
                    let held = period.1.entry(id).or_default();
                    *held = count.max(*held);
                }
                Err(CallerRefusal::Ceiling { retry_after, .. }) => {
                    prop_assert_eq!(now.after(retry_after), period.0.after(HOUR));
                    let more = count.saturating_sub(period.1.get(&id).copied().unwrap_or(0));
                    let fits_emails = period.1.contains_key(&id) || (period.1.len() as u64) < emails;
                    let fits = fits_emails && u64::from(before + more) <= recipients;
                    prop_assert!(!fits, "refused although it fits");
                }
                Err(other) => prop_assert!(false, "{other:?}"),
            }
            let total: u32 = period.1.values().sum();
            prop_assert!(period.1.len() as u64 <= emails && u64::from(total) <= recipients);
            prop_assert_eq!(callers.used(now, &caller.to_string()), (period.1.len() as u64, u64::from(total)));
        }
    }

    #[test]
    fn whatever_is_kept_or_given_back_what_is_charged_is_the_most_that_is_stored_or_open(
        steps in prop::collection::vec((0_u8..3, 1_u32..500, any::<bool>(), any::<prop::sample::Index>()), 1..60),
    ) {
        let (policy, mut callers) = (policy("1000000 recipients / 1h"), Callers::default());
        let mut open: Vec<(u8, u32, Charge)> = Vec::new();
        let mut stored: BTreeMap<u8, u32> = BTreeMap::new();
        for (id, recipients, keeps, at) in steps {
            if keeps || open.is_empty() {
                let made = charge(&mut callers, START, &policy, "a", (&id.to_string(), recipients)).expect("room");
                open.push((id, recipients, made));
            } else {
                let (id, recipients, made) = open.swap_remove(at.index(open.len()));
                if recipients % 2 == 0 {
                    callers.keep(made);
                    let most = stored.entry(id).or_default();
                    *most = recipients.max(*most);
                } else {
                    callers.give_back(made);
                }
            }
            let mut held = stored.clone();
            for (id, recipients, _) in &open {
                let most = held.entry(*id).or_default();
                *most = (*most).max(*recipients);
            }
            let total: u32 = held.values().sum();
            prop_assert_eq!(callers.used(START, "a"), (held.len() as u64, u64::from(total)));
        }
    }

    #[test]
    fn what_is_given_back_leaves_no_trace_in_any_order(
        ids in prop::collection::vec(0_u8..4, 1..40), order in any::<prop::sample::Index>(),
    ) {
        let (policy, mut callers) = (policy("40 emails / 1h"), Callers::default());
        let open = |callers: &mut Callers, id: &u8| charge(callers, START, &policy, "a", (&id.to_string(), 1));
        let mut charges: Vec<Charge> = ids.iter().map(|id| open(&mut callers, id).expect("room")).collect();
        let first = order.index(charges.len());
        charges.rotate_left(first);
        for charge in charges {
            callers.give_back(charge);
        }
        prop_assert_eq!((callers.used(START, "a"), callers.tracked()), ((0, 0), 0));
    }

    #[test]
    fn a_flood_of_callers_stays_within_the_bound_and_frees_nobody(
        names in prop::collection::vec(0_u32..500, 1..300), tracked_max in 1_u32..8,
    ) {
        let mut policy = policy("1 emails / 1h");
        policy.tracked_max = tracked_max;
        let mut callers = Callers::default();
        keep(&mut callers, START, &policy, "first", ("1", 1)).expect("room");
        for (at, caller) in names.iter().enumerate() {
            let now = START.after(Duration::from_secs(at as u64));
            if let Ok(granted) = charge(&mut callers, now, &policy, &caller.to_string(), (&at.to_string(), 1)) {
                callers.keep(granted);
            }
            prop_assert!(callers.tracked() <= tracked_max as usize);
            let again = charge(&mut callers, now, &policy, "first", ("2", 1));
            prop_assert!(matches!(again, Err(CallerRefusal::Ceiling { used: 1, .. })), "{:?}", again);
        }
    }
}
