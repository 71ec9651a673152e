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
