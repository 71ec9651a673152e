//! Grants that come while another operation of the mailbox holds its slot and is still being asked for.

use std::collections::VecDeque;

use super::*;
use crate::engine::policy::SharedPolicy;
use crate::engine::shared::{self, Asker, MailboxKey, Shared};

/// A mailbox with one connection that has to ask before each send.
fn asking() -> Rig {
    let mut rig = Rig::new(policy(&["50 requests / 1m"], 1));
    rig.input(Input::AskShared(AskShared::Always));
    rig
}

impl Rig {
    fn submit_of(&mut self, key: u64, lane: Lane, tenant: &str) {
        let mut operation = self.operation(key, lane);
        operation.tenant = Some(Arc::from(tenant));
        self.input(Input::Enqueue(operation));
    }

    fn wait(&mut self, key: u64) {
        let wall = Wall::InFlight;
        let scope = crate::engine::scope::ScopeKind::Application;
        let constraint = crate::engine::constraint::Constraint::exact(wall, scope, at(60)).as_binding();
        self.input(Input::Waiting { key: OperationKey(key), until: at(60), constraint });
    }

    fn grant(&mut self, key: u64) {
        self.input(Input::Granted { key: OperationKey(key) });
    }

    fn returned(&self) -> Vec<u64> {
        let returned = |effect: &Effect| match effect {
            Effect::Return { key, .. } => Some(key.0),
            _ => None,
        };
        self.others.iter().filter_map(returned).collect()
    }
}

#[test]
fn a_late_grant_takes_the_slot_of_an_operation_that_has_to_wait_itself() {
    let mut rig = asking();
    rig.submit_of(1, Lane::Foreground, "acme");
    rig.wait(1);
    rig.submit_of(2, Lane::Foreground, "zenith");
    rig.grant(1);
    assert!(rig.sent.is_empty() && rig.returned().is_empty(), "{:?}", rig.others);
    rig.wait(2);
    assert_eq!(rig.sent, [OperationKey(1)]);
    assert!(rig.returned().is_empty(), "{:?}", rig.others);
}

#[test]
fn a_late_grant_is_given_back_when_the_slot_is_really_taken() {
    let mut rig = asking();
    rig.submit_of(1, Lane::Foreground, "acme");
    rig.wait(1);
    rig.submit_of(2, Lane::Foreground, "zenith");
    rig.grant(1);
    rig.grant(2);
    assert_eq!(rig.sent, [OperationKey(2)]);
    assert_eq!(rig.returned(), [1]);
    rig.answer(2, Verdict::Accepted);
    rig.grant(1);
    assert_eq!(rig.sent, [OperationKey(2), OperationKey(1)]);
}

#[test]
fn a_late_grant_of_background_does_not_wait_in_front_of_foreground() {
    let mut rig = asking();
    rig.submit_of(1, Lane::Background, "acme");
    rig.wait(1);
    rig.submit_of(2, Lane::Foreground, "zenith");
    rig.submit_of(3, Lane::Foreground, "globex");
    rig.grant(1);
    assert_eq!(rig.returned(), [1], "3 would go before it");
    rig.wait(2);
    rig.grant(3);
    assert_eq!(rig.sent, [OperationKey(3)]);
}

#[test]
fn an_operation_that_ends_with_a_late_grant_gives_it_back_once() {
    let mut rig = asking();
    rig.submit_of(1, Lane::Foreground, "acme");
    rig.wait(1);
    rig.submit_of(2, Lane::Foreground, "zenith");
    rig.grant(1);
    rig.input(Input::Cancel { key: OperationKey(1) });
    assert_eq!(rig.outcome(1), Some(&Outcome::Cancelled { maybe_sent: false }));
    rig.grant(2);
    assert_eq!(rig.returned(), [1]);
    assert_eq!(rig.sent, [OperationKey(2)]);
}

#[test]
fn an_operation_that_is_withdrawn_while_it_is_asked_for_holds_up_no_late_grant() {
    let mut rig = asking();
    rig.submit_of(1, Lane::Foreground, "acme");
    rig.wait(1);
    rig.submit_of(2, Lane::Foreground, "zenith");
    rig.grant(1);
    rig.input(Input::Cancel { key: OperationKey(2) });
    assert_eq!(rig.sent, [OperationKey(1)]);
    assert_eq!(rig.returned(), [2]);
}

enum Message {
    Mailbox(Input),
    Shared(shared::Input),
}

/// One mailbox at its limit under an application at its limit, with inboxes as actors have them: first in, first out.
#[test]
fn a_mailbox_and_an_application_that_are_both_full_come_to_rest_within_an_instant() {
    let mut rig = asking();
    let mut shared_policy = SharedPolicy::default();
    shared_policy.application.concurrency = NonZeroU32::new(1);
    let mut shared = Shared::new(Arc::new(shared_policy));
    let asker = |mailbox, key| Asker { mailbox: MailboxKey(mailbox), key: OperationKey(key) };
    let mut inboxes: VecDeque<Message> = VecDeque::new();
    let enqueue = |rig: &Rig, key, tenant: &str| {
        let mut operation = rig.operation(key, Lane::Foreground);
        operation.tenant = Some(Arc::from(tenant));
        Message::Mailbox(Input::Enqueue(operation))
    };
    let of_another = asker(9, 900);
    let (lane, cost) = (Lane::Foreground, Cost::ONE_REQUEST);
    inboxes.push_back(Message::Shared(shared::Input::Reserve { asker: of_another, lane, tenant: None, cost }));
    inboxes.push_back(enqueue(&rig, 1, "acme"));
    let mut rounds = 0;
    let mut ended = false;
    while let Some(message) = inboxes.pop_front() {
        rounds += 1;
        assert!(rounds < 100, "it goes round: sent {:?}", rig.sent);
        match message {
            Message::Mailbox(input) => rig.input(input),
            Message::Shared(input) => shared.handle(T0, input),
        }
        for effect in std::mem::take(&mut rig.others) {
            inboxes.extend(match effect {
                Effect::Reserve { key, lane, tenant, cost } => {
                    Some(Message::Shared(shared::Input::Reserve { asker: asker(0, key.0), lane, tenant, cost }))
                }
                Effect::Return { key, .. } => Some(Message::Shared(shared::Input::Return { asker: asker(0, key.0) })),
                _ => None,
            });
        }
        while let Some(effect) = shared.poll_effect() {
            inboxes.extend(match effect {
                shared::Effect::Grant(asker) => Some(Message::Mailbox(Input::Granted { key: asker.key })),
                shared::Effect::Wait { asker, until, constraint } => {
                    Some(Message::Mailbox(Input::Waiting { key: asker.key, until, constraint }))
                }
                _ => None,
            });
        }
        if inboxes.is_empty() && !std::mem::replace(&mut ended, true) {
            // The second operation is being asked for when the slot of the application comes free.
            let (tenant, answer) = (None, Verdict::Accepted.into());
            inboxes.push_back(enqueue(&rig, 2, "zenith"));
            inboxes.push_back(Message::Shared(shared::Input::Settle {
                asker: of_another,
                tenant,
                sent_at: T0,
                answer,
            }));
        }
    }
    assert_eq!(rig.sent.len(), 1, "one has both slots: {:?}", rig.sent);
}
