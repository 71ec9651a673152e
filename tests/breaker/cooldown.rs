//! How long a cooldown is, and what makes it longer.

use super::*;

/// The cooldowns, in milliseconds, of a chain of `episodes` throttles in which every probe fails at once.
fn chain(rig: &mut Rig, episodes: usize, verdict: &Verdict) -> Vec<u64> {
    let mut now = at(0);
    let mut lengths = Vec::new();
    for _ in 0..episodes {
        rig.attempt(now, verdict.clone());
        let until = rig.until(now);
        lengths.push(until.since(now).as_millis() as u64);
        now = until;
    }
    lengths
}

#[test]
fn without_a_retry_after_the_first_cooldown_is_the_shortest_window_and_grows_to_its_cap() {
    let short = chain(&mut Rig::minute(), 4, &throttle(None));
    assert_eq!(short, [60_000, 120_000, 120_000, 120_000]);
    let long = chain(&mut Rig::new(&[(120, 60), (400, 3_600)]), 5, &throttle(None));
    assert_eq!(long, [60_000, 120_000, 240_000, 360_000, 360_000]);
    let brief = chain(&mut Rig::new(&[(10, 5)]), 3, &throttle(None));
    assert_eq!(brief, [5_000, 10_000, 20_000]);
    let bare = chain(&mut Rig::new(&[]), 3, &throttle(None));
    assert_eq!(bare, [60_000, 120_000, 120_000], "no limits: a minute is assumed");
}

#[test]
fn every_sixteenth_episode_of_a_chain_without_a_hint_stays_away_for_the_penalty() {
    let lengths = chain(&mut Rig::minute(), 33, &throttle(None));
    let long: Vec<usize> = (0..33).filter(|place| lengths[*place] == 900_000).collect();
    assert_eq!(long, [15, 31], "{lengths:?}");
    let mut never = Rig::minute();
    never.policy.penalty_chain = 0;
    assert!(chain(&mut never, 33, &throttle(None)).iter().all(|length| *length <= 120_000));
}

/// Found by the liveness worlds: a box of five minutes that each knock starts anew, and that says "11 s" every time.
#[test]
fn a_hint_that_proves_too_short_again_and_again_is_left_alone_for_the_penalty_too() {
    let lengths = chain(&mut Rig::minute(), 33, &throttle(Some(11)));
    let long: Vec<usize> = (0..33).filter(|place| lengths[*place] == 900_000).collect();
    assert_eq!(long, [15, 31], "{lengths:?}");
    let honest = chain(&mut Rig::minute(), 33, &throttle(Some(300)));
    assert!(honest.iter().all(|length| *length < 320_000), "longer than any cooldown of ours: believed: {honest:?}");
}

#[test]
fn a_configured_first_cooldown_replaces_the_shortest_window_but_is_never_nothing() {
    let mut rig = Rig::minute();
    rig.policy.cooldown_first = Some(Duration::from_secs(20));
    assert_eq!(chain(&mut rig, 2, &throttle(None)), [20_000, 40_000]);
    let mut rig = Rig::minute();
    rig.policy.cooldown_first = Some(Duration::ZERO);
    assert_eq!(chain(&mut rig, 2, &throttle(None)), [1_000, 1_000]);
}

#[test]
fn it_is_blocked_until_exactly_the_instant_it_names() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle(None));
    assert_eq!(rig.gate(just_before(at(60))), Gate::Blocked { until: at(60), wall: Wall::Cooldown });
    assert_eq!(rig.gate(at(60)), Gate::Probe);
}

#[test]
fn a_retry_after_gets_its_margin_and_a_spread_that_is_stable_and_differs_between_scopes() {
    let length = |name: &str| {
        let mut rig = Rig::minute();
        rig.breaker = Breaker::new(Scope::Mailbox(name.into()));
        rig.attempt(at(0), throttle(Some(100)));
        rig.until(at(0)).since(at(0))
    };
    let lengths: std::collections::BTreeSet<Duration> = (0..50).map(|n| length(&format!("m{n}@b.example"))).collect();
    assert_eq!(lengths.len(), 50, "mailboxes of one application do not probe together");
    assert!(*lengths.first().unwrap() >= Duration::from_millis(100_200));
    assert!(*lengths.last().unwrap() <= Duration::from_millis(105_200));
    assert!(*lengths.last().unwrap() - *lengths.first().unwrap() > Duration::from_secs(3), "the spread is used");
    assert_eq!(length("m1@b.example"), length("m1@b.example"));
}

#[test]
fn a_retry_after_of_zero_is_no_hot_loop_however_often_it_is_repeated() {
    let mut rig = Rig::minute();
    let mut now = at(0);
    let mut refused = 0;
    while now < at(600) {
        rig.attempt(now, throttle(Some(0)));
        refused += 1;
        now = rig.until(now);
    }
    assert!(refused <= 12, "{refused} refusals in ten minutes of block");
    assert_eq!(chain(&mut Rig::minute(), 9, &throttle(Some(0)))[4..], [16_000, 32_000, 64_000, 120_000, 120_000]);
}

#[test]
fn an_honest_retry_after_is_followed_in_every_episode_of_a_chain() {
    for length in chain(&mut Rig::minute(), 4, &throttle(Some(30))) {
        assert!((30_200..=31_700).contains(&length), "{length}");
    }
}

#[test]
fn an_absurd_retry_after_is_cut() {
    for absurd in [86_401, 10_000_000, u64::MAX] {
        let mut rig = Rig::minute();
        rig.attempt(at(0), throttle(Some(absurd)));
        let length = rig.until(at(0)).since(at(0));
        assert!(length <= Duration::from_millis(86_400_000 * 105 / 100 + 200), "{absurd}: {length:?}");
        assert!(length >= Duration::from_secs(86_400));
    }
}

#[test]
fn a_quota_without_a_retry_after_holds_at_least_the_long_cap() {
    assert_eq!(chain(&mut Rig::minute(), 2, &throttle_of(ThrottleKind::Quota, None)), [360_000, 360_000]);
    let hinted = chain(&mut Rig::minute(), 1, &throttle_of(ThrottleKind::Quota, Some(20)));
    assert!(hinted[0] < 22_000, "its own word is better than ours");
}

#[test]
fn two_probes_that_fail_right_after_a_long_cooldown_lead_to_the_penalty_box() {
    let mut rig = Rig::new(&[(400, 3_600)]);
    let lengths = chain(&mut rig, 5, &throttle(None));
    assert_eq!(lengths, [360_000, 360_000, 900_000, 900_000, 900_000]);
    let end = at(lengths.iter().sum::<u64>() / 1_000);
    rig.attempt(end, Verdict::Accepted);
    rig.attempt(end, throttle(None));
    assert_eq!(rig.until(end).since(end), Duration::from_secs(360), "a success lets it out");
}

#[test]
fn throttles_of_attempts_already_in_flight_belong_to_the_same_episode() {
    let mut rig = Rig::minute();
    for sent in 0..4 {
        rig.answer(at(10), ms(9_000 + sent), throttle(None));
    }
    rig.answer(at(11), at(10), throttle(None));
    assert_eq!((rig.facts(at(11)).chain, rig.until(at(11))), (1, at(70)));
    assert_eq!(rig.told(), ["opened"]);
    rig.answer(at(12), ms(10_001), throttle(None));
    assert_eq!(rig.facts(at(12)).chain, 2, "sent after it was set: another episode");
}

#[test]
fn a_later_retry_after_of_the_same_episode_extends_and_a_shorter_one_never_shortens() {
    let mut rig = Rig::minute();
    rig.answer(at(10), at(9), throttle(None));
    rig.answer(at(11), at(9), throttle(Some(30)));
    assert_eq!(rig.until(at(11)), at(70));
    rig.answer(at(12), at(9), throttle(Some(59)));
    assert_eq!(rig.until(at(12)), at(71));
    assert_eq!(rig.told(), ["opened", "extended"]);
    assert_eq!(rig.facts(at(12)).chain, 1);
}

#[test]
fn a_shorter_cooldown_of_a_new_episode_never_shortens_a_longer_one() {
    let mut rig = Rig::minute();
    rig.answer(at(0), at(0), throttle(Some(3_600)));
    let long = rig.until(at(0));
    rig.answer(at(2), at(1), throttle(Some(5)));
    assert_eq!((rig.until(at(2)), rig.facts(at(2)).chain), (long, 2));
    assert_eq!(rig.told(), ["opened"], "nothing to tell: the end is the same");
}

#[test]
fn a_late_retry_after_of_the_same_episode_reopens_a_half_open_breaker_without_a_new_episode() {
    let mut rig = Rig::minute();
    rig.answer(at(0), at(0), throttle(None));
    rig.wake(at(60));
    rig.attempt(at(60), Verdict::Accepted);
    rig.answer(at(61), at(0), throttle(Some(20)));
    assert_eq!((rig.until(at(61)), rig.facts(at(61)).chain), (at(81), 0));
    assert_eq!(rig.told(), ["opened", "half-opened", "opened"]);
}

#[test]
fn successes_of_attempts_from_before_the_cooldown_neither_end_the_chain_nor_count_as_probes() {
    let mut rig = Rig::minute();
    rig.answer(at(10), at(9), throttle(None));
    for _ in 0..5 {
        rig.answer(at(70), at(9), Verdict::Accepted);
    }
    assert_eq!((rig.facts(at(70)).chain, rig.gate(at(70))), (1, Gate::Probe));
}

#[test]
fn a_concurrency_refusal_holds_nothing() {
    let mut rig = Rig::minute();
    rig.attempt(at(0), throttle_of(ThrottleKind::Concurrency, Some(60)));
    assert_eq!(rig.gate(at(0)), Gate::Pass);
    assert!(rig.breaker.is_quiet(at(0)) && rig.events.is_empty());
}
