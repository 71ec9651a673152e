//! What is entered, taken back, forgotten and read back.

use std::time::Duration;

use super::*;
use crate::engine::{OperationKey, TripReason};

fn at(second: u64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

fn bounds(ended_for: u64, ended_max: usize) -> OrdersConfig {
    let mut bounds = OrdersConfig::default();
    (bounds.ended_for, bounds.ended_max) = (Duration::from_secs(ended_for), ended_max);
    bounds
}

fn order(since: u64, until: u64) -> OrderFacts {
    OrderFacts { reason: "a look".into(), by: Some("kim".into()), since: at(since), until: at(until), part: None }
}

fn lifted() -> OrderEnd {
    OrderEnd::Lifted { reason: "done".into(), by: None }
}

fn everything() -> OrderScope {
    OrderScope::Hold(HoldScope::All)
}

/// Given over `book`, as the store would have it after that.
fn give(book: &EndedBook, store: &mut BTreeMap<NoteKey, Note>, second: u64, bounds: &OrdersConfig, turn: Turn) {
    let entered = book.enter(at(second), bounds, turn);
    let before = store.clone();
    keep(store, entered.changes());
    let mut back = store.clone();
    keep(&mut back, entered.back());
    let said = |notes: &BTreeMap<NoteKey, Note>| notes.values().map(|note| note.body.clone()).collect::<Vec<_>>();
    assert_eq!((back.keys().collect::<Vec<_>>(), said(&back)), (before.keys().collect(), said(&before)), "taken back");
}

fn keep(store: &mut BTreeMap<NoteKey, Note>, changes: impl Iterator<Item = NoteChange>) {
    for change in changes {
        match change {
            NoteChange::Keep(note) => drop(store.insert(note.key.clone(), note)),
            NoteChange::Drop(key) => drop(store.remove(&key)),
        }
    }
}

#[test]
fn what_is_written_is_read_back_whatever_it_was_and_however_it_ended() {
    let part = WideningNote {
        reason: "the first of them".into(),
        by: None,
        first: 3,
        through: OperationKey(9),
        watch_ms: 60_000,
        stopped: Some((Scope::Application, TripReason::Health)),
    };
    let (reason, by): (Arc<str>, Option<Arc<str>>) = ("done".into(), Some("lee".into()));
    let ends = [
        lifted(),
        OrderEnd::InPart { reason: Arc::clone(&reason), by: by.clone() },
        OrderEnd::Replaced { reason, by },
        OrderEnd::Expired,
    ];
    let whats = [
        everything(),
        OrderScope::Hold(HoldScope::Mailbox("a:b@contoso.example".into())),
        OrderScope::Hold(HoldScope::Operation("1".into())),
        OrderScope::Hold(HoldScope::Tenant("hold:all".into())),
        OrderScope::Hold(HoldScope::Campaign("spring".into())),
        OrderScope::Breaker(Scope::Application),
        OrderScope::Breaker(Scope::Tenant("acme".into())),
        OrderScope::Breaker(Scope::Mailbox("a@contoso.example".into())),
    ];
    for what in whats {
        for end in ends.clone() {
            for part in [None, Some(Box::new(part.clone()))] {
                let order = Some(OrderFacts { part, ..order(1, 9) });
                let (what, end) = (what.clone(), end.clone());
                let facts = EndedFacts { what, order, end, ended_at: at(9), kept_until: at(99) };
                let note = facts.note(at(1));
                let body = serde_json::to_string(&note.body).expect("text");
                let body = serde_json::from_str(&body).expect("read back");
                assert_eq!(EndedFacts::read(&Note { body, ..note }), Some(facts));
            }
        }
    }
}

#[test]
fn an_order_ends_by_itself_unless_it_is_lifted_or_replaced_before() {
    let (book, mut store, bounds) = (EndedBook::of(at(0), &[]), BTreeMap::new(), bounds(1_000, 10));
    let turn = |earlier, later, end| Turn { what: everything(), earlier, later, end };
    let replaced = OrderEnd::Replaced { reason: "longer".into(), by: None };
    give(&book, &mut store, 1, &bounds, turn(None, Some(order(1, 50)), None));
    assert!(book.all(at(49), 10).is_empty(), "its end is to come");
    give(&book, &mut store, 10, &bounds, turn(Some(order(1, 50)), Some(order(10, 90)), Some(replaced.clone())));
    give(&book, &mut store, 20, &bounds, turn(Some(order(10, 90)), None, Some(lifted())));
    give(&book, &mut store, 30, &bounds, turn(None, Some(order(30, 60)), None));
    let told = |now| {
        let all = book.all(at(now), 10);
        all.into_iter().map(|it| (it.end, it.order, it.ended_at)).collect::<Vec<_>>()
    };
    let before = [(replaced, Some(order(1, 50)), at(10)), (lifted(), Some(order(10, 90)), at(20))];
    assert_eq!(told(59), before);
    let expired = (OrderEnd::Expired, Some(order(30, 60)), at(60));
    assert_eq!(told(60)[2..], [expired]);
    assert_eq!(book.expired(at(59)), (Vec::new(), Some(at(60))));
    assert_eq!(book.expired(at(60)), (vec![(HoldScope::All, order(30, 60))], None));
    assert_eq!(book.expired(at(61)), (Vec::new(), None), "once");
    // Whoever reads the store comes to the same.
    let notes: Vec<Note> = store.into_values().collect();
    assert_eq!(EndedBook::of(at(100), &notes).all(at(100), 10), book.all(at(100), 10));
    assert!(book.all(at(1_060), 10).is_empty(), "forgotten in time");
}

#[test]
fn the_oldest_give_way_and_come_back_when_the_order_fails() {
    let (book, mut store, bounds) = (EndedBook::of(at(0), &[]), BTreeMap::new(), bounds(100_000, 100));
    let turn = |second| Turn {
        what: OrderScope::Hold(HoldScope::Campaign(format!("{second}").into())),
        earlier: Some(order(1, 5_000)),
        later: None,
        end: Some(lifted()),
    };
    for second in 1..=100 {
        give(&book, &mut store, second, &bounds, turn(second));
    }
    let before = book.all(at(100), 100);
    let entered = book.enter(at(101), &bounds, turn(101));
    let after = book.all(at(101), 100);
    assert_eq!((after.len(), &after[..99]), (100, &before[1..]));
    assert_eq!(entered.changes().next(), Some(NoteChange::Drop(before[0].key())));
    assert_eq!(entered.back().last(), Some(NoteChange::Keep(before[0].note(at(101)))));
    book.take_back(at(101), entered);
    assert_eq!(book.all(at(101), 100), before);
    assert_eq!(book.all(at(101), 7), before[93..], "the latest");
}

#[test]
fn several_ends_in_one_microsecond_are_several() {
    let (book, mut store, bounds) = (EndedBook::of(at(0), &[]), BTreeMap::new(), bounds(100, 10));
    for _ in 0..3 {
        let turn = Turn { what: everything(), earlier: Some(order(5, 50)), later: None, end: Some(lifted()) };
        give(&book, &mut store, 5, &bounds, turn);
    }
    assert_eq!((book.all(at(6), 10).len(), store.len()), (3, 3));
}

#[test]
fn what_another_process_ended_before_its_time_does_not_expire_here() {
    let (here, there, bounds) = (EndedBook::of(at(0), &[]), EndedBook::of(at(0), &[]), bounds(1_000, 10));
    let mut store = BTreeMap::new();
    let turn = |earlier, later, end| Turn { what: everything(), earlier, later, end };
    give(&there, &mut store, 1, &bounds, turn(None, Some(order(1, 50)), None));
    let read = |store: &BTreeMap<NoteKey, Note>| store.values().cloned().collect::<Vec<_>>();
    here.learn(at(2), &read(&store));
    assert_eq!(here.expired(at(2)).1, Some(at(50)));
    give(&there, &mut store, 3, &bounds, turn(Some(order(1, 50)), None, Some(lifted())));
    here.learn(at(4), &read(&store));
    assert_eq!(here.expired(at(60)), (Vec::new(), None));
    assert_eq!(here.all(at(60), 10), there.all(at(60), 10));
}
