//! What happens while an attempt row is written, and between two lives.

use super::*;
use crate::engine::event::TripReason;
use crate::engine::scope::Scope;

/// Takes an operation as far as its claim.
fn claiming(operation: Operation) -> Mailbox {
    let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&["1 request / 10m"], 4)));
    engine.handle(T0, Input::AskShared(AskShared::OnTrouble));
    engine.handle(T0, Input::Enqueue(operation));
    let effects = drained(&mut engine);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Claim { attempt: 1, .. })), "{effects:?}");
    engine
}

fn drained(engine: &mut Mailbox) -> Vec<Effect> {
    std::iter::from_fn(|| engine.poll_effect()).collect()
}

#[test]
fn an_attempt_arrives_by_what_its_claim_says_however_long_its_row_took_to_write() {
    let rig = Rig::new(policy(&[], 1));
    // D_max is 65 s and an attempt may take 60 s.
    for (written, deadline) in [(0, Some(60)), (5, Some(65)), (34, Some(65)), (36, None), (3_600, None)] {
        let mut engine = claiming(rig.operation(1, Lane::Foreground));
        engine.handle(at(written), Input::Claimed { key: OperationKey(1) });
        let effects = drained(&mut engine);
        let sent = effects.iter().find_map(|effect| match effect {
            Effect::Send { deadline, .. } => Some(*deadline),
            _ => None,
        });
        assert_eq!(sent, deadline.map(at), "written after {written} s");
        let again = effects.iter().any(|effect| matches!(effect, Effect::Claim { attempt: 2, .. }));
        assert_eq!(again, deadline.is_none(), "what was charged came back, and is claimed anew: {effects:?}");
    }
}

#[test]
fn a_permit_that_took_long_to_write_is_handed_over_all_the_same() {
    let mut operation = Rig::new(policy(&[], 1)).operation(1, Lane::Foreground);
    operation.kind = OperationKind::Permit;
    let mut engine = claiming(operation);
    engine.handle(at(64), Input::Claimed { key: OperationKey(1) });
    assert!(drained(&mut engine).iter().any(|effect| matches!(effect, Effect::Grant { .. })));
}

#[test]
fn what_is_held_while_its_row_is_written_is_not_sent() {
    let mut operation = Rig::new(policy(&[], 1)).operation(1, Lane::Foreground);
    (operation.tenant, operation.campaign) = (Some("acme".into()), Some("spring".into()));
    let targets = [
        HoldTarget::All,
        HoldTarget::Mailbox,
        HoldTarget::Tenant("acme".into()),
        HoldTarget::Campaign("spring".into()),
        HoldTarget::Operation(OperationKey(1)),
    ];
    for target in targets {
        let mut engine = claiming(operation.clone());
        engine.handle(at(1), Input::Hold(Hold::new(target.clone(), at(600))));
        engine.handle(at(2), Input::Claimed { key: OperationKey(1) });
        let effects = drained(&mut engine);
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Send { .. })), "{target:?}: {effects:?}");
        engine.handle(at(3), Input::Resume(target.clone()));
        let effects = drained(&mut engine);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Claim { attempt: 2, .. })), "{target:?}");
    }
}

#[test]
fn what_waits_an_hour_waits_an_hour_where_the_clock_was_set_back_a_day() {
    let rig = Rig::new(policy(&[], 1));
    let day = Duration::from_secs(86_400);
    let hour = Duration::from_secs(3_600);
    let restored = |said_at: Timestamp, not_before: Timestamp| RestoredOperation {
        operation: Operation { not_before, ..rig.operation(1, Lane::Foreground) },
        state: OperationState::Deferred,
        next_at: Some(said_at.after(hour)),
        rows: 1,
        changed_at: said_at,
        maybe_sent: false,
        crashes: 0,
        requested: None,
        accepted: None,
    };
    let woken = |restored: RestoredOperation| {
        let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&[], 4)));
        engine.restore(T0, vec![restored], &[]);
        engine.poll_deadline().map(|at| at.since(T0))
    };
    assert_eq!(woken(restored(T0.before(hour / 2), T0)), Some(hour / 2), "half an hour of it has passed");
    assert_eq!(woken(restored(T0.after(day), T0)), Some(hour));
    assert_eq!(woken(restored(T0.after(day), T0.after(hour * 2))), Some(hour * 2), "its sender named that");
}

#[test]
fn a_shared_scope_that_is_stopped_while_the_row_is_written_stops_the_attempt() {
    for (scope, stops) in
        [(Scope::Application, true), (Scope::Tenant("acme".into()), true), (Scope::Tenant("zenith".into()), false)]
    {
        let mut operation = Rig::new(policy(&[], 1)).operation(1, Lane::Foreground);
        operation.tenant = Some("acme".into());
        let mut engine = Mailbox::new("noreply@contoso.example".into(), Arc::new(policy(&[], 4)));
        engine.handle(T0, Input::AskShared(AskShared::Always));
        engine.handle(T0, Input::Enqueue(operation));
        engine.handle(T0, Input::Granted { key: OperationKey(1) });
        drop(drained(&mut engine));
        engine.handle(at(2), Input::Troubled { scope: scope.clone(), reason: TripReason::Sustained429 });
        engine.handle(at(5), Input::Claimed { key: OperationKey(1) });
        let effects = drained(&mut engine);
        let returned = effects.iter().any(|effect| matches!(effect, Effect::Return { .. }));
        let asks = effects.iter().any(|effect| matches!(effect, Effect::Reserve { .. }));
        let sent = effects.iter().any(|effect| matches!(effect, Effect::Send { .. }));
        assert_eq!((returned, asks, sent), (stops, stops, !stops), "{scope}: {effects:?}");
    }
}
