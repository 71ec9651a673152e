//! The tables, and how an older file becomes a newer one.
//!
//! Version n of the schema is what the first n migrations make; each runs in one transaction and raises `user_version`
//! with it, so a crash between two leaves a whole older version. A migration that has been released is never edited.
//!
//! Operators read the views. They hold words and RFC 3339 instants, and no address, subject or body:
//!
//! | view | one row per | columns worth knowing |
//! |---|---|---|
//! | `operations` | operation | `id, mailbox, lane, tenant, campaign, state, submitted_at, next_at, deadline, attempts, last_status, maybe_sent, order_reason, ordered_by`; `requested` (cancel or quarantine, when its attempt has ended) |
//! | `attempts` | attempt | `id, number, mailbox, lane, claimed_at, finished_at, ended` (how; empty: not known to have ended) |
//! | `mailboxes` | mailbox | one count per state, `last_attempt_at` |
//! | `holds` | hold, or breaker opened by hand | `what` (hold, trip), `scope, reason, ordered_by, since, until`; `first` (lifted in part: so many go first), `stopped_by` (a throttle) |
//! | `cooldowns` | breaker that remembers something | `scope, phase` (shut, ramp, closed), `reason, until, chain, ceilings` |
//! | `ended_orders` | order that has ended (a hold, a breaker opened by hand), as long as `[orders]` says | `what, reason, ordered_by, since, until, how` (lifted, part, replaced, expired)`, ended_at, end_reason, ended_by, first, stopped_by` |
//! | `permits` | permit | `permit, mailbox, lane, tenant, granted_at, settled_at` (empty: not known to have ended) |
//!
//! ```sql
//! -- What waits, oldest first?
//! SELECT id, mailbox, state, next_at FROM operations WHERE state IN ('queued', 'deferred') ORDER BY key LIMIT 20;
//! -- What may have been sent?
//! SELECT id, mailbox, changed_at FROM operations WHERE state = 'unknown' OR maybe_sent;
//! -- What is stopped, by whom, until when?
//! SELECT what, scope, reason, ordered_by, until FROM holds;
//! ```
//!
//! Read with `sqlite3 -readonly FILE`; a transaction left open there makes the store's log grow.
//!
//! Why like this: payloads apart, so that changing a state does not rewrite an email; names of mailboxes and tenants
//! once, as numbers, so that indexes stay small, and no longer than something bears them; counts beside, written with what they count, so that asking for them
//! scans nothing. Notes are one table: a key, an end, and a body in JSON that only the program above reads. A note that
//! is over is removed by and by, so compare `until` with the clock. The secret under which admission keys are hashed
//! lies beside them; what that protects is said at `KeySecret`. An attempt repeats its mailbox and costs because it outlives its operation's row.

use rusqlite::Connection;

/// Marks the file as an outbox of ours: the letters `mwob`.
pub(super) const APPLICATION_ID: i32 = 0x6d77_6f62;

/// The version that this program reads and writes.
pub(super) const VERSION: i32 = MIGRATIONS.len() as i32;

const MIGRATIONS: [&str; 11] = [V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11];

/// States are numbered in the order of `OperationState::ALL`; lanes likewise. `tally.mailbox` 0 is all of them.
const V1: &str = "
CREATE TABLE name (
    nr INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE operation (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    fingerprint INTEGER NOT NULL,
    mailbox INTEGER NOT NULL REFERENCES name (nr),
    tenant INTEGER REFERENCES name (nr),
    campaign TEXT,
    lane INTEGER NOT NULL CHECK (lane BETWEEN 0 AND 1),
    requests INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    external_recipients INTEGER NOT NULL,
    quota_units INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 9),
    submitted_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    next_at INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    attempt_rows INTEGER NOT NULL DEFAULT 0,
    last_status INTEGER,
    provider_id TEXT
) STRICT;
CREATE INDEX operation_by_state ON operation (state, lane);
CREATE INDEX operation_by_mailbox ON operation (mailbox, state, lane);
CREATE INDEX operation_by_tenant ON operation (tenant, mailbox, state, lane) WHERE tenant IS NOT NULL;
CREATE INDEX operation_ended ON operation (changed_at) WHERE state BETWEEN 5 AND 8;

CREATE TABLE payload (
    key INTEGER PRIMARY KEY REFERENCES operation (key) ON DELETE CASCADE,
    sender TEXT NOT NULL,
    recipients TEXT NOT NULL,
    mime BLOB NOT NULL
) STRICT;
CREATE TABLE kept_payload (
    ended_at INTEGER NOT NULL,
    key INTEGER NOT NULL,
    PRIMARY KEY (ended_at, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
    operation INTEGER NOT NULL,
    number INTEGER NOT NULL,
    mailbox INTEGER NOT NULL REFERENCES name (nr),
    tenant INTEGER REFERENCES name (nr),
    lane INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    recipients INTEGER NOT NULL,
    external_recipients INTEGER NOT NULL,
    quota_units INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    finished_at INTEGER,
    ended TEXT,
    status INTEGER,
    PRIMARY KEY (operation, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_by_claim ON attempt (claimed_at);
CREATE INDEX attempt_by_mailbox ON attempt (mailbox, claimed_at);

CREATE TABLE tally (
    mailbox INTEGER NOT NULL,
    state INTEGER NOT NULL,
    operations INTEGER NOT NULL CHECK (operations >= 0),
    PRIMARY KEY (mailbox, state)
) STRICT, WITHOUT ROWID;

CREATE VIEW operations AS
SELECT o.key, o.id, m.text AS mailbox, iif(o.lane = 0, 'foreground', 'background') AS lane, t.text AS tenant,
    o.campaign,
    CASE o.state WHEN 0 THEN 'admitted' WHEN 1 THEN 'queued' WHEN 2 THEN 'attempting' WHEN 3 THEN 'deferred'
        WHEN 4 THEN 'unknown' WHEN 5 THEN 'accepted' WHEN 6 THEN 'rejected' WHEN 7 THEN 'exhausted'
        WHEN 8 THEN 'cancelled' ELSE 'quarantined' END AS state,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.submitted_at / 1e6, 'unixepoch') AS submitted_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.not_before / 1e6, 'unixepoch') AS not_before,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.deadline / 1e6, 'unixepoch') AS deadline,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.changed_at / 1e6, 'unixepoch') AS changed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.next_at / 1e6, 'unixepoch') AS next_at,
    o.attempts, o.last_status, o.provider_id, o.requests, o.recipients, o.external_recipients, o.quota_units, o.bytes
FROM operation o JOIN name m ON m.nr = o.mailbox LEFT JOIN name t ON t.nr = o.tenant;

CREATE VIEW attempts AS
SELECT a.operation AS key, o.id, a.number, m.text AS mailbox, t.text AS tenant,
    iif(a.lane = 0, 'foreground', 'background') AS lane,
    strftime('%Y-%m-%dT%H:%M:%fZ', a.claimed_at / 1e6, 'unixepoch') AS claimed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', a.finished_at / 1e6, 'unixepoch') AS finished_at,
    a.ended, a.status, a.requests, a.recipients, a.external_recipients, a.quota_units, a.bytes
FROM attempt a JOIN name m ON m.nr = a.mailbox LEFT JOIN name t ON t.nr = a.tenant
    LEFT JOIN operation o ON o.key = a.operation;

CREATE VIEW mailboxes AS
SELECT m.text AS mailbox,
    sum(iif(c.state = 0, c.operations, 0)) AS admitted, sum(iif(c.state = 1, c.operations, 0)) AS queued,
    sum(iif(c.state = 2, c.operations, 0)) AS attempting, sum(iif(c.state = 3, c.operations, 0)) AS deferred,
    sum(iif(c.state = 4, c.operations, 0)) AS unknown, sum(iif(c.state = 5, c.operations, 0)) AS accepted,
    sum(iif(c.state = 6, c.operations, 0)) AS rejected, sum(iif(c.state = 7, c.operations, 0)) AS exhausted,
    sum(iif(c.state = 8, c.operations, 0)) AS cancelled, sum(iif(c.state = 9, c.operations, 0)) AS quarantined,
    (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', max(a.claimed_at) / 1e6, 'unixepoch')
        FROM attempt a WHERE a.mailbox = m.nr) AS last_attempt_at
FROM tally c JOIN name m ON m.nr = c.mailbox GROUP BY c.mailbox;
";

/// Kinds of notes are numbered in the order of `NoteKind::ALL`; mailbox 0 is none.
const V2: &str = "
CREATE TABLE secret (
    nr INTEGER PRIMARY KEY CHECK (nr = 1),
    bytes BLOB NOT NULL CHECK (length(bytes) = 32)
) STRICT;
INSERT INTO secret (nr, bytes) VALUES (1, randomblob(32));

CREATE TABLE note (
    kind INTEGER NOT NULL,
    mailbox INTEGER NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (kind, mailbox, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX note_by_mailbox ON note (mailbox);
CREATE INDEX note_by_end ON note (until);

CREATE VIEW holds AS
SELECT iif(kind = 0, 'hold', 'trip') AS what, name AS scope,
    body ->> '$.order.reason' AS reason, body ->> '$.order.by' AS ordered_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS since,
    strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS until
FROM note WHERE kind IN (0, 1);

CREATE VIEW cooldowns AS
SELECT name AS scope,
    CASE WHEN body ->> '$.breaker.cooldown.phase.ramp.ends_at' IS NOT NULL THEN 'ramp'
        ELSE coalesce(body ->> '$.breaker.cooldown.phase', iif(body -> '$.breaker.outage' ->> '$' IS NULL,
            'closed', 'shut')) END AS phase,
    body ->> '$.breaker.cooldown.reason' AS reason,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.breaker.cooldown.until') / 1e6, 'unixepoch') AS until,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.breaker.outage.until') / 1e6, 'unixepoch') AS health_until,
    body ->> '$.breaker.cooldown.chain' AS chain, body ->> '$.breaker.trips' AS trips,
    json_array_length(body, '$.breaker.ceilings') AS ceilings,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS changed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS remembered_until
FROM note WHERE kind = 2;

CREATE VIEW permits AS
SELECT n.name AS permit, m.text AS mailbox, body ->> '$.permit.lane' AS lane, body ->> '$.permit.tenant' AS tenant,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.permit.claimed_at') / 1e6, 'unixepoch') AS granted_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.permit.finished_at') / 1e6, 'unixepoch') AS settled_at
FROM note n JOIN name m ON m.nr = n.mailbox WHERE n.kind = 3;
";

/// What a person said who moved an operation: it stands in its row, and the view shows it.
const V3: &str = "
ALTER TABLE operation ADD COLUMN order_reason TEXT;
ALTER TABLE operation ADD COLUMN ordered_by TEXT;
DROP VIEW operations;
CREATE VIEW operations AS
SELECT o.key, o.id, m.text AS mailbox, iif(o.lane = 0, 'foreground', 'background') AS lane, t.text AS tenant,
    o.campaign,
    CASE o.state WHEN 0 THEN 'admitted' WHEN 1 THEN 'queued' WHEN 2 THEN 'attempting' WHEN 3 THEN 'deferred'
        WHEN 4 THEN 'unknown' WHEN 5 THEN 'accepted' WHEN 6 THEN 'rejected' WHEN 7 THEN 'exhausted'
        WHEN 8 THEN 'cancelled' ELSE 'quarantined' END AS state,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.submitted_at / 1e6, 'unixepoch') AS submitted_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.not_before / 1e6, 'unixepoch') AS not_before,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.deadline / 1e6, 'unixepoch') AS deadline,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.changed_at / 1e6, 'unixepoch') AS changed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.next_at / 1e6, 'unixepoch') AS next_at,
    o.attempts, o.last_status, o.provider_id, o.order_reason, o.ordered_by, o.requests, o.recipients, o.external_recipients, o.quota_units, o.bytes
FROM operation o JOIN name m ON m.nr = o.mailbox LEFT JOIN name t ON t.nr = o.tenant;
";

/// A campaign for tomorrow is not walked to find what may go today.
const V4: &str = "
CREATE INDEX operation_admitted ON operation (lane, not_before) WHERE state = 0;
";

/// A tenant may have thousands of mailboxes: what is asked of it alone must not walk them.
const V5: &str = "
CREATE INDEX operation_by_tenant_state ON operation (tenant, state, lane) WHERE tenant IS NOT NULL;
";

/// A campaign's operations are found without walking the others. And a hold may be lifted in part.
const V6: &str = "
CREATE INDEX operation_by_campaign ON operation (campaign, state, lane) WHERE campaign IS NOT NULL;
DROP VIEW holds;
CREATE VIEW holds AS
SELECT iif(kind = 0, 'hold', 'trip') AS what, name AS scope,
    body ->> '$.order.reason' AS reason, body ->> '$.order.by' AS ordered_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS since,
    strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS until,
    body ->> '$.order.widening.first' AS first, body ->> '$.order.widening.stopped[1]' AS stopped_by
FROM note WHERE kind IN (0, 1);
";

/// What may have been sent, what is asked for while an attempt is live, and who lifted what.
const V7: &str = "
ALTER TABLE operation ADD COLUMN maybe_sent INTEGER NOT NULL DEFAULT 0;
DROP VIEW operations;
CREATE VIEW operations AS
SELECT o.key, o.id, m.text AS mailbox, iif(o.lane = 0, 'foreground', 'background') AS lane, t.text AS tenant,
    o.campaign,
    CASE o.state WHEN 0 THEN 'admitted' WHEN 1 THEN 'queued' WHEN 2 THEN 'attempting' WHEN 3 THEN 'deferred'
        WHEN 4 THEN 'unknown' WHEN 5 THEN 'accepted' WHEN 6 THEN 'rejected' WHEN 7 THEN 'exhausted'
        WHEN 8 THEN 'cancelled' ELSE 'quarantined' END AS state,
    o.maybe_sent,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.submitted_at / 1e6, 'unixepoch') AS submitted_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.not_before / 1e6, 'unixepoch') AS not_before,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.deadline / 1e6, 'unixepoch') AS deadline,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.changed_at / 1e6, 'unixepoch') AS changed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', o.next_at / 1e6, 'unixepoch') AS next_at,
    o.attempts, o.last_status, o.provider_id, o.order_reason, o.ordered_by,
    r.body ->> '$.request.wants' AS requested,
    o.requests, o.recipients, o.external_recipients, o.quota_units, o.bytes
FROM operation o JOIN name m ON m.nr = o.mailbox LEFT JOIN name t ON t.nr = o.tenant
    LEFT JOIN note r ON r.kind = 6 AND r.mailbox = o.mailbox AND r.name = CAST(o.key AS TEXT);

CREATE VIEW lifted AS
SELECT substr(name, instr(name, ':') + 1) AS what, body ->> '$.lifted.how' AS how,
    body ->> '$.lifted.lifted.reason' AS reason, body ->> '$.lifted.lifted.by' AS lifted_by,
    body ->> '$.lifted.ordered.reason' AS order_reason, body ->> '$.lifted.ordered.by' AS ordered_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS lifted_at
FROM note WHERE kind = 5;
";

/// What waits for an instant, in blocks of 4,096 keys: a long run is leapt over to find those whose instant has come, and
/// the oldest of them are found without reading the others.
const V8: &str = "
DROP INDEX operation_admitted;
CREATE INDEX operation_admitted ON operation (lane, key >> 12, not_before) WHERE state = 0;
CREATE INDEX operation_deferred ON operation (lane, key >> 12, coalesce(next_at, 0)) WHERE state = 3;
CREATE INDEX operation_deferred_by_mailbox ON operation (mailbox, lane, key >> 12, coalesce(next_at, 0))
    WHERE state = 3;
CREATE INDEX operation_deferred_by_tenant ON operation (tenant, lane, key >> 12, coalesce(next_at, 0))
    WHERE state = 3 AND tenant IS NOT NULL;
CREATE INDEX operation_deferred_by_campaign ON operation (campaign, lane, key >> 12, coalesce(next_at, 0))
    WHERE state = 3 AND campaign IS NOT NULL;
";

/// An email that was cut off is told from a short one. Those of an earlier version say nothing of their size.
const V9: &str = "
ALTER TABLE payload ADD COLUMN size INTEGER;
";

/// Whether an attempt bears a tenant's name is a probe: names that nothing bears are forgotten.
const V10: &str = "
CREATE INDEX attempt_by_tenant ON attempt (tenant) WHERE tenant IS NOT NULL;
";

/// How orders ended, whichever way. The end of one that is in force stands there before it comes.
const V11: &str = "
DROP VIEW lifted;
CREATE VIEW ended_orders AS
SELECT substr(name, instr(name, ':') + 1) AS what,
    body ->> '$.lifted.ordered.reason' AS reason, body ->> '$.lifted.ordered.by' AS ordered_by,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.lifted.since') / 1e6, 'unixepoch') AS since,
    strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.lifted.until') / 1e6, 'unixepoch') AS until,
    iif(body ->> '$.lifted.how' = 'order', 'lifted', body ->> '$.lifted.how') AS how,
    strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(body ->> '$.lifted.ended_at', at) / 1e6, 'unixepoch') AS ended_at,
    body ->> '$.lifted.lifted.reason' AS end_reason, body ->> '$.lifted.lifted.by' AS ended_by,
    body ->> '$.lifted.ordered.widening.first' AS first,
    body ->> '$.lifted.ordered.widening.stopped[1]' AS stopped_by
FROM note WHERE kind = 5
    AND coalesce(body ->> '$.lifted.ended_at', at) <= CAST(strftime('%s', 'now') AS INTEGER) * 1000000;
";

/// Brings the file from `version` to [`VERSION`].
pub(super) fn migrate(connection: &Connection, version: i32) -> rusqlite::Result<()> {
    let done = usize::try_from(version).unwrap_or_default();
    for (number, migration) in (1..).zip(MIGRATIONS).skip(done) {
        let transaction = connection.unchecked_transaction()?;
        transaction.execute_batch(migration)?;
        transaction.execute_batch(&format!("PRAGMA user_version = {number}"))?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_that_has_been_released_is_never_edited() {
        assert_eq!(V1.trim(), include_str!("../../../tests/store_sqlite/v1.sql").trim());
    }
}
