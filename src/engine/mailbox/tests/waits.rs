//! How long an operation waits, and what never leaves while its attempt is not written.

use super::*;
use crate::engine::invariants::lanes;
use crate::engine::mailbox::ClaimFailure;

/// `2 requests / 10m` by our clock: W/(1−ρ), rounded up.
const TEN_MINUTES: Duration = Duration::from_micros(600_600_601);

#[test]
fn the_named_deadline_is_the_latest_of_all_limits_and_is_kept_to_the_microsecond() {
    let mut rig = Rig::new(policy(&["2 requests / 1m", "2 requests / 10m"], 4));
    for key in 1..=2 {
        rig.submit(key, Lane::Foreground);
        rig.answer(key, Verdict::Accepted);
    }
    rig.submit(3, Lane::Foreground);
    let named = T0.after(TEN_MINUTES);
    assert_eq!(rig.mailbox.poll_deadline(), Some(named), "the minute is over long before the ten");
    rig.now = named.before(Duration::from_micros(1));
    rig.input(Input::Wake);
    assert_eq!(rig.sent, [OperationKey(1), OperationKey(2)], "not a microsecond early");
    rig.now = named;
    rig.input(Input::Wake);
    assert_eq!(rig.sent.last(), Some(&OperationKey(3)), "and at the instant itself");
}

#[test]
fn what_could_not_be_written_is_not_sent_and_takes_nothing() {
    let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&["1 request / 1m"], 4)));
    engine.handle(T0, Input::AskShared(AskShared::OnTrouble));
    let operation = Rig::new(policy(&[], 1)).operation(1, Lane::Foreground);
    engine.handle(T0, Input::Enqueue(operation));
    let claims = |engine: &mut Mailbox| {
        let effects: Vec<_> = std::iter::from_fn(|| engine.poll_effect()).collect();
        let sent = effects.iter().any(|effect| matches!(effect, Effect::Send { .. }));
        assert!(!sent, "nothing leaves without its attempt row: {effects:?}");
        effects.iter().filter(|effect| matches!(effect, Effect::Claim { .. })).count()
    };
    assert_eq!(claims(&mut engine), 1);
    engine.handle(T0, Input::ClaimFailed { key: OperationKey(1), failure: ClaimFailure::Transient });
    assert_eq!(claims(&mut engine), 0, "it waits for its next try");
    let again = engine.poll_deadline().expect("a store that fails is asked again");
    engine.handle(again, Input::Wake);
    assert_eq!(claims(&mut engine), 1, "the one request of the minute was given back");
}

#[test]
fn what_is_damaged_is_set_aside_with_its_words_and_takes_nothing_from_the_others() {
    let rig = Rig::new(policy(&[], 1));
    let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&["1 request / 1m"], 4)));
    engine.handle(T0, Input::AskShared(AskShared::OnTrouble));
    for key in [1, 2] {
        engine.handle(T0, Input::Enqueue(rig.operation(key, Lane::Foreground)));
    }
    let effects = |engine: &mut Mailbox| -> Vec<Effect> { std::iter::from_fn(|| engine.poll_effect()).collect() };
    let claimed = |effects: &[Effect], of: u64| {
        effects.iter().any(|effect| matches!(effect, Effect::Claim { key, .. } if key.0 == of))
    };
    let first = effects(&mut engine);
    assert!(claimed(&first, 1) && !claimed(&first, 2), "{first:?}");
    let failure = ClaimFailure::Damaged("its row is missing".into());
    engine.handle(T0, Input::ClaimFailed { key: OperationKey(1), failure });
    let effects = effects(&mut engine);
    let records = effects.iter().filter_map(|effect| match effect {
        Effect::Record(record) => Some((record.transition, record.order.as_ref().map(|order| &*order.reason))),
        _ => None,
    });
    let [(Transition::Void, None), (Transition::Quarantine, Some(words))] = records.collect::<Vec<_>>()[..] else {
        panic!("{effects:?}");
    };
    assert!(words.contains("(its row is missing) and was not sent"), "{words}");
    let ended = effects.iter().find_map(|effect| match effect {
        Effect::Outcome { key: OperationKey(1), outcome, .. } => Some(outcome),
        _ => None,
    });
    assert_eq!(ended, Some(&Outcome::Quarantined));
    assert!(claimed(&effects, 2), "the one request of the minute was given back: {effects:?}");
}

#[test]
fn a_damaged_email_that_was_to_be_cancelled_is_cancelled() {
    let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&[], 4)));
    engine.handle(T0, Input::AskShared(AskShared::OnTrouble));
    engine.handle(T0, Input::Enqueue(Rig::new(policy(&[], 1)).operation(1, Lane::Foreground)));
    engine.handle(T0, Input::Cancel { key: OperationKey(1) });
    let failure = ClaimFailure::Damaged("its row is missing".into());
    engine.handle(T0, Input::ClaimFailed { key: OperationKey(1), failure });
    let is_cancelled = |effect: Effect| matches!(effect, Effect::Outcome { outcome: Outcome::Cancelled { .. }, .. });
    assert!(std::iter::from_fn(|| engine.poll_effect()).any(is_cancelled));
}

#[test]
fn foreground_that_leaves_no_more_than_the_reserve_leaves_background_its_floor() {
    let mut rig = Rig::new(policy(&["30 requests / 1m"], 4));
    let step = |key: u64| T0.after(Duration::from_millis(2_140) * u32::try_from(key).expect("small"));
    let mut waited = Duration::ZERO;
    for key in 0..300 {
        rig.accept_until(step(key));
        rig.submit(key, Lane::Foreground);
        if !rig.sent.contains(&OperationKey(key)) {
            let wait = rig.mailbox.poll_deadline().expect("it waits").since(rig.now);
            waited = waited.max(wait);
        }
        if key == 60 {
            (0..100).for_each(|background| rig.submit(9_000 + background, Lane::Background));
        }
    }
    rig.accept_until(step(300));
    let accepted = rig.outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Accepted { .. }));
    let background = accepted.clone().filter(|(key, _)| key.0 >= 9_000).count();
    assert_eq!(accepted.count() - background, 300);
    assert!((9..=16).contains(&background), "{background} of 240: one in twenty once a window has passed");
    assert!(waited <= Duration::from_secs(1), "{waited:?}");
}

/// L8: whatever was sent before, one that waits alone goes at the instant that was named for it, and not before.
#[test]
fn an_instant_that_was_named_without_a_competitor_is_exact() {
    for seed in 0..200_u64 {
        let draw = |step: u64, below: u64| crate::engine::spread::fnv1a(&(seed * 1_000 + step).to_le_bytes()) % below;
        let kinds =
            [&["3 requests / 1m", "7 requests / 10m"][..], &["5 requests / 1m paranoid"], &["40 recipients / 2m"]];
        let mut rig = Rig::new(policy(kinds[usize::try_from(seed % 3).expect("small")], 4));
        for key in 0..12 {
            let lane = if draw(key, 2) == 0 { Lane::Foreground } else { Lane::Background };
            let recipients = u32::try_from(1 + draw(key + 50, 20)).expect("small");
            let operation = Operation { cost: Cost::email(recipients, 1_000), ..rig.operation(key, lane) };
            rig.input(Input::Enqueue(operation));
            while !rig.sent.contains(&OperationKey(key)) {
                let named = rig.mailbox.explain(rig.now, Some(OperationKey(key)));
                let named =
                    named.iter().find(|constraint| constraint.binding).expect("it waits for something").ready_at;
                assert!(named > rig.now, "{named:?}");
                if lane == Lane::Foreground {
                    // The reserve only shrinks while foreground is silent, so background may go before it was named.
                    rig.now = named.before(Duration::from_micros(1));
                    rig.input(Input::Wake);
                    assert!(!rig.sent.contains(&OperationKey(key)), "seed {seed}: before the instant");
                }
                rig.now = named;
                rig.input(Input::Wake);
                let granted = if rig.sent.contains(&OperationKey(key)) { named } else { Timestamp::NEVER };
                lanes::named_instant_is_exact(named, granted)
                    .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            }
            rig.now = rig.now.after(Duration::from_millis(draw(key + 100, 900)));
            rig.answer(key, Verdict::Accepted);
            rig.now = rig.now.after(Duration::from_secs(draw(key + 150, 40)));
        }
    }
}
