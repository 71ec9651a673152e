//! Questions: one operation, or many of them.
//!
//! Each index ends in state, lane and key, so one state and one lane of a mailbox are one run in order of key, oldest
//! first; a query that leaves state or lane open takes the first rows of each such run and merges them. A tenant has
//! such runs of its own, and others within each of its mailboxes. So has a campaign. What is of a campaign and of a
//! mailbox stands in the runs of both: they are walked side by side until one has the answer, so no more is passed over
//! than the shorter one has.
//!
//! What waits for an instant, admitted or deferred, stands in blocks of 4,096 keys too, by instant within each. Who looks
//! for what may go leaps over a block by its first instant, and reads of the others in the index whose instant has come,
//! then the rows of the oldest of these, until it has enough. A million that wait are two hundred and fifty leaps, wherever
//! the few that may go stand among them.
//!
//! Queued ones that cannot go yet are passed over. They are few: their attempt failed before its first byte a moment ago.

use rusqlite::{Connection, Rows, Statement, ToSql};

use super::fault::Fault;
use super::names::{self, Names};
use super::row;
use crate::email::Email;
use crate::engine::{Lane, OperationKey, OperationState};
use crate::store::{OperationQuery, OperationRecord};

/// Rows of a run, and blocks, that are looked at before another way has its turn.
const STRIDE: usize = 64;

/// The names of a query as the file numbers them, and its instant.
#[derive(Clone, Copy, Debug)]
struct Named<'q> {
    mailbox: Option<i64>,
    tenant: Option<i64>,
    campaign: Option<&'q str>,
    eligible_at: Option<i64>,
}

/// One way to the rows of a state and a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    index: &'static str,
    /// What the index finds; `?1` state, `?2` lane, `?3` mailbox, `?4` tenant, `?5` eligible at, `?6` campaign.
    finds: &'static str,
    /// In blocks by this instant; `None`: in order of key.
    instant: Option<&'static str>,
}

const fn by_key(index: &'static str, finds: &'static str) -> Way {
    Way { index, finds, instant: None }
}

const OF_ALL: Way = by_key("operation_by_state", "state = ?1 AND lane = ?2");
const OF_MAILBOX: Way = by_key("operation_by_mailbox", "mailbox = ?3 AND state = ?1 AND lane = ?2");
const OF_TENANT: Way = by_key("operation_by_tenant_state", "tenant = ?4 AND state = ?1 AND lane = ?2");
const OF_BOTH: Way = by_key("operation_by_tenant", "tenant = ?4 AND mailbox = ?3 AND state = ?1 AND lane = ?2");
const OF_CAMPAIGN: Way = by_key("operation_by_campaign", "campaign = ?6 AND state = ?1 AND lane = ?2");

// States in numbers, as these indexes say them.
const ADMITTED: Way =
    Way { index: "operation_admitted", finds: "state = 0 AND ?1 = 0 AND lane = ?2", instant: Some("not_before") };

const fn deferred(index: &'static str, finds: &'static str) -> Way {
    Way { index, finds, instant: Some("coalesce(next_at, 0)") }
}

const DEFERRED: Way = deferred("operation_deferred", "state = 3 AND ?1 = 3 AND lane = ?2");
const DEFERRED_OF_MAILBOX: Way =
    deferred("operation_deferred_by_mailbox", "mailbox = ?3 AND state = 3 AND ?1 = 3 AND lane = ?2");
const DEFERRED_OF_TENANT: Way =
    deferred("operation_deferred_by_tenant", "tenant = ?4 AND state = 3 AND ?1 = 3 AND lane = ?2");
const DEFERRED_OF_CAMPAIGN: Way =
    deferred("operation_deferred_by_campaign", "campaign = ?6 AND state = 3 AND ?1 = 3 AND lane = ?2");

/// One operation by its id.
pub(super) fn operation(connection: &Connection, id: &str) -> Result<Option<OperationRecord>, Fault> {
    let mut statement = connection.prepare(&format!("SELECT {} FROM operation WHERE id = ?1", row::OPERATION))?;
    let mut rows = statement.query([id])?;
    let mut names = Names::default();
    rows.next()?.map(|found| row::operation(found, connection, &mut names)).transpose()
}

/// The email of one operation, while it is there and not over.
pub(super) fn email(connection: &Connection, key: OperationKey) -> Result<Option<Email>, Fault> {
    let mut statement = connection.prepare(&format!(
        "SELECT {} FROM payload p JOIN operation o ON o.key = p.key WHERE p.key = ?1 AND o.state NOT BETWEEN 5 AND 8",
        row::EMAIL
    ))?;
    let mut rows = statement.query([row::number(key.0)])?;
    let found = rows.next().map_err(Fault::from).and_then(|found| found.map(row::email).transpose());
    found.map_err(|fault| row::of_email(key, fault))
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

/// Every way to what is in a state.
fn ways(named: &Named<'_>, state: OperationState) -> Vec<Way> {
    let (mailbox, tenant, campaign) = (named.mailbox.is_some(), named.tenant.is_some(), named.campaign.is_some());
    let is_eligible = named.eligible_at.is_some();
    let mut ways = Vec::with_capacity(3);
    if is_eligible && state == OperationState::Deferred {
        // The narrowest alone: a block of a wide one is read whole, and few of it may be of the narrow one.
        ways.push(match (mailbox, campaign, tenant) {
            (true, _, _) => DEFERRED_OF_MAILBOX,
            (false, true, _) => DEFERRED_OF_CAMPAIGN,
            (false, false, true) => DEFERRED_OF_TENANT,
            (false, false, false) => DEFERRED,
        });
        return ways;
    }
    let of_place = match (mailbox, tenant) {
        (false, false) => OF_ALL,
        (true, false) => OF_MAILBOX,
        (false, true) => OF_TENANT,
        (true, true) => OF_BOTH,
    };
    let is_admitted = is_eligible && state == OperationState::Admitted;
    ways.extend(is_admitted.then_some(ADMITTED));
    ways.extend(campaign.then_some(OF_CAMPAIGN));
    // Who asks for all of the admitted ones has the shortest way already.
    ways.extend((mailbox || tenant || !campaign && !is_admitted).then_some(of_place));
    ways
}

const WANTED: &str = "((?3 IS NULL OR mailbox = ?3) AND (?4 IS NULL OR tenant = ?4)
    AND (?5 IS NULL OR (not_before <= ?5 AND coalesce(next_at, 0) <= ?5))
    AND (?6 IS NULL OR campaign = ?6)) IS TRUE";

impl Way {
    /// What it asks: all its rows and which are wanted; or the next block that is not empty and whether its first instant
    /// has come, whose has come in block `?7`, and whether row `?7` is wanted.
    fn asks(&self) -> Vec<String> {
        let Self { index, finds, instant } = self;
        let from = format!("FROM operation INDEXED BY {index} WHERE {finds}");
        match instant {
            None => vec![format!("SELECT key, {WANTED} {from} ORDER BY key")],
            Some(instant) => vec![
                format!(
                    "SELECT key >> 12, {instant} <= ?5 {from} AND key >> 12 >= ?7 ORDER BY key >> 12, {instant} LIMIT 1"
                ),
                format!("SELECT key {from} AND key >> 12 = ?7 AND {instant} <= ?5"),
                format!("SELECT {WANTED} FROM operation WHERE key = ?7"),
            ],
        }
    }
}

/// Keys, and how many rows and blocks were looked at for them.
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
        let ways: Vec<Vec<String>> = ways(named, *state).iter().map(Way::asks).collect();
        let prepare = |asks: &Vec<String>| asks.iter().map(|sql| connection.prepare(sql)).collect();
        let mut statements = ways.iter().map(prepare).collect::<Result<Vec<Vec<Statement<'_>>>, _>>()?;
        for lane in lanes {
            let (state, lane) = (row::state_number(*state), row::lane_number(*lane));
            let Named { mailbox, tenant, campaign, eligible_at } = named;
            let asked: [&dyn ToSql; 6] = [&state, &lane, mailbox, tenant, eligible_at, campaign];
            let cursors = statements.iter_mut().map(|statements| Cursor::new(statements, &asked));
            let cursors = cursors.collect::<Result<Vec<_>, _>>()?;
            walked.keys.extend(side_by_side(cursors, query.limit, &mut walked.looked_at)?);
        }
    }
    Ok(walked)
}

/// A stretch of each way in turn, until one has told its first `limit` keys.
fn side_by_side(mut cursors: Vec<Cursor<'_, '_>>, limit: usize, looked_at: &mut usize) -> Result<Vec<i64>, Fault> {
    loop {
        for cursor in &mut cursors {
            if cursor.go_on(limit, looked_at)? {
                let mut keys = std::mem::take(&mut cursor.found);
                keys.sort_unstable();
                keys.truncate(limit);
                return Ok(keys);
            }
        }
    }
}

/// How far one way has been walked.
struct Cursor<'s, 'a> {
    course: Course<'s, 'a>,
    found: Vec<i64>,
}

enum Course<'s, 'a> {
    Run(Rows<'s>),
    Blocks { asks: &'s mut [Statement<'a>; 3], asked: [&'s dyn ToSql; 6], block: i64 },
}

impl<'s, 'a> Cursor<'s, 'a> {
    fn new(statements: &'s mut [Statement<'a>], asked: &[&'s dyn ToSql; 6]) -> rusqlite::Result<Self> {
        let course = match statements {
            [run] => Course::Run(run.query(&asked[..])?),
            blocks => {
                let asks = blocks.try_into().map_err(|_| rusqlite::Error::InvalidQuery)?;
                Course::Blocks { asks, asked: *asked, block: 0 }
            }
        };
        Ok(Self { course, found: Vec::new() })
    }

    /// Walks a stretch; whether all of the first `limit` are found.
    fn go_on(&mut self, limit: usize, looked_at: &mut usize) -> Result<bool, Fault> {
        for _ in 0..STRIDE {
            let is_over = match &mut self.course {
                Course::Run(rows) => {
                    let next = rows.next()?;
                    *looked_at += usize::from(next.is_some());
                    if let Some(next) = next
                        && next.get(1)?
                    {
                        self.found.push(next.get(0)?);
                    }
                    next.is_none()
                }
                Course::Blocks { asks, asked, block } => {
                    let before = self.found.len();
                    let over = leap(asks, asked, block, (&mut self.found, limit), looked_at)?;
                    if !over && self.found.len() > before && self.found.len() < limit {
                        // A block that was read is a stretch.
                        return Ok(false);
                    }
                    over
                }
            };
            if is_over || self.found.len() >= limit {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Goes to the next block from `block` on, and reads the first of what may go in it, until `limit` are found; whether
/// there was none.
fn leap(
    [next, due, wanted]: &mut [Statement<'_>; 3],
    [state, lane, mailbox, tenant, eligible_at, campaign]: &[&dyn ToSql; 6],
    block: &mut i64,
    (found, limit): (&mut Vec<i64>, usize),
    looked_at: &mut usize,
) -> Result<bool, Fault> {
    let asks = |place: i64| (*state, *lane, *mailbox, *tenant, *eligible_at, *campaign, place);
    *looked_at += 1;
    let mut first = next.query(asks(*block))?;
    let Some(first) = first.next()? else { return Ok(true) };
    let here: i64 = first.get(0)?;
    *block = here + 1;
    if !first.get(1)? {
        return Ok(false);
    }
    let mut keys = due.query_map(asks(here), |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    *looked_at += keys.len();
    keys.sort_unstable();
    for key in keys {
        if found.len() >= limit {
            break;
        }
        *looked_at += 1;
        if wanted.query_row(asks(key), |row| row.get(0))? {
            found.push(key);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
