-- What runs share and leave behind. `scope` and `owner` say who may see and change a row.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
    created_at TEXT NOT NULL,
    closed_at TEXT
);

CREATE TABLE projects (
    id TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    goal TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE artifacts (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL CHECK (scope IN ('run', 'session', 'project')),
    owner TEXT NOT NULL,
    run TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    stage TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    ref TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX artifacts_by_owner ON artifacts (owner, created_at);

CREATE INDEX artifacts_by_run ON artifacts (run, created_at);

CREATE TABLE todos (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL CHECK (scope IN ('run', 'session', 'project')),
    owner TEXT NOT NULL,
    run TEXT NOT NULL,
    text TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'done', 'cancelled')),
    position BIGINT NOT NULL,
    written_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL
);

CREATE INDEX todos_by_owner ON todos (owner, position);

CREATE TABLE sprints (
    run TEXT NOT NULL,
    iteration BIGINT NOT NULL,
    project TEXT NOT NULL,
    goal TEXT NOT NULL,
    note TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (run, iteration)
);
