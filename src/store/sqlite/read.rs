//! Questions: one operation, or many of them.
//!
//! Each index ends in state, lane and key, so one state and one lane of a mailbox are one run in order of key, oldest
//! first; a query that leaves state or lane open takes the first rows of each such run and merges them. A tenant has
//! such runs of its own, and others within each of its mailboxes. So has a campaign.
//!
//! Where no one run holds what is asked for and nothing else, several ways lead there: what is of a campaign and of a
//! mailbox stands in the runs of both; what is deferred and eligible stands in its run by key, among those that cannot
//! go yet, and in another by instant. They are walked side by side, a row of each in turn, until one has the answer. So
//! a query passes over no more rows than the shortest way has, and twice that altogether: a mailbox whose deferred
//! operations all wait for an hour is told by the first instant, a backlog whose instant has come by its first rows.
//! Long is only what is long both ways: many old ones that cannot go yet, and many younger ones that could.
//!
//! Queued ones that cannot go yet are passed over. They are few: their attempt failed before its first byte a moment ago.

use rusqlite::{Connection, Rows, Statement, ToSql};

use super::fault::Fault;
use super::names::{self, Names};
use super::row;
use crate::email::Email;
use crate::engine::{Lane, OperationKey, OperationState};
use crate::store::{OperationQuery, OperationRecord};

/// The names of a query as the file numbers them, and its instant.
#[derive(Clone, Copy, Debug)]
struct Named<'q> {
    mailbox: Option<i64>,
    tenant: Option<i64>,
    campaign: Option<&'q str>,
    eligible_at: Option<i64>,
}

/// In which order a way tells its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The first that are wanted are the answer.
    Key,
    /// All that are wanted have to be seen first.
    Instant,
}

/// One way to the rows of a state and a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    index: &'static str,
    /// What the index finds; `?1` state, `?2` lane, `?3` mailbox, `?4` tenant, `?5` eligible at, `?6` campaign.
    finds: &'static str,
    order: Order,
}

const fn by_key(index: &'static str, finds: &'static str) -> Way {
    Way { index, finds, order: Order::Key }
}

const fn by_instant(index: &'static str, finds: &'static str) -> Way {
    Way { index, finds, order: Order::Instant }
}

const OF_ALL: Way = by_key("operation_by_state", "state = ?1 AND lane = ?2");
const OF_MAILBOX: Way = by_key("operation_by_mailbox", "mailbox = ?3 AND state = ?1 AND lane = ?2");
const OF_TENANT: Way = by_key("operation_by_tenant_state", "tenant = ?4 AND state = ?1 AND lane = ?2");
const OF_BOTH: Way = by_key("operation_by_tenant", "tenant = ?4 AND mailbox = ?3 AND state = ?1 AND lane = ?2");
const OF_CAMPAIGN: Way = by_key("operation_by_campaign", "campaign = ?6 AND state = ?1 AND lane = ?2");

// States in numbers, as these indexes say them.
const ADMITTED: Way = by_instant("operation_admitted", "state = 0 AND ?1 = 0 AND lane = ?2 AND not_before <= ?5");
const DEFERRED: Way =
    by_instant("operation_deferred", "state = 3 AND ?1 = 3 AND lane = ?2 AND coalesce(next_at, 0) <= ?5");
const DEFERRED_OF_MAILBOX: Way = by_instant(
    "operation_deferred_by_mailbox",
    "mailbox = ?3 AND state = 3 AND ?1 = 3 AND lane = ?2 AND coalesce(next_at, 0) <= ?5",
);
const DEFERRED_OF_TENANT: Way = by_instant(
    "operation_deferred_by_tenant",
    "tenant = ?4 AND state = 3 AND ?1 = 3 AND lane = ?2 AND coalesce(next_at, 0) <= ?5",
);
const DEFERRED_OF_CAMPAIGN: Way = by_instant(
    "operation_deferred_by_campaign",
    "campaign = ?6 AND state = 3 AND ?1 = 3 AND lane = ?2 AND coalesce(next_at, 0) <= ?5",
);

/// One operation by its id.
pub(super) fn operation(connection: &Connection, id: &str) -> Result<Option<OperationRecord>, Fault> {
    let mut statement = connection.prepare(&format!("SELECT {} FROM operation WHERE id = ?1", row::OPERATION))?;
    let mut rows = statement.query([id])?;
    let mut names = Names::default();
    rows.next()?.map(|found| row::operation(found, connection, &mut names)).transpose()
}

/// The email of one operation, while it is there and not over.
pub(super) fn email(connection: &Connection, key: OperationKey) -> Result<Option<Email>, Fault> {
    let mut statement = connection.prepare(
        "SELECT p.sender, p.recipients, p.mime FROM payload p JOIN operation o ON o.key = p.key
         WHERE p.key = ?1 AND o.state NOT BETWEEN 5 AND 8",
    )?;
    let mut rows = statement.query([row::number(key.0)])?;
    rows.next()?.map(row::email).transpose()
}

/// Operations that `query` wants, oldest first, all as of one instant.
pub(super) fn operations(connection: &Connection, query: &OperationQuery) -> Result<Vec<OperationRecord>, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let Some(named) = named(connection, query)?.filter(|_| query.limit > 0) else { return Ok(Vec::new()) };
    let Walked { mut keys, .. } = walk(connection, query, &named)?;
    keys.sort_unstable();
    keys.truncate(query.limit);
    let mut statement = connection.prepare(&format!("SELECT {} FROM operation WHERE key = ?1", row::OPERATION))?;
    let mut names = Names::default();
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let mut rows = statement.query([key])?;
        if let Some(operation) = rows.next()? {
            found.push(row::operation(operation, connection, &mut names)?);
        }
    }
    drop(statement);
    transaction.finish()?;
    Ok(found)
}

/// `None` when nothing can match because a name was never stored.
fn named<'q>(connection: &Connection, query: &'q OperationQuery) -> Result<Option<Named<'q>>, Fault> {
    let (mut mailbox, mut tenant) = (None, None);
    for (name, number) in [(&query.mailbox, &mut mailbox), (&query.tenant, &mut tenant)] {
        if let Some(name) = name {
            *number = names::find(connection, name)?;
            if number.is_none() {
                return Ok(None);
            }
        }
    }
    let (campaign, eligible_at) = (query.campaign.as_deref(), query.eligible_at.map(row::stamp));
    Ok(Some(Named { mailbox, tenant, campaign, eligible_at }))
}

/// Every way to what is in a state; the first is in order of key.
fn ways(named: &Named<'_>, state: OperationState) -> Vec<Way> {
    let (mailbox, tenant, campaign) = (named.mailbox.is_some(), named.tenant.is_some(), named.campaign.is_some());
    let of_place = match (mailbox, tenant) {
        (false, false) => OF_ALL,
        (true, false) => OF_MAILBOX,
        (false, true) => OF_TENANT,
        (true, true) => OF_BOTH,
    };
    let mut ways = Vec::with_capacity(3);
    ways.extend(campaign.then_some(OF_CAMPAIGN));
    ways.extend((!campaign || mailbox || tenant).then_some(of_place));
    if named.eligible_at.is_none() {
        return ways;
    }
    match state {
        OperationState::Admitted => ways.push(ADMITTED),
        OperationState::Deferred if mailbox => ways.push(DEFERRED_OF_MAILBOX),
        OperationState::Deferred if campaign => ways.push(DEFERRED_OF_CAMPAIGN),
        OperationState::Deferred if tenant => ways.push(DEFERRED_OF_TENANT),
        OperationState::Deferred => ways.push(DEFERRED),
        _ => {}
    }
    ways
}

impl Way {
    /// Its rows, and which of them are wanted. What the index has said is not looked up again.
    fn sql(&self) -> String {
        let Self { index, finds, order } = self;
        let order = match order {
            Order::Key => "ORDER BY key",
            Order::Instant => "",
        };
        format!(
            "SELECT key, ((?3 IS NULL OR mailbox = ?3) AND (?4 IS NULL OR tenant = ?4)
             AND (?5 IS NULL OR (not_before <= ?5 AND coalesce(next_at, 0) <= ?5))
             AND (?6 IS NULL OR campaign = ?6)) IS TRUE
             FROM operation INDEXED BY {index} WHERE {finds} {order}"
        )
    }
}

/// Keys, and how many rows were looked at for them.
#[derive(Debug, Default)]
struct Walked {
    keys: Vec<i64>,
    looked_at: usize,
}

/// The first keys of every state and lane that the query goes by.
fn walk(connection: &Connection, query: &OperationQuery, named: &Named<'_>) -> Result<Walked, Fault> {
    let any = if query.eligible_at.is_some() { &OperationQuery::ELIGIBLE[..] } else { &OperationState::ALL[..] };
    let states = any.iter().filter(|state| query.state.is_none_or(|wanted| wanted == **state));
    let lanes = query.lane.as_ref().map_or(&Lane::ALL[..], std::slice::from_ref);
    let mut walked = Walked::default();
    for state in states {
        let ways = ways(named, *state);
        let statements = ways.iter().map(|way| connection.prepare(&way.sql()));
        let mut statements = statements.collect::<Result<Vec<Statement<'_>>, _>>()?;
        for lane in lanes {
            let (state, lane) = (row::state_number(*state), row::lane_number(*lane));
            let asked: [&dyn ToSql; 6] =
                [&state, &lane, &named.mailbox, &named.tenant, &named.eligible_at, &named.campaign];
            let rows = statements.iter_mut().map(|statement| statement.query(&asked[..]));
            let rows = rows.collect::<Result<Vec<Rows<'_>>, _>>()?;
            side_by_side(&ways, rows, query.limit, &mut walked)?;
        }
    }
    Ok(walked)
}

/// A row of each way in turn, until one has told its first `limit` keys.
fn side_by_side(ways: &[Way], mut rows: Vec<Rows<'_>>, limit: usize, walked: &mut Walked) -> Result<(), Fault> {
    let mut found = vec![Vec::new(); ways.len()];
    loop {
        for ((way, rows), found) in ways.iter().zip(&mut rows).zip(&mut found) {
            let next = rows.next()?;
            if let Some(next) = next {
                walked.looked_at += 1;
                if next.get(1)? {
                    found.push(next.get::<_, i64>(0)?);
                }
            }
            if next.is_none() || way.order == Order::Key && found.len() == limit {
                found.sort_unstable();
                walked.keys.extend(found.iter().take(limit));
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn every_way_goes_by_its_index_and_none_scans_or_sorts_the_table() {
        let connection = Connection::open_in_memory().expect("memory");
        schema::migrate(&connection, 0).expect("an empty file takes the schema");
        for (named, state) in every_named().flat_map(|named| OperationState::ALL.map(|state| (named, state))) {
            let ways = ways(&named, state);
            assert!(!ways.is_empty() && ways[0].order == Order::Key, "{ways:?}");
            for way in ways {
                let sql = format!("EXPLAIN QUERY PLAN {}", way.sql());
                let mut statement = connection.prepare(&sql).expect("sound");
                let asked = (0, 0, named.mailbox, named.tenant, named.eligible_at, named.campaign);
                let plan = statement.query_map(asked, |step| step.get(3)).expect("a plan");
                let plan = plan.collect::<Result<Vec<String>, _>>().expect("text").join("; ");
                let way_in = match way.order {
                    Order::Key => "state=? AND lane=?)",
                    Order::Instant => "lane=? AND ",
                };
                let found = format!("SEARCH operation USING INDEX {} (", way.index);
                let found = plan.starts_with(&found) || plan.starts_with(&found.replace("USING", "USING COVERING"));
                assert!(found && plan.contains(way_in), "{plan}: {sql}");
                assert_eq!(way.order == Order::Instant, plan.contains("<?)"), "by the instant itself: {plan}");
                assert!(!plan.contains("TEMP B-TREE"), "in order already: {plan}");
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
    fn a_walk_ends_with_the_shorter_way() {
        let connection = Connection::open_in_memory().expect("memory");
        schema::migrate(&connection, 0).expect("an empty file takes the schema");
        // 20,000 deferred to second 100, the last three of them to 40; and five of another mailbox.
        let rows = "INSERT INTO name (nr, text) VALUES (1, 'a'), (2, 'b');
            WITH RECURSIVE n (key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n WHERE key < 20005)
            INSERT INTO operation (key, id, fingerprint, mailbox, campaign, lane, requests, recipients,
            external_recipients, quota_units, bytes, state, submitted_at, not_before, deadline, changed_at, next_at)
            SELECT key, key, 1, 1 + (key > 20000), 'spring', 0, 1, 1, 0, 0, 1, 3, 0, 0, 9, 0,
            iif(key BETWEEN 19998 AND 20000, 40, 100) FROM n";
        connection.execute_batch(rows).expect("rows");
        let nobody = Named { mailbox: None, tenant: None, campaign: None, eligible_at: None };
        let few = Named { mailbox: Some(2), campaign: Some("spring"), ..nobody };
        let first: Vec<i64> = (1..=10).collect();
        for (named, keys, most) in [
            (Named { eligible_at: Some(50), ..nobody }, (19_998..=20_000).collect(), 8),
            (Named { eligible_at: Some(200), ..nobody }, first.clone(), 20),
            (Named { eligible_at: Some(50), mailbox: Some(1), ..nobody }, (19_998..=20_000).collect(), 8),
            (Named { eligible_at: Some(50), campaign: Some("spring"), ..nobody }, (19_998..=20_000).collect(), 8),
            (Named { eligible_at: Some(50), ..few }, Vec::new(), 4),
            (few, (20_001..=20_005).collect(), 12),
            (Named { campaign: Some("spring"), ..nobody }, first, 10),
        ] {
            let (state, lane) = (Some(OperationState::Deferred), Some(Lane::Foreground));
            let query = OperationQuery { state, lane, limit: 10, ..OperationQuery::default() };
            let walked = walk(&connection, &query, &named).expect("sound");
            assert_eq!(walked.keys, keys);
            assert!(walked.looked_at <= most, "{walked:?}");
        }
    }
}
