//! What is in the file: for operators with a shell, and for how long.

use std::time::Duration;

use mailweir::engine::operation::Transition as T;
use mailweir::engine::{OperationKey, OperationState, Timestamp};
use mailweir::store::{NewOperation, PayloadRetention, SqliteOptions, SqliteStore, Store};
use rusqlite::types::Value;

use crate::support::*;

/// Rows of a query as text, columns joined by `|`, as the shell prints them.
fn ask(place: &Place, sql: &str) -> Vec<String> {
    let shell = place.shell();
    let mut statement = shell.prepare(sql).unwrap();
    let columns = statement.column_count();
    let text = |value: Value| match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(_) => "blob".to_owned(),
    };
    let row = |row: &rusqlite::Row<'_>| {
        let values = (0..columns).map(|column| row.get(column).map(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(values.join("|"))
    };
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn number(place: &Place, sql: &str) -> i64 {
    ask(place, sql)[0].parse().unwrap()
}

#[test]
fn an_operator_reads_operations_attempts_and_mailboxes_while_it_runs() {
    let place = Place::new();
    let store = place.open();
    block_on(async {
        let waits = NewOperation { not_before: at(60), deadline: Timestamp::NEVER, tenant: None, ..new(2) };
        store.insert(vec![new(1), waits]).await.unwrap();
        store.claim(vec![claim(1, 1, 5)]).await.unwrap();
        store.record(record(1, T::Throttle, 6)).await.unwrap();
        store.claim(vec![claim(1, 2, 70)]).await.unwrap();
    });
    let operations =
        ask(&place, "SELECT id, mailbox, lane, tenant, state, not_before, deadline, changed_at FROM operations");
    let expected = [
        "operation-1|noreply@contoso.example|background|acme|attempting|2023-11-14T22:13:20.000Z|2023-11-14T22:28:20.000Z|2023-11-14T22:14:30.000Z",
        "operation-2|noreply@contoso.example|background||admitted|2023-11-14T22:14:20.000Z||2023-11-14T22:13:20.000Z",
    ];
    assert_eq!(operations, expected);
    let attempts =
        ask(&place, "SELECT id, number, mailbox, claimed_at, finished_at, ended FROM attempts ORDER BY number");
    let expected = [
        "operation-1|1|noreply@contoso.example|2023-11-14T22:13:25.000Z|2023-11-14T22:13:26.000Z|throttle",
        "operation-1|2|noreply@contoso.example|2023-11-14T22:14:30.000Z||",
    ];
    assert_eq!(attempts, expected);
    let mailboxes =
        ask(&place, "SELECT mailbox, admitted, queued, attempting, deferred, last_attempt_at FROM mailboxes");
    assert_eq!(mailboxes, ["noreply@contoso.example|1|0|1|0|2023-11-14T22:14:30.000Z"]);
    drop(store);
}

#[test]
fn views_show_no_address_of_a_recipient_and_no_byte_of_an_email() {
    let place = Place::filled(3);
    for view in ["operations", "attempts", "mailboxes"] {
        let all = ask(&place, &format!("SELECT * FROM {view}")).join("\n");
        assert!(!all.contains("fabrikam") && !all.contains("Subject") && !all.contains("blob"), "{view}: {all}");
    }
}

#[test]
fn an_email_is_stored_once_and_goes_with_the_end() {
    let place = Place::new();
    let store = place.open();
    block_on(async {
        store.insert(vec![sized(1, 50_000), sized(2, 50_000)]).await.unwrap();
        for attempt in 1..=3 {
            store.claim(vec![claim(1, attempt, 10 * u64::from(attempt))]).await.unwrap();
            store.record(record(1, T::Throttle, 10 * u64::from(attempt) + 1)).await.unwrap();
        }
        assert_eq!(number(&place, "SELECT count(*) FROM payload WHERE key = 1"), 1);
        store.claim(vec![claim(1, 4, 90)]).await.unwrap();
        store.record(record(1, T::Accept, 91)).await.unwrap();
        assert_eq!(ask(&place, "SELECT key FROM payload"), ["2"]);
        assert_eq!(found(&store, 1).await.unwrap().state, OperationState::Accepted);
    });
}

async fn cancelled(store: &SqliteStore, key: u64, second: u64) {
    store.insert(vec![NewOperation { submitted_at: at(second), not_before: at(0), ..new(key) }]).await.unwrap();
    store.record(record(key, T::Cancel, second)).await.unwrap();
}

#[test]
fn kept_emails_end_with_their_time() {
    let place = Place::new();
    let keep = PayloadRetention::Keep { span: Duration::from_secs(60), count_max: 100 };
    let store = place.open_with(SqliteOptions::new().payloads(keep));
    block_on(async {
        cancelled(&store, 1, 100).await;
        assert_eq!(store.email(OperationKey(1)).await, Ok(None), "kept for people, not for sending");
        cancelled(&store, 2, 160).await;
        assert_eq!(ask(&place, "SELECT key FROM payload"), ["1", "2"], "60 s: not longer than its time");
        cancelled(&store, 3, 161).await;
        assert_eq!(ask(&place, "SELECT key FROM payload"), ["2", "3"], "61 s");
        assert!(found(&store, 1).await.is_some(), "the operation is known all the same");
    });
}

#[test]
fn kept_emails_are_bounded_in_number() {
    let place = Place::new();
    let keep = PayloadRetention::Keep { span: Duration::from_secs(60), count_max: 2 };
    let options = SqliteOptions::new().payloads(keep);
    block_on(async {
        let store = place.open_with(options.clone());
        cancelled(&store, 1, 100).await;
        cancelled(&store, 2, 101).await;
        assert_eq!(ask(&place, "SELECT key FROM payload"), ["1", "2"]);
        store.close().await.unwrap();
        let store = place.open_with(options);
        cancelled(&store, 3, 102).await;
        assert_eq!(ask(&place, "SELECT key FROM payload"), ["2", "3"], "counted across a restart");
    });
}

#[test]
fn what_has_ended_is_forgotten_after_its_time_and_its_id_is_free_again() {
    let place = Place::new();
    let store = place.open_with(SqliteOptions::new().ended_for(Duration::from_secs(60)));
    block_on(async {
        cancelled(&store, 1, 100).await;
        store.insert(vec![NewOperation { submitted_at: at(160), ..new(2) }]).await.unwrap();
        assert!(found(&store, 1).await.is_some(), "60 s");
        store.insert(vec![NewOperation { submitted_at: at(161), ..new(3) }]).await.unwrap();
        assert_eq!(found(&store, 1).await, None, "61 s");
        assert_eq!(store.counts().await.unwrap().iter().sum::<u64>(), 2);
        let again = NewOperation { key: OperationKey(4), submitted_at: at(162), ..new(1) };
        assert_eq!(store.insert(vec![again]).await, Ok(vec![mailweir::store::Inserted::New]));
    });
}

#[test]
fn attempts_outlive_their_operation_as_long_as_they_can_count() {
    let place = Place::new();
    let short = Duration::from_secs(10);
    let store = place.open_with(SqliteOptions::new().ended_for(short).attempts_for(Duration::from_secs(100)));
    block_on(async {
        store.insert(vec![new(1), new(2)]).await.unwrap();
        store.claim(vec![claim(1, 1, 50)]).await.unwrap();
        store.record(record(1, T::Accept, 51)).await.unwrap();
        let attempts = async |second| {
            store.insert(vec![NewOperation { submitted_at: at(second), ..new(1_000 + second) }]).await.unwrap();
            store.recover(at(0), None).await.unwrap().attempts
        };
        let left = attempts(150).await;
        assert_eq!(found(&store, 1).await, None, "the operation is forgotten");
        assert_eq!((left.len(), left[0].claimed_at, left[0].finished_at), (1, at(50), Some(at(51))), "100 s");
        assert_eq!(left[0].mailbox, new(1).mailbox);
        assert_eq!(attempts(151).await, [], "101 s");
    });
}

#[test]
fn the_file_says_whose_it_is_and_keeps_its_log_beside() {
    let place = Place::filled(1);
    assert_eq!(number(&place, "PRAGMA application_id"), 0x6d77_6f62);
    assert_eq!(number(&place, "PRAGMA user_version"), 11);
    assert_eq!(ask(&place, "PRAGMA journal_mode"), ["wal"]);
    assert_eq!(ask(&place, "PRAGMA foreign_key_check"), Vec::<String>::new());
}

#[test]
fn the_questions_on_the_operators_page_are_sound_and_walk_no_operations() {
    let place = Place::filled(1);
    let page = include_str!("../../docs/sqlite.md");
    let asked = page.split("sqlite3 -readonly mailweir.db \"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let asked: Vec<&str> = asked.collect();
    assert_eq!(asked.len(), 3);
    for sql in asked {
        let plan = ask(&place, &format!("EXPLAIN QUERY PLAN {sql}")).join("\n");
        assert!(!plan.contains("SCAN o") && !plan.contains("SCAN a"), "{sql}:\n{plan}");
    }
}

#[test]
fn the_operators_page_names_every_column_of_every_view() {
    let place = Place::filled(1);
    let page = include_str!("../../docs/sqlite.md");
    let views = ask(&place, "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name");
    assert_eq!(views, ["attempts", "cooldowns", "ended_orders", "holds", "mailboxes", "operations", "permits"]);
    for view in views {
        let part = page.split("\n## ").find(|part| part.starts_with(&format!("{view}\n")));
        let part = part.unwrap_or_else(|| panic!("no part about {view}"));
        for column in ask(&place, &format!("SELECT name FROM pragma_table_info('{view}')")) {
            assert!(part.contains(&format!("`{column}`")), "{view}.{column}");
        }
    }
}
