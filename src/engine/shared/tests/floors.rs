//! Background beside a foreground that uses everything.

use super::*;

/// One answer a second while foreground always waits: what of `seconds` grants went to background.
fn background_of(rig: &mut Rig, tenant: Option<&str>, seconds: u64) -> Vec<u64> {
    for key in 0..200 {
        rig.ask(9, 9_000 + key, Lane::Background, tenant);
    }
    let (mut next, mut answered, mut background) = (0, 0, Vec::new());
    for second in 0..seconds {
        rig.now = at(second);
        while next < second + 20 {
            rig.ask(0, next, Lane::Foreground, tenant);
            next += 1;
        }
        let key = rig.granted[answered];
        answered += 1;
        if key >= 9_000 {
            background.push(second);
        }
        rig.settle(mailbox_of(key), key, Verdict::Accepted);
    }
    background
}

#[test]
fn foreground_that_fills_every_connection_leaves_background_one_grant_in_twenty() {
    for tenant in [None, Some("acme")] {
        let (mut application, mut tenants) = (scope(&[], 4), ScopePolicy::default());
        if tenant.is_some() {
            std::mem::swap(&mut application, &mut tenants);
        }
        let mut rig = Rig::new(application, tenants);
        let background = background_of(&mut rig, tenant, 400);
        assert!((18..=22).contains(&background.len()), "{tenant:?}: {background:?}");
        let gaps: Vec<_> = background.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps[2..].iter().all(|gap| *gap == 20), "{tenant:?}: {gaps:?}");
    }
}

#[test]
fn foreground_that_leaves_no_more_than_the_reserve_leaves_background_its_floor() {
    for tenant in [None, Some("acme")] {
        let (mut application, mut tenants) = (scope(&["30 requests / 1m"], 0), ScopePolicy::default());
        if tenant.is_some() {
            std::mem::swap(&mut application, &mut tenants);
        }
        let mut rig = Rig::new(application, tenants);
        let step = |key: u64| T0.after(Duration::from_millis(2_140) * u32::try_from(key).expect("small"));
        for key in 0..300 {
            rig.run_until(step(key));
            rig.ask(0, key, Lane::Foreground, tenant);
            if key == 60 {
                (0..100).for_each(|background| rig.ask(9, 9_000 + background, Lane::Background, tenant));
            }
        }
        rig.run_until(step(300));
        let background = rig.granted.iter().filter(|key| **key >= 9_000).count();
        assert_eq!(rig.granted.len() - background, 300, "foreground is not held up");
        assert!((9..=16).contains(&background), "{tenant:?}: {background} of 240");
    }
}
