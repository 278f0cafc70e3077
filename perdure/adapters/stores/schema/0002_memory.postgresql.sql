-- Memory. `entry` is the whole entry as JSON; the columns beside it are what is looked up.
-- `terms` are cut by the domain and become lexemes as they are: no parser of the database could
-- split them otherwise than SQLite does.

CREATE TABLE memory (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    categories TEXT NOT NULL,
    name TEXT,
    learned BOOLEAN NOT NULL,
    created TEXT NOT NULL,
    fades_at TEXT,
    terms TEXT NOT NULL,
    length BIGINT NOT NULL,
    entry TEXT NOT NULL,
    lexemes TSVECTOR NOT NULL
        GENERATED ALWAYS AS (array_to_tsvector(string_to_array(terms, ' '))) STORED
);

CREATE INDEX memory_by_kind ON memory (kind, created);

CREATE UNIQUE INDEX memory_by_name ON memory (name) WHERE kind = 'skill';

CREATE INDEX memory_by_fading ON memory (fades_at);

CREATE INDEX memory_by_lexeme ON memory USING GIN (lexemes);

CREATE TABLE memory_uses (
    run TEXT NOT NULL,
    entry TEXT NOT NULL REFERENCES memory (id) ON DELETE CASCADE,
    used_at TEXT NOT NULL,
    accepted BOOLEAN,
    PRIMARY KEY (run, entry)
);

CREATE INDEX memory_uses_by_entry ON memory_uses (entry);
