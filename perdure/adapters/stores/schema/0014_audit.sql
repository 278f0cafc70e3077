-- Who asked what of runs and tokens, and whether it was allowed.
CREATE TABLE audit (
    id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    action TEXT NOT NULL,
    outcome TEXT NOT NULL,
    who TEXT NOT NULL,
    run TEXT,
    about TEXT NOT NULL,
    count BIGINT NOT NULL,
    last_at TEXT NOT NULL
);

CREATE INDEX audit_by_time ON audit (last_at);

-- What a token is bound to: folders are paths, one a line. Empty: it reaches the installation.
ALTER TABLE api_tokens ADD COLUMN runs TEXT;

ALTER TABLE api_tokens ADD COLUMN folders TEXT;
