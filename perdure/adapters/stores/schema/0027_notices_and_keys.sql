-- Notices to people until a channel took them, and those that none took.
CREATE TABLE notices (
    id TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    gate TEXT NOT NULL,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    due_at TEXT NOT NULL,
    problem TEXT,
    made_at TEXT NOT NULL,
    ended_at TEXT
);

CREATE INDEX notices_by_state ON notices (state, due_at);

-- Which keys have encrypted something here; the id of a key reveals nothing about it.
CREATE TABLE encryption_keys (
    id TEXT PRIMARY KEY,
    first_used_at TEXT NOT NULL,
    retired_at TEXT
);
