-- Who may use the REST API, what each started, and the key that signs what is handed out to them.
CREATE TABLE api_tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
);

CREATE TABLE api_starts (
    run TEXT PRIMARY KEY,
    token TEXT NOT NULL,
    key TEXT,
    body_hash TEXT,
    at TEXT NOT NULL
);

CREATE UNIQUE INDEX api_starts_by_key ON api_starts (token, key);

CREATE TABLE signing_keys (
    slot BIGINT PRIMARY KEY,
    key {bytes} NOT NULL
);
