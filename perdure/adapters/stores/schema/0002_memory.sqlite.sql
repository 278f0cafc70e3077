-- Memory. `entry` is the whole entry as JSON; the columns beside it are what is looked up.
-- `terms` are cut by the domain, so the index splits at spaces alone: `ascii` does just that.

CREATE TABLE memory (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    categories TEXT NOT NULL,
    name TEXT,
    learned BOOLEAN NOT NULL,
    created TEXT NOT NULL,
    fades_at TEXT,
    terms TEXT NOT NULL,
    length BIGINT NOT NULL,
    entry TEXT NOT NULL
);

CREATE INDEX memory_by_kind ON memory (kind, created);

CREATE UNIQUE INDEX memory_by_name ON memory (name) WHERE kind = 'skill';

CREATE INDEX memory_by_fading ON memory (fades_at);

CREATE TABLE memory_uses (
    run TEXT NOT NULL,
    entry TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    used_at TEXT NOT NULL,
    accepted BOOLEAN,
    PRIMARY KEY (run, entry)
);

CREATE INDEX memory_uses_by_entry ON memory_uses (entry);

CREATE VIRTUAL TABLE memory_terms USING fts5 (
    terms, content = 'memory', content_rowid = 'number', tokenize = 'ascii'
);

CREATE VIRTUAL TABLE memory_vocabulary USING fts5vocab (memory_terms, row);

CREATE TRIGGER memory_added AFTER INSERT ON memory BEGIN
    INSERT INTO memory_terms (rowid, terms) VALUES (new.number, new.terms);
END;

CREATE TRIGGER memory_changed AFTER UPDATE OF terms ON memory BEGIN
    INSERT INTO memory_terms (memory_terms, rowid, terms)
    VALUES ('delete', old.number, old.terms);
    INSERT INTO memory_terms (rowid, terms) VALUES (new.number, new.terms);
END;

CREATE TRIGGER memory_dropped AFTER DELETE ON memory BEGIN
    INSERT INTO memory_terms (memory_terms, rowid, terms)
    VALUES ('delete', old.number, old.terms);
END;
