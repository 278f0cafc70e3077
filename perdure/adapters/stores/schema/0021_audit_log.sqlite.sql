-- The audit trail only grows: what happens to an entry is a further row with its id.
ALTER TABLE audit RENAME TO audit_before;

DROP INDEX audit_by_time;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    at TEXT NOT NULL,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    who TEXT NOT NULL,
    run TEXT,
    about TEXT NOT NULL,
    count BIGINT NOT NULL,
    last_at TEXT NOT NULL
);

INSERT INTO audit (id, at, action, outcome, who, run, about, count, last_at)
SELECT id, at, action, outcome, who, run, about, count, last_at
FROM audit_before ORDER BY last_at, id;

DROP TABLE audit_before;

CREATE INDEX audit_by_time ON audit (last_at);

CREATE INDEX audit_by_id ON audit (id, seq);

-- An encrypted text may be encrypted again, under another key: nothing else of a row changes.
CREATE TRIGGER audit_keeps_rows BEFORE UPDATE ON audit
WHEN NOT (
    OLD.seq = NEW.seq AND OLD.id = NEW.id AND OLD.at = NEW.at AND OLD.action = NEW.action
    AND OLD.outcome = NEW.outcome AND OLD.who = NEW.who AND OLD.run IS NEW.run
    AND OLD.count = NEW.count AND OLD.last_at = NEW.last_at
    AND substr(OLD.about, 1, 8) = char(1) || 'sealed:'
    AND substr(NEW.about, 1, 8) = char(1) || 'sealed:'
)
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;

CREATE TRIGGER audit_keeps_a_year BEFORE DELETE ON audit
WHEN OLD.last_at >= strftime('%Y-%m-%dT%H:%M:%S', 'now', '-365 days')
BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END;

-- When a token was used last, to the minute.
ALTER TABLE api_tokens ADD COLUMN last_used_at TEXT;
