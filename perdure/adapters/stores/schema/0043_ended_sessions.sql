-- Sessions of the page that ended before their time; forgotten once that is over.
CREATE TABLE ended_sessions (
    id TEXT PRIMARY KEY,
    until TEXT NOT NULL
);

CREATE INDEX ended_sessions_by_end ON ended_sessions (until);
