-- One row for each model call in flight instead of one for each run. Nothing in it is worth keeping.
DROP TABLE live_texts;

CREATE TABLE live_texts (
    run TEXT NOT NULL,
    call TEXT NOT NULL,
    key TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    iteration BIGINT NOT NULL,
    phase TEXT NOT NULL,
    role TEXT NOT NULL,
    worker TEXT NOT NULL,
    model TEXT NOT NULL,
    start BIGINT NOT NULL,
    text TEXT NOT NULL,
    ended BOOLEAN NOT NULL,
    written_at TEXT NOT NULL,
    PRIMARY KEY (run, call)
);

-- Who watches raises the number of the run while it does.
CREATE TABLE live_watches (
    run TEXT PRIMARY KEY,
    beat BIGINT NOT NULL,
    written_at TEXT NOT NULL
);
