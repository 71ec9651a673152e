//! What if: other limits at every scope, and other mailboxes beside.

use mailweir::engine::plan::Forecast;

use super::*;

fn mailbox(limits: &[&str]) -> Arc<MailboxPolicy> {
    Arc::new(MailboxPolicy { scope: scope(limits, 4), ..MailboxPolicy::default() })
}

/// A world of mailboxes with their own limits under shared ones, and the plan of a campaign from all of them.
fn world_of(mailboxes: &[&[&str]], shared: &SharedPolicy) -> World {
    let names = ["a@x.example", "b@x.example", "c@x.example"];
    let named = mailboxes.iter().zip(names).map(|(limits, name)| (Arc::from(name), mailbox(limits)));
    let upstream = upstream(&["100_000 requests / 1s"], Ratio::ZERO, 1);
    World::with_mailboxes(named, Some(Arc::new(shared.clone())), upstream).keep_events(KeepEvents::Yes)
}

fn part(world: &World, number: usize, count: u64, lane: Lane) -> Plan {
    let key = MailboxKey(u32::try_from(number).expect("few"));
    let scopes = world.shared().expect("there are some").clone();
    let plan = Plan::new(world.mailbox(number).snapshot(world.now()), count, lane);
    plan.with_shared(scopes, key).cost(Cost::email(1, 4_096)).tenant(Some(Arc::from("acme")))
}

fn all_of(world: &World, count: u64, lane: Lane) -> Plan {
    let others = 1..world.mailboxes();
    others.fold(part(world, 0, count, lane), |plan, number| plan.also_from(part(world, number, 0, lane)))
}

/// Submits to each mailbox what the forecast says that it sends.
fn truth_of(mut world: World, forecast: &Forecast, lane: Lane) -> Timestamp {
    let now = world.now();
    for (number, sender) in forecast.senders.iter().enumerate() {
        for _ in 0..sender.count {
            world.submit(now, &Load::new(lane).mailbox(number).tenant("acme"));
        }
    }
    world.run_to_end(now.after(Duration::from_secs(400 * 86_400)));
    world.ended().iter().map(|ended| ended.ended_at).max().expect("it ended")
}

fn application(texts: &[&str]) -> SharedPolicy {
    SharedPolicy { application: scope(texts, 6), ..SharedPolicy::default() }
}

fn tenant(texts: &[&str]) -> SharedPolicy {
    SharedPolicy { tenant: scope(texts, 6), ..SharedPolicy::default() }
}

#[test]
fn a_campaign_from_several_mailboxes_ends_when_it_was_planned_to() {
    let cases: [(&[&[&str]], SharedPolicy, u64); 6] = [
        (&[&["100 requests / 1m"], &["100 requests / 1m"]], application(&["40 requests / 1m"]), 300),
        (&[&["10 requests / 1m"], &["100 requests / 1m"]], application(&["40 requests / 1m"]), 300),
        (&[&["30 requests / 1m"], &["60 requests / 1m"]], tenant(&["50 requests / 1m"]), 500),
        (&[&["30 requests / 1m"], &["20 requests / 1m"]], application(&["1_000 requests / 1s"]), 400),
        (&[&["2 requests / 1m"], &["14 requests / 1s"]], application(&["1_000 requests / 1s"]), 900),
        (&[&["30 requests / 1m"], &["5 recipients / 24h"], &["60 requests / 1m"]], tenant(&["70 requests / 1m"]), 500),
    ];
    for (mailboxes, shared, count) in cases {
        for lane in Lane::ALL {
            let world = world_of(mailboxes, &shared);
            let forecast = all_of(&world, count, lane).forecast();
            let alone = part(&world, 0, count, lane).forecast();
            assert_eq!(forecast.senders.iter().map(|sender| sender.count).sum::<u64>(), count);
            assert!(forecast.finish <= alone.finish, "{mailboxes:?}: another mailbox makes nothing slower");
            let came = truth_of(world, &forecast, lane);
            let apart = forecast.finish.expect("it finishes").as_micros().abs_diff(came.as_micros());
            // Exact but for one of the twelve: the pace of a shared scope is rounded whenever it is looked at, and where
            // a lane runs empty a little earlier, it is looked at at other instants.
            assert!(apart < 100, "{mailboxes:?} {lane:?}: {apart} µs apart, {:?}", forecast.senders);
        }
    }
}

#[test]
fn a_faster_mailbox_sends_more_and_a_slow_one_holds_nobody_up() {
    let world = world_of(&[&["5 requests / 24h"], &["60 requests / 1m"]], &SharedPolicy::default());
    let forecast = all_of(&world, 600, Lane::Background).forecast();
    let names: Vec<_> = forecast.senders.iter().map(|sender| (&*sender.mailbox, sender.count)).collect();
    assert!(names[0].0 == "a@x.example" && names[0].1 <= 5, "{names:?}");
    assert!(names[1].0 == "b@x.example" && names[1].1 >= 595, "{names:?}");
    assert!(forecast.takes().expect("an end") < 12 * MINUTE, "{forecast:?}");
    // A mailbox that cannot hold such an email sends none of them.
    let small = world_of(&[&["5kB / 1h"], &["60 requests / 1m"]], &application(&[]));
    let large = all_of(&small, 60, Lane::Background).cost(Cost::email(1, 6_000)).forecast();
    assert_eq!((large.senders[0].count, large.senders[1].count, large.never_fits), (0, 60, None));
}

#[test]
fn a_mailbox_that_is_in_the_plan_already_adds_its_emails_only() {
    let world = world_of(&[&["30 requests / 1m"], &["30 requests / 1m"]], &application(&["40 requests / 1m"]));
    let lane = Lane::Background;
    let twice = part(&world, 0, 60, lane).also_from(part(&world, 0, 40, lane)).forecast();
    assert_eq!(twice, part(&world, 0, 100, lane).forecast());
    // Two plans that name one key are two mailboxes all the same.
    let (first, second) = (plan(&world, 100, lane), world.mailbox(1).snapshot(world.now()));
    let both = first.also_from(Plan::new(second, 0, lane)).limit(ScopeKind::Application, limit("1_000 requests / 1s"));
    let counts = both.forecast().senders;
    assert!(counts.len() == 2 && counts[1].count > 40, "{counts:?}");
}

#[test]
fn a_raised_shared_limit_ends_sooner_as_where_it_is_configured() {
    let mailboxes: [&[&str]; 2] = [&["100 requests / 1m"], &["50 requests / 1m"]];
    type Made = fn(&[&str]) -> SharedPolicy;
    for (kind, made) in [(ScopeKind::Application, application as Made), (ScopeKind::Tenant, tenant as Made)] {
        let low = world_of(&mailboxes, &made(&["40 requests / 1m", "9_000 recipients / 1h"]));
        let high = world_of(&mailboxes, &made(&["90 requests / 1m", "9_000 recipients / 1h"]));
        let plan = all_of(&low, 400, Lane::Background);
        let as_it_is = plan.forecast();
        let raised = plan.clone().limit(kind, limit("90 requests / 1m"));
        assert!(raised.forecast().finish < as_it_is.finish, "{kind}");
        assert_eq!(raised.forecast(), all_of(&high, 400, Lane::Background).forecast(), "{kind}");
        assert_eq!(raised.forecast(), raised.forecast(), "{kind}: asked again");
        assert_eq!(plan.forecast(), as_it_is, "{kind}: asked again as it is");
        // One that was not there, and fewer at once.
        let slower = plan.clone().limit(kind, limit("20 recipients / 1m")).forecast();
        assert_eq!(slower.binding().map(|bound| bound.scope), Some(kind), "{:?}", slower.bounds);
        assert!(slower.finish > as_it_is.finish, "{kind}");
        let one = plan.clone().concurrency(kind, NonZeroU32::new(1)).latency(Duration::from_secs(3)).forecast();
        assert!(one.takes() >= Some(Duration::from_secs(3 * 400)), "{kind}: {:?}", one.takes());
    }
}

#[test]
fn a_shared_limit_where_there_was_none_binds_the_plan_as_a_configured_one() {
    let mailboxes: [&[&str]; 1] = [&["100 requests / 1m"]];
    let (none, some) = (SharedPolicy::default(), application(&["25 requests / 1m"]));
    let (none, some) = (world_of(&mailboxes, &none), world_of(&mailboxes, &some));
    let plan = all_of(&none, 200, Lane::Background).limit(ScopeKind::Application, limit("25 requests / 1m"));
    let plan = plan.concurrency(ScopeKind::Application, NonZeroU32::new(6));
    assert_eq!(plan.forecast(), all_of(&some, 200, Lane::Background).forecast());
}

#[test]
fn a_limit_given_replaces_the_one_of_its_unit_and_window_only() {
    let world = world_of(&[&["30 requests / 1m", "100 recipients / 24h"]], &SharedPolicy::default());
    let plan = all_of(&world, 300, Lane::Background);
    let faster = plan.clone().limit(ScopeKind::Mailbox, limit("60 requests / 1m")).forecast();
    assert!(faster.takes() > Some(Duration::from_secs(86_400)), "the day's limit still binds: {:?}", faster.takes());
    let same = world_of(&[&["60 requests / 1m", "100 recipients / 24h"]], &SharedPolicy::default());
    assert_eq!(faster, all_of(&same, 300, Lane::Background).forecast());
    let eight = plan.concurrency(ScopeKind::Mailbox, NonZeroU32::new(8)).forecast();
    assert!(eight.finish.is_some());
}
