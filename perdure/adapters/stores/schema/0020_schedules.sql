-- Schedules, and every start that they made: what a month's budget is counted by.
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    plan TEXT NOT NULL,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    deleted_at TEXT
);

CREATE TABLE schedule_starts (
    run TEXT PRIMARY KEY,
    schedule TEXT NOT NULL,
    at TEXT NOT NULL,
    limit_usd TEXT,
    limit_tokens BIGINT,
    lowered BOOLEAN NOT NULL,
    refused TEXT
);

CREATE INDEX schedule_starts_by_time ON schedule_starts (schedule, at);
