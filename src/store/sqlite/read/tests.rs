//! Which way each question goes, and how far.

use super::*;
use crate::store::sqlite::schema;

/// Every combination of names, with an instant and without.
fn every_named() -> impl Iterator<Item = Named<'static>> {
    (0..16).map(|bits: u32| {
        let has = |bit: u32| bits >> bit & 1 == 1;
        let (mailbox, tenant) = (has(0).then_some(1), has(1).then_some(1));
        Named { mailbox, tenant, campaign: has(2).then_some("spring"), eligible_at: has(3).then_some(1) }
    })
}

/// Whether a query looks into the table beside its index: a look-up that is put off until a column is wanted, and none
/// is, does not happen.
fn reads_rows(connection: &Connection, sql: &str) -> bool {
    let mut statement = connection.prepare(&format!("EXPLAIN {sql}")).expect("sound");
    let step = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(1)?, row.get::<_, i64>(2)?));
    let steps = statement.raw_query().mapped(step);
    let steps: Vec<_> = steps.collect::<Result<_, _>>().expect("text");
    // The table is cursor 0, where it is opened.
    steps.iter().any(|(what, cursor)| *cursor == 0 && what == "Column")
}

#[test]
fn every_way_goes_by_its_index_and_none_scans_or_sorts_the_table() {
    let connection = Connection::open_in_memory().expect("memory");
    schema::migrate(&connection, 0).expect("an empty file takes the schema");
    for (named, state) in every_named().flat_map(|named| OperationState::ALL.map(|state| (named, state))) {
        let ways = ways(&named, state);
        assert!(!ways.is_empty(), "{named:?} {state}");
        for (way, sql) in ways.iter().flat_map(|way| way.asks().into_iter().map(move |sql| (way, sql))) {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("sound");
            let asked: [&dyn ToSql; 7] =
                [&0, &0, &named.mailbox, &named.tenant, &named.eligible_at, &named.campaign, &0];
            let asked = &asked[..if way.instant.is_some() { 7 } else { 6 }];
            let plan = statement.query_map(asked, |step| step.get(3)).expect("a plan");
            let plan = plan.collect::<Result<Vec<String>, _>>().expect("text").join("; ");
            if sql.ends_with("WHERE key = ?7") {
                assert_eq!(plan, "SEARCH operation USING INTEGER PRIMARY KEY (rowid=?)", "{sql}");
                continue;
            }
            let (found, covered) = ("SEARCH operation USING INDEX", "SEARCH operation USING COVERING INDEX");
            let found = [found, covered].iter().any(|found| plan.starts_with(&format!("{found} {} (", way.index)));
            assert!(found && !plan.contains("TEMP B-TREE"), "{plan}: {sql}");
            // What is asked of a block stands in the index; rows are read of a run, and of what may go.
            assert_eq!(reads_rows(&connection, &sql), way.instant.is_none(), "{sql}");
            let ends = match (way.instant, sql.contains("LIMIT 1")) {
                (None, _) => "state=? AND lane=?)",
                (Some(_), true) => "lane=? AND <expr>>?)",
                (Some("not_before"), false) => "lane=? AND <expr>=? AND not_before<?)",
                (Some(_), false) => "lane=? AND <expr>=? AND <expr><?)",
            };
            assert!(plan.ends_with(ends), "{plan}: {sql}");
        }
    }
}

#[test]
fn the_other_questions_go_by_an_index_too() {
    let connection = Connection::open_in_memory().expect("memory");
    schema::migrate(&connection, 0).expect("an empty file takes the schema");
    for sql in [
        "SELECT state FROM operation WHERE id = 'x'",
        "SELECT state FROM operation WHERE key = 1",
        "SELECT state, operations FROM tally WHERE mailbox = 0",
        "SELECT nr FROM name WHERE text = 'x'",
        "SELECT mime FROM payload p JOIN operation o ON o.key = p.key WHERE p.key = 1 AND o.state NOT BETWEEN 5 AND 8",
    ] {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("sound");
        let plan = statement.query_map([], |step| step.get(3)).expect("a plan");
        let plan = plan.collect::<Result<Vec<String>, _>>().expect("text");
        assert!(plan.iter().all(|step| step.starts_with("SEARCH ")), "{plan:?}: {sql}");
    }
}

#[test]
fn what_may_go_is_found_among_any_that_may_not_and_a_walk_ends_with_the_shorter_way() {
    let connection = Connection::open_in_memory().expect("memory");
    schema::migrate(&connection, 0).expect("an empty file takes the schema");
    // 20,000 deferred: the older half to second 100, the younger to 40; and five of another mailbox.
    let rows = "INSERT INTO name (nr, text) VALUES (1, 'a'), (2, 'b');
        WITH RECURSIVE n (key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n WHERE key < 20005)
        INSERT INTO operation (key, id, fingerprint, mailbox, campaign, lane, requests, recipients,
        external_recipients, quota_units, bytes, state, submitted_at, not_before, deadline, changed_at, next_at)
        SELECT key, key, 1, 1 + (key > 20000), 'spring', 0, 1, 1, 0, 0, 1, 3, 0, 0, 9, 0,
        iif(key BETWEEN 10001 AND 20000, 40, 100) FROM n";
    connection.execute_batch(rows).expect("rows");
    let nobody = Named { mailbox: None, tenant: None, campaign: None, eligible_at: None };
    let few = Named { mailbox: Some(2), campaign: Some("spring"), ..nobody };
    let (first, young): (Vec<i64>, Vec<i64>) = ((1..=10).collect(), (10_001..=10_010).collect());
    for (named, keys, most) in [
        // Two blocks that are leapt over, and what may go of the third.
        (Named { eligible_at: Some(50), ..nobody }, young.clone(), 3 + 4_096 + 10),
        (Named { eligible_at: Some(30), ..nobody }, Vec::new(), 6),
        (Named { eligible_at: Some(200), ..nobody }, first.clone(), 1 + 4_096 + 10),
        (Named { eligible_at: Some(50), mailbox: Some(1), ..nobody }, young.clone(), 3 + 4_096 + 10),
        (Named { eligible_at: Some(50), campaign: Some("spring"), ..nobody }, young, 3 + 4_096 + 10),
        (Named { eligible_at: Some(50), ..few }, Vec::new(), 2),
        (few, (20_001..=20_005).collect(), STRIDE + 5),
        (Named { campaign: Some("spring"), ..nobody }, first, 10),
    ] {
        let (state, lane) = (Some(OperationState::Deferred), Some(Lane::Foreground));
        let eligible_at = named.eligible_at.map(row::instant);
        let query = OperationQuery { state, lane, eligible_at, limit: 10, ..OperationQuery::default() };
        let walked = walk(&connection, &query, &named).expect("sound");
        assert_eq!(walked.keys, keys, "{named:?}");
        assert!(walked.looked_at <= most, "{named:?}: {walked:?}");
    }
}
