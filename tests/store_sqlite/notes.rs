//! Notes on disk: older files, other eyes, another life.

use std::fs;

use mailweir::engine::breaker::BreakerMemory;
use mailweir::engine::operation::{OrderWords, Requested};
use mailweir::engine::{Cost, Lane, Leaves, OperationKey, OperationState, Timestamp};
use mailweir::store::{
    EndedHow, EndedNote, Note, NoteBody, NoteChange, NoteKey, NoteKind, OrderNote, PermitNote, RequestNote, Store,
};

use crate::support::*;

fn note(kind: NoteKind, mailbox: Option<&str>, name: &str, body: NoteBody) -> Note {
    let key = NoteKey { kind, mailbox: mailbox.map(Into::into), name: name.into() };
    Note { key, at: at(1), until: at(900), body }
}

fn hold(name: &str) -> Note {
    let body = NoteBody::Order(OrderNote { reason: "a look".into(), by: Some("kim".into()), ..OrderNote::default() });
    note(NoteKind::Hold, None, name, body)
}

/// An outbox as the first version made it, with an operation that was being attempted.
fn of_the_first_version(place: &Place) {
    let old = place.shell();
    old.execute_batch("PRAGMA application_id = 0x6d776f62").unwrap();
    old.execute_batch(include_str!("v1.sql")).unwrap();
    old.execute_batch("PRAGMA user_version = 1").unwrap();
    old.execute_batch(
        "INSERT INTO name VALUES (1, 'noreply@contoso.example'), (2, 'acme');
         INSERT INTO operation VALUES (7, 'operation-7', 7, 1, 2, NULL, 1, 1, 1, 1, 0, 4096, 2, 1700000000000000,
             1700000000000000, 1700000900000000, 1700000005000000, NULL, 0, 1, NULL, NULL);
         INSERT INTO payload VALUES (7, 'noreply@contoso.example', 'ann@fabrikam.example', x'5375626a6563743a20370d0a0d0a37');
         INSERT INTO attempt VALUES (7, 1, 1, 2, 1, 1, 1, 1, 0, 4096, 1700000005000000, NULL, NULL, NULL);
         INSERT INTO tally VALUES (0, 2, 1), (1, 2, 1);",
    )
    .unwrap();
}

#[test]
fn a_file_of_the_first_version_is_brought_up_with_everything_in_it() {
    let place = Place::new();
    of_the_first_version(&place);
    block_on(async {
        let store = place.open();
        let recovery = store.recover(at(0), None).await.unwrap();
        let found = found(&store, 7).await.unwrap();
        assert_eq!((found.state, found.tenant.as_deref()), (OperationState::Attempting, Some("acme")));
        assert_eq!(recovery.operations, [found]);
        assert_eq!(recovery.attempts.len(), 1);
        assert_eq!(store.email(OperationKey(7)).await.unwrap().unwrap().mime(), b"Subject: 7\r\n\r\n7");
        assert_eq!(store.counts().await.unwrap()[OperationState::Attempting as usize], 1);
        store.keep([NoteChange::Keep(hold("application"))].into()).await.unwrap();
        store.close().await.unwrap();
        let again = place.open().recover(at(0), None).await.unwrap();
        assert_eq!(again.notes, [hold("application")]);
        assert_eq!(again.secret, recovery.secret, "drawn once");
        assert_ne!(again.secret, mailweir::store::KeySecret::default());
    });
    let version: i32 = place.shell().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 11);
}

#[test]
fn notes_and_the_secret_outlive_a_crash_right_after_they_were_answered() {
    let place = Place::new();
    let secret = block_on(async {
        let store = place.open();
        store.keep([NoteChange::Keep(hold("application"))].into()).await.unwrap();
        let secret = store.recover(at(0), None).await.unwrap().secret;
        // As a crash leaves it: the file and its log, copied while the store is open.
        for end in ["", "-wal"] {
            fs::copy(place.folder().join(format!("outbox.db{end}")), place.folder().join(format!("copy.db{end}")))
                .unwrap();
        }
        secret
    });
    let copy = mailweir::store::SqliteStore::open(place.folder().join("copy.db")).unwrap();
    let recovery = block_on(copy.recover(at(0), None)).unwrap();
    assert_eq!((recovery.notes, recovery.secret), (vec![hold("application")], secret));
}

#[test]
fn an_operator_reads_holds_cooldowns_and_permits_in_words() {
    let place = Place::new();
    let memory: BreakerMemory = serde_json::from_str(
        r#"{"trips": 1, "ceilings": [], "cooldown": {"phase": "shut", "until": 1700000060000000,
            "reason": "sustained_429", "chain": 2, "set_at": 1700000000000000, "ended_at": null,
            "length": {"secs": 60, "nanos": 0}, "memory": {"secs": 600, "nanos": 0}, "episodes": 2,
            "long_failures": 0, "tripped": true, "forgiven": false, "measured": null}}"#,
    )
    .unwrap();
    let permit = PermitNote {
        key: OperationKey(9),
        lane: Lane::Foreground,
        tenant: None,
        cost: Cost::ONE_REQUEST,
        claimed_at: at(5),
        finished_at: None,
        leaves: Leaves::All,
    };
    let mailbox = Some("noreply@contoso.example");
    let trip = Note { until: Timestamp::NEVER, ..note(NoteKind::Trip, None, "application", hold("").body) };
    let changes = [
        hold("tenant:acme"),
        trip,
        note(NoteKind::Breaker, mailbox, "mailbox:noreply@contoso.example", NoteBody::Breaker(Box::new(memory))),
        note(NoteKind::Permit, mailbox, "9", NoteBody::Permit(permit)),
    ];
    block_on(async {
        let store = place.open();
        store.keep(changes.into_iter().map(NoteChange::Keep).collect()).await.unwrap();
        store.close().await.unwrap();
    });
    let shell = place.shell();
    let words = |sql: &str| {
        let mut statement = shell.prepare(sql).unwrap();
        let count = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let words = (0..count).map(|at| row.get::<_, Option<String>>(at).map(Option::unwrap_or_default));
            words.collect::<Result<Vec<_>, _>>().map(|words| words.join("|"))
        };
        statement.query_map([], row).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    assert_eq!(
        words("SELECT what, scope, reason, ordered_by, since, until FROM holds ORDER BY what"),
        [
            "hold|tenant:acme|a look|kim|2023-11-14T22:13:21.000Z|2023-11-14T22:28:20.000Z",
            "trip|application|a look|kim|2023-11-14T22:13:21.000Z|"
        ]
    );
    assert_eq!(
        words("SELECT scope, phase, reason, until, cast(chain AS TEXT) FROM cooldowns"),
        ["mailbox:noreply@contoso.example|shut|sustained_429|2023-11-14T22:14:20.000Z|2"]
    );
    assert_eq!(
        words("SELECT permit, mailbox, lane, granted_at, settled_at FROM permits"),
        ["9|noreply@contoso.example|foreground|2023-11-14T22:13:25.000Z|"]
    );
}

#[test]
fn a_note_that_cannot_be_read_is_passed_over_and_counted_and_one_of_a_newer_kind_is_left_alone() {
    let place = Place::new();
    block_on(async {
        let store = place.open();
        let kept = [hold("application"), hold("tenant:acme"), hold("mailbox:ann@fabrikam.example")];
        store.keep(kept.map(NoteChange::Keep).into()).await.unwrap();
        store.close().await.unwrap();
        place.shell().execute_batch("INSERT INTO note VALUES (99, 0, 'new', 1, 2, 'whatever')").unwrap();
        place
            .shell()
            .execute_batch(
                "UPDATE note SET body = '{\"order\": 7}' WHERE name = 'mailbox:ann@fabrikam.example';
                 UPDATE note SET body = CAST(x'ff00' AS TEXT) WHERE name = 'tenant:acme';",
            )
            .unwrap();
        let store = place.open();
        let recovery = store.recover(at(0), None).await.unwrap();
        assert_eq!(recovery.notes, [hold("application")]);
        assert_eq!(recovery.unreadable.into_iter().collect::<Vec<_>>(), [(NoteKind::Hold, 2)]);
        // It can be said again, and is read then.
        store.keep([NoteChange::Keep(hold("tenant:acme"))].into()).await.unwrap();
        assert_eq!(store.recover(at(0), None).await.unwrap().notes.len(), 2);
    });
}

#[test]
fn a_memory_without_the_fields_that_came_later_is_read_with_their_defaults() {
    let memory: BreakerMemory = serde_json::from_str(
        r#"{"cooldown": {"phase": "shut", "until": 7, "reason": "sustained_429", "length": {"secs": 60, "nanos": 0},
            "memory": {"secs": 600, "nanos": 0}}, "outage": {"set_at": 1, "until": 2}}"#,
    )
    .unwrap();
    let cooldown = memory.cooldown.unwrap();
    assert_eq!((cooldown.chain, cooldown.episodes, cooldown.tripped, cooldown.measured), (0, 0, false, None));
    assert_eq!(memory.outage.unwrap().failed_probes, 0);
}

#[test]
fn an_operator_reads_who_ended_what_and_how_and_what_is_asked_for() {
    let place = Place::new();
    let store = place.open();
    let words =
        |reason: &str, by: &str| OrderNote { reason: reason.into(), by: Some(by.into()), ..OrderNote::default() };
    let said = |how, lifted, ended_at| EndedNote {
        ordered: Some(words("a look", "kim")),
        lifted,
        how,
        since: Some(at(0)),
        until: Some(at(900)),
        ended_at,
    };
    let to_come = Timestamp::from_micros(1 << 52);
    let ended = [
        ("1700000000000000:hold:all", said(EndedHow::Lifted, Some(words("all is well", "ann")), Some(at(2)))),
        ("1700000003000000:hold:all", said(EndedHow::Replaced, Some(words("longer", "lee")), Some(at(3)))),
        ("1700000900000000:trip:application", said(EndedHow::Expired, None, Some(at(900)))),
        ("9700000000000000:hold:all", said(EndedHow::Expired, None, Some(to_come))),
    ];
    let order = OrderWords { reason: "wrong list".into(), by: None, deadline: None };
    let request = RequestNote { wants: Requested::Cancel, order: order.into() };
    let mailbox = "noreply@contoso.example";
    let ended = ended.map(|(name, said)| note(NoteKind::Ended, None, name, NoteBody::Ended(said.into())));
    let request = note(NoteKind::Request, Some(mailbox), "1", NoteBody::Request(request.into()));
    let notes = ended.into_iter().chain([request]);
    block_on(async {
        store.insert(vec![new(1), new(2)]).await.unwrap();
        store.keep(notes.map(NoteChange::Keep).collect()).await.unwrap();
    });
    let row = |sql: &str| place.shell().query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    let told = "what || '|' || how || '|' || reason || '|' || ordered_by || '|' || coalesce(end_reason || ' ' || ended_by, '')";
    let ended = row(&format!("SELECT group_concat({told}, ';' ORDER BY ended_at) FROM ended_orders"));
    let expected = [
        "hold:all|lifted|a look|kim|all is well ann",
        "hold:all|replaced|a look|kim|longer lee",
        "trip:application|expired|a look|kim|",
    ];
    assert_eq!(ended, expected.join(";"), "the one whose end is to come is not there");
    let instants = row("SELECT since || ' ' || until || ' ' || ended_at FROM ended_orders WHERE how = 'lifted'");
    assert_eq!(instants, "2023-11-14T22:13:20.000Z 2023-11-14T22:28:20.000Z 2023-11-14T22:13:22.000Z");
    assert_eq!(row("SELECT group_concat(id || ' ' || requested) FROM operations"), "operation-1 cancel");
}
