//! Questions: one operation, or many of them.
//!
//! A query never walks what it does not answer with. Each index ends in state, lane and key, so one state and one lane
//! of a mailbox are one run in order of key, oldest first; a query that leaves state or lane open takes the first rows
//! of each such run and merges them. A tenant has such runs of its own, and others within each of its mailboxes. So has a
//! campaign; of a campaign's runs, what is of another mailbox or tenant than the query's is passed over.
//!
//! What is eligible is found in the same runs, past those that cannot go yet. That is a short way for queued and
//! deferred ones: they have had an attempt that failed a moment ago. Admitted ones may be a campaign for tomorrow, so
//! they have an index by their instant; those whose instant has come are few, because their mailbox queues them then.

use rusqlite::Connection;

use super::fault::Fault;
use super::names::{self, Names};
use super::row;
use crate::email::Email;
use crate::engine::{Lane, OperationKey, OperationState};
use crate::store::{OperationQuery, OperationRecord};

/// Which index a query goes by.
enum Way {
    /// No further condition.
    State,
    /// Of this mailbox.
    Mailbox(i64),
    /// Of this tenant.
    Tenant(i64),
    /// Of both.
    Both { mailbox: i64, tenant: i64 },
    /// Of the query's campaign and, where it names them, of this mailbox and this tenant.
    Campaign { mailbox: Option<i64>, tenant: Option<i64> },
}

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
    let Some(way) = way(connection, query)? else { return Ok(Vec::new()) };
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let mut keys = keys(connection, query, &way, limit)?;
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

/// The index to go by; `None` when nothing can match because a name was never stored.
fn way(connection: &Connection, query: &OperationQuery) -> Result<Option<Way>, Fault> {
    let mailbox = match &query.mailbox {
        None => None,
        Some(mailbox) => match names::find(connection, mailbox)? {
            None => return Ok(None),
            found => found,
        },
    };
    let tenant = match &query.tenant {
        None => None,
        Some(tenant) => match names::find(connection, tenant)? {
            None => return Ok(None),
            found => found,
        },
    };
    Ok(Some(match (mailbox, tenant) {
        (mailbox, tenant) if query.campaign.is_some() => Way::Campaign { mailbox, tenant },
        (None, None) => Way::State,
        (Some(mailbox), None) => Way::Mailbox(mailbox),
        (None, Some(tenant)) => Way::Tenant(tenant),
        (Some(mailbox), Some(tenant)) => Way::Both { mailbox, tenant },
    }))
}

/// The first keys of one run: `?1` state, `?2` lane, `?3` limit, `?4` mailbox, `?5` tenant, `?6` eligible at, `?7`
/// campaign.
fn run(way: &Way, state: OperationState, query: &OperationQuery) -> String {
    let (index, condition) = match way {
        Way::State => ("operation_by_state", "?4 IS NULL AND ?5 IS NULL AND ?7 IS NULL"),
        Way::Mailbox(_) => ("operation_by_mailbox", "mailbox = ?4 AND ?5 IS NULL AND ?7 IS NULL"),
        Way::Tenant(_) => ("operation_by_tenant_state", "?4 IS NULL AND tenant = ?5 AND ?7 IS NULL"),
        Way::Both { .. } => ("operation_by_tenant", "mailbox = ?4 AND tenant = ?5 AND ?7 IS NULL"),
        Way::Campaign { .. } => {
            ("operation_by_campaign", "campaign = ?7 AND (?4 IS NULL OR mailbox = ?4) AND (?5 IS NULL OR tenant = ?5)")
        }
    };
    let (index, eligible) = match (query.eligible_at, state) {
        (None, _) => (index, "state = ?1 AND ?6 IS NULL"),
        // Said in numbers, as the index says it.
        (Some(_), OperationState::Admitted) => ("operation_admitted", "state = 0 AND ?1 = 0 AND not_before <= ?6"),
        (Some(_), _) => (index, "state = ?1 AND not_before <= ?6 AND coalesce(next_at, 0) <= ?6"),
    };
    format!(
        "SELECT key FROM operation INDEXED BY {index} WHERE {condition} AND lane = ?2 AND {eligible}
         ORDER BY key LIMIT ?3"
    )
}

/// The first keys of every run that the query goes by.
fn keys(connection: &Connection, query: &OperationQuery, way: &Way, limit: i64) -> Result<Vec<i64>, Fault> {
    let any = if query.eligible_at.is_some() { &OperationQuery::ELIGIBLE[..] } else { &OperationState::ALL[..] };
    let states = any.iter().filter(|state| query.state.is_none_or(|wanted| wanted == **state));
    let lanes = query.lane.as_ref().map_or(&Lane::ALL[..], std::slice::from_ref);
    let (mailbox, tenant) = match *way {
        Way::State => (None, None),
        Way::Mailbox(mailbox) => (Some(mailbox), None),
        Way::Tenant(tenant) => (None, Some(tenant)),
        Way::Both { mailbox, tenant } => (Some(mailbox), Some(tenant)),
        Way::Campaign { mailbox, tenant } => (mailbox, tenant),
    };
    let campaign = query.campaign.as_deref();
    let eligible_at = query.eligible_at.map(row::stamp);
    let mut keys = Vec::new();
    for state in states {
        let mut statement = connection.prepare(&run(way, *state, query))?;
        for lane in lanes {
            let (state, lane) = (row::state_number(*state), row::lane_number(*lane));
            let run = (state, lane, limit, mailbox, tenant, eligible_at, campaign);
            let rows = statement.query_map(run, |found| found.get::<_, i64>(0))?;
            for key in rows {
                keys.push(key?);
            }
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Timestamp;
    use crate::store::sqlite::schema;

    #[test]
    fn every_run_goes_by_an_index_and_none_scans_the_table() {
        let connection = Connection::open_in_memory().expect("memory");
        schema::migrate(&connection, 0).expect("an empty file takes the schema");
        let eligible = OperationQuery { eligible_at: Some(Timestamp::EPOCH), ..OperationQuery::default() };
        let campaign = Way::Campaign { mailbox: Some(1), tenant: None };
        for way in [Way::State, Way::Mailbox(1), Way::Tenant(1), Way::Both { mailbox: 1, tenant: 1 }, campaign] {
            for query in [&OperationQuery::default(), &eligible] {
                for state in OperationQuery::ELIGIBLE {
                    let sql = format!("EXPLAIN QUERY PLAN {}", run(&way, state, query));
                    let mut statement = connection.prepare(&sql).expect("sound");
                    let stamp = query.eligible_at.map(row::stamp);
                    let plan: Vec<String> = statement
                        .query_map((0, 0, 1, 1, 1, stamp, "spring"), |step| step.get(3))
                        .expect("a plan")
                        .collect::<Result<_, _>>()
                        .expect("text");
                    let plan = plan.join("; ");
                    assert!(plan.starts_with("SEARCH operation USING"), "{plan}: {sql}");
                    let by_instant = plan.contains("(lane=? AND not_before<?)");
                    assert_eq!(by_instant, query.eligible_at.is_some() && state == OperationState::Admitted, "{plan}");
                    assert!(by_instant || plan.contains("state=? AND lane=?)"), "{plan}: {sql}");
                    assert!(by_instant || !plan.contains("TEMP B-TREE"), "in order of key already: {plan}");
                }
            }
        }
    }
}
