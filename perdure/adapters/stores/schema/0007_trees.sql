-- Runs that work for other runs: who they work for, and the parts of a tree that are closed.
ALTER TABLE runs ADD COLUMN parent TEXT;

CREATE TABLE tree_seals (
    root TEXT NOT NULL,
    run TEXT NOT NULL,
    sealed_at TEXT NOT NULL,
    PRIMARY KEY (root, run)
);

CREATE INDEX attempts_by_root ON attempts (root);
