-- Journal, records and shared blobs. `{bytes}` is the dialect's type for binary content.
-- Money and times are text: decimals stay exact and UTC times sort, in both databases.

CREATE TABLE attempts (
    key TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    opening BIGINT NOT NULL,
    execution TEXT NOT NULL,
    root TEXT NOT NULL,
    run TEXT NOT NULL,
    phase TEXT NOT NULL,
    role TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    model TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'answered', 'failed', 'lost', 'duplicate')),
    usage TEXT NOT NULL,
    cost_usd TEXT,
    estimate TEXT NOT NULL,
    estimate_cost_usd TEXT,
    at_estimate BOOLEAN NOT NULL,
    settled BOOLEAN NOT NULL,
    started_at TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (key, attempt, opening)
);

CREATE INDEX attempts_by_execution ON attempts (execution);

CREATE INDEX attempts_by_run ON attempts (run);

CREATE TABLE replies (
    key TEXT PRIMARY KEY,
    attempt BIGINT NOT NULL,
    opening BIGINT NOT NULL,
    request_hash TEXT NOT NULL,
    reply TEXT NOT NULL,
    FOREIGN KEY (key, attempt, opening) REFERENCES attempts (key, attempt, opening)
);

CREATE TABLE seals (
    execution TEXT PRIMARY KEY,
    sealed_at TEXT NOT NULL
);

CREATE TABLE installation (
    slot BIGINT PRIMARY KEY CHECK (slot = 1),
    id TEXT NOT NULL
);

CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    path TEXT NOT NULL UNIQUE
);

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    goal TEXT NOT NULL,
    label TEXT,
    lifecycle TEXT NOT NULL,
    outcome TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    result TEXT,
    status TEXT
);

CREATE TABLE iterations (
    run TEXT NOT NULL,
    position BIGINT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (run, position)
);

CREATE TABLE script_entries (
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    entry BIGINT NOT NULL,
    taken_at TEXT NOT NULL,
    PRIMARY KEY (run, key, entry)
);

CREATE TABLE live_texts (
    run TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    text TEXT NOT NULL
);

CREATE TABLE blobs (
    address TEXT PRIMARY KEY,
    content {bytes} NOT NULL,
    written_at TEXT NOT NULL
);
