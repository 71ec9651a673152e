//! Names go with the last row that bears them; nobody who reads meets a row without its name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mailweir::engine::OperationState;
use mailweir::engine::operation::Transition as T;
use mailweir::store::{
    AdmissionNote, CommitPoint, CommitProbe, Fate, Inserted, NewOperation, Note, NoteBody, NoteChange, NoteKey,
    NoteKind, OperationQuery, SqliteOptions, SqliteStore, Store,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);
/// The name that is numbered last in a test: the highest number stays, whatever bears it.
const LAST: &str = "last@contoso.example";

fn of(key: u64, mailbox: &str, tenant: Option<&str>, second: u64) -> NewOperation {
    let (submitted_at, deadline) = (at(second), at(second + 9_000));
    let tenant = tenant.map(Arc::from);
    NewOperation { mailbox: mailbox.into(), tenant, submitted_at, not_before: at(0), deadline, ..sized(key, 200) }
}

fn options() -> SqliteOptions {
    SqliteOptions::new().ended_for(MINUTE).attempts_for(MINUTE * 2)
}

fn admission(mailbox: &str, until: u64) -> Note {
    let key = NoteKey { kind: NoteKind::Admission, mailbox: Some(mailbox.into()), name: "key".into() };
    Note { key, at: at(1), until: at(until), body: NoteBody::Admission(AdmissionNote { id: "1".into() }) }
}

/// Commits in which nothing happens but forgetting, by the clock of `second`: as many as it may take.
async fn idle(store: &SqliteStore, second: u64) {
    for _ in 0..40 {
        let note = Note { at: at(second), until: at(second + 9_000), ..admission(LAST, 0) };
        store.keep([NoteChange::Keep(note)].into()).await.unwrap();
    }
}

fn texts(place: &Place, sql: &str) -> BTreeSet<String> {
    let shell = place.shell();
    let mut statement = shell.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn names(place: &Place) -> BTreeSet<String> {
    texts(place, "SELECT text FROM name")
}

/// Whatever has a name has one that is there.
fn assert_sound(place: &Place) {
    let shell = place.shell();
    let broken = |sql: &str| shell.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(broken("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    assert_eq!(broken("SELECT count(*) FROM note WHERE mailbox <> 0 AND mailbox NOT IN (SELECT nr FROM name)"), 0);
    assert_eq!(broken("SELECT count(*) FROM tally WHERE mailbox <> 0 AND mailbox NOT IN (SELECT nr FROM name)"), 0);
    let counted = "SELECT count(*) FROM (SELECT mailbox, state, count(*) AS n FROM operation GROUP BY 1, 2) o
        FULL JOIN (SELECT * FROM tally WHERE mailbox <> 0 AND operations <> 0) t
        ON t.mailbox = o.mailbox AND t.state = o.state WHERE o.n IS NOT t.operations";
    assert_eq!(broken(counted), 0, "rows and counts");
}

#[test]
fn the_names_of_what_is_forgotten_go_and_those_in_use_stay() {
    let place = Place::new();
    block_on(async {
        let store = place.open_with(options());
        let gone = (1..=50).map(|key| of(key, &format!("m{key}@contoso.example"), Some(&format!("t{key}")), 1));
        store.insert(gone.collect()).await.unwrap();
        store.insert(vec![of(51, "live@contoso.example", Some("waits"), 1)]).await.unwrap();
        store.insert(vec![of(52, "charged@contoso.example", Some("charged"), 400)]).await.unwrap();
        store.keep([NoteChange::Keep(admission("noted@contoso.example", 9_000))].into()).await.unwrap();
        store.keep([NoteChange::Keep(admission("over@contoso.example", 2))].into()).await.unwrap();
        store.insert(vec![of(53, LAST, None, 1)]).await.unwrap();
        assert!(names(&place).len() >= 106);
        for key in (1..=50).chain([53]) {
            store.record(record(key, T::Cancel, 2)).await.unwrap();
        }
        // Its operation is forgotten before its attempt.
        store.claim(vec![claim(52, 1, 400)]).await.unwrap();
        store.record(record(52, T::Accept, 401)).await.unwrap();
        idle(&store, 500).await;
        assert!(found(&store, 1).await.is_none() && found(&store, 52).await.is_none());
        let stays =
            ["live@contoso.example", "waits", "charged@contoso.example", "charged", "noted@contoso.example", LAST];
        assert_eq!(names(&place), stays.map(str::to_owned).into());
        let counted = texts(&place, "SELECT n.text FROM tally t JOIN name n ON n.nr = t.mailbox");
        assert!(counted.is_subset(&names(&place)));
        assert_sound(&place);
        idle(&store, 700).await;
        let stays = ["live@contoso.example", "waits", "noted@contoso.example", LAST];
        assert_eq!(names(&place), stays.map(str::to_owned).into(), "the attempt is too old to count");
        assert_eq!(store.recover(at(0), None).await.unwrap().notes.len(), 2);
        assert_sound(&place);
    });
}

#[test]
fn a_name_that_comes_back_names_its_own_rows_and_no_number_is_given_out_twice() {
    let place = Place::new();
    let number = |text: &str| {
        let shell = place.shell();
        shell.query_row("SELECT nr FROM name WHERE text = ?1", [text], |row| row.get::<_, i64>(0)).ok()
    };
    block_on(async {
        let store = place.open_with(options());
        let mut used = BTreeSet::new();
        for round in 0..5 {
            let (key, second) = (1 + 10 * round, 1_000 * round);
            let first = of(key, "back@contoso.example", Some("acme"), second);
            let high = of(key + 1, &format!("high{round}@contoso.example"), None, second);
            store.insert(vec![first, high]).await.unwrap();
            assert!(used.insert(number("back@contoso.example").unwrap()), "round {round}: {used:?}");
            let row = found(&store, key).await.unwrap();
            assert_eq!((&*row.mailbox, row.tenant.as_deref()), ("back@contoso.example", Some("acme")));
            let query = OperationQuery { tenant: Some("acme".into()), ..OperationQuery::default() };
            assert_eq!(store.operations(query).await.unwrap(), [row]);
            let queued = "SELECT CAST(queued AS TEXT) FROM mailboxes WHERE mailbox = 'back@contoso.example'";
            assert_eq!(texts(&place, queued), BTreeSet::from(["1".to_owned()]));
            for key in [key, key + 1] {
                store.record(record(key, T::Cancel, second + 1)).await.unwrap();
            }
            idle(&store, second + 500).await;
            assert_eq!((number("back@contoso.example"), number("acme")), (None, None));
        }
    });
}

#[test]
fn what_older_versions_left_and_what_was_refused_leaves_no_name() {
    let place = Place::new();
    block_on(async {
        let store = place.open_with(options());
        store.insert(vec![of(1, "live@contoso.example", None, 1)]).await.unwrap();
        for key in [2, 3] {
            let (mailbox, tenant) = (format!("refused{key}@contoso.example"), format!("refused{key}"));
            let other = NewOperation { id: "operation-1".into(), ..of(key, &mailbox, Some(&tenant), 1) };
            assert_eq!(store.insert(vec![other]).await.unwrap(), [Inserted::Conflict]);
        }
        store.insert(vec![of(4, LAST, None, 1)]).await.unwrap();
        // The highest was spared as such: it goes in the round after the next row.
        store.keep([NoteChange::Keep(admission("live@contoso.example", 9_000))].into()).await.unwrap();
        store.keep([NoteChange::Drop(admission("live@contoso.example", 0).key)].into()).await.unwrap();
        idle(&store, 2).await;
        assert_eq!(names(&place), ["live@contoso.example", LAST].map(str::to_owned).into());
        store.close().await.unwrap();
        let left = "INSERT INTO name (nr, text) VALUES (1000, 'left'), (1001, 'high');
            INSERT INTO tally VALUES (1000, 1, 0)";
        place.shell().execute_batch(left).unwrap();
        let store = place.open_with(options());
        idle(&store, 3).await;
        assert_eq!(names(&place), ["live@contoso.example", LAST, "high"].map(str::to_owned).into());
        assert_sound(&place);
    });
}

/// One operation per mailbox and tenant, ended and forgotten while the next ones come.
async fn churn(store: &SqliteStore, rounds: std::ops::Range<u64>) {
    for round in rounds {
        let second = 100 * round;
        let batch = (1..=5).map(|nth| 10 * round + nth);
        let new = |key| of(key, &format!("m{}@contoso.example", key % 40), Some(&format!("t{}", key % 35)), second);
        if store.insert(batch.clone().map(new).collect()).await.is_err() {
            return;
        }
        for key in batch {
            let ended = store.record(record(key, T::Cancel, second + 1)).await;
            if ended.is_err() {
                return;
            }
        }
    }
}

#[test]
fn who_reads_beside_it_never_meets_a_row_without_its_name() {
    let place = Place::new();
    let store = place.open_with(options());
    let (file, stop) = (place.file(), Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (file, stop) = (file.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let shell = rusqlite::Connection::open(file).unwrap();
                let mut seen = 0_i64;
                while !stop.load(Ordering::SeqCst) {
                    let sql = "SELECT count(*), count(tenant), (SELECT count(*) FROM operation) FROM operations";
                    let [rows, tenants, all] =
                        shell.query_row(sql, [], |row| Ok([0, 1, 2].map(|at| row.get::<_, i64>(at).unwrap()))).unwrap();
                    assert_eq!((rows, tenants), (all, all), "a row without a name");
                    seen += all;
                }
                seen
            })
        })
        .collect();
    block_on(async {
        for round in 0..60 {
            churn(&store, round..round + 1).await;
            let found = store.operations(OperationQuery::default()).await.unwrap();
            assert!(!found.is_empty() && found.iter().all(|row| row.tenant.is_some()));
            assert!(store.recover(at(0), None).await.is_ok());
        }
    });
    stop.store(true, Ordering::SeqCst);
    let seen: Vec<i64> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    assert!(seen.iter().all(|seen| *seen > 0), "{seen:?}");
    assert!(names(&place).len() < 40, "of 75 that came and went: {:?}", names(&place));
}

#[test]
fn a_crash_at_any_commit_leaves_names_and_rows_sound_and_the_rest_is_forgotten_after_it() {
    for fatal in 1..=40 {
        for point in [CommitPoint::Before(fatal), CommitPoint::After(fatal)] {
            let place = Place::new();
            let probe = CommitProbe::new(move |at| if at == point { Fate::Die } else { Fate::GoOn });
            block_on(async {
                let store = place.open_with(options().commit_probe(probe));
                churn(&store, 0..10).await;
                drop(store);
                let store = place.open_with(options());
                assert_sound(&place);
                churn(&store, 20..24).await;
                let rows = store.operations(OperationQuery::default()).await.unwrap();
                assert!(rows.iter().all(|row| row.tenant.is_some()), "{point:?}: {rows:?}");
                for row in rows.iter().filter(|row| row.state == OperationState::Queued) {
                    store.record(record(row.key.0, T::Cancel, 2_500)).await.unwrap();
                }
                store.insert(vec![of(900, LAST, None, 5_000)]).await.unwrap();
                idle(&store, 5_000).await;
                assert_eq!(names(&place), BTreeSet::from([LAST.to_owned()]), "{point:?}");
                assert_sound(&place);
            });
        }
    }
}

/// Each step: mailbox, tenant, whether the store is opened anew (0) or the oldest ends (1), seconds since the last.
fn come_and_go(steps: &[(u64, u64, u64, u64)]) {
    let place = Place::new();
    block_on(async {
        let mut store = place.open_with(options());
        let mut second = 1;
        let mut live: Vec<(u64, String, String)> = Vec::new();
        for (key, (mailbox, tenant, what, pause)) in (1..).zip(steps.iter().copied()) {
            second += pause;
            let (mailbox, tenant) = (format!("m{mailbox}@contoso.example"), format!("t{tenant}"));
            store.insert(vec![of(key, &mailbox, Some(&tenant), second)]).await.unwrap();
            live.push((key, mailbox, tenant));
            if what == 0 {
                store.close().await.unwrap();
                store = place.open_with(options());
            }
            while what == 1 && live.len() > 2 {
                let (key, ..) = live.remove(0);
                store.record(record(key, T::Cancel, second)).await.unwrap();
            }
            for (key, mailbox, tenant) in &live {
                let row = found(&store, *key).await.unwrap();
                assert_eq!((&*row.mailbox, row.tenant.as_deref()), (&**mailbox, Some(&**tenant)));
            }
        }
        store.insert(vec![of(900, LAST, None, second + 500)]).await.unwrap();
        idle(&store, second + 500).await;
        let mut borne: BTreeSet<String> = live.iter().flat_map(|(_, m, t)| [m.clone(), t.clone()]).collect();
        borne.insert(LAST.to_owned());
        assert_eq!(names(&place), borne);
        assert_sound(&place);
    });
}

#[test]
fn a_name_that_was_the_highest_when_it_fell_out_of_use_goes_when_there_is_a_higher_one() {
    come_and_go(&[
        (0, 4, 0, 1),
        (5, 0, 0, 1),
        (4, 3, 2, 1),
        (2, 5, 2, 1),
        (0, 1, 0, 1),
        (2, 3, 0, 1),
        (2, 5, 1, 3),
        (4, 5, 2, 46),
        (0, 0, 0, 33),
        (5, 3, 0, 81),
        (4, 5, 2, 59),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Mailboxes and tenants come and go in any order, under few names; each row that is there has its own.
    #[test]
    fn whatever_comes_and_goes_has_its_name_and_what_is_gone_has_none(
        steps in vec((0_u64..6, 0_u64..6, 0_u64..3, 1_u64..90), 1..60)
    ) {
        come_and_go(&steps);
    }
}
