-- What stays of runs that were erased or dropped: enough that sums by kind and label are right.
CREATE TABLE tombstones (
    run TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    kind TEXT NOT NULL,
    label TEXT,
    outcome TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    at TEXT NOT NULL,
    why TEXT NOT NULL
);

CREATE INDEX tombstones_by_root ON tombstones (root);

-- Content of erased runs that could not go at once, as a step might be about to name it.
CREATE TABLE erased_blobs (
    address TEXT NOT NULL,
    root TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (address, root)
);
