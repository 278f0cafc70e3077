-- Trees that somebody wants erased: a row goes when the rows of its tree have gone.
CREATE TABLE erasures (
    root TEXT PRIMARY KEY,
    at TEXT NOT NULL
);

CREATE INDEX erased_blobs_by_root ON erased_blobs (root);

-- What else an erasure looks for by run.
CREATE INDEX audit_by_run ON audit (run);

CREATE INDEX made_tool_makers_by_run ON made_tool_makers (run);

CREATE INDEX notices_by_run ON notices (run);

CREATE INDEX todos_by_run ON todos (run);

-- Who paid for a verdict, so that an erasure finds it.
ALTER TABLE verdicts ADD COLUMN run TEXT;

CREATE INDEX verdicts_by_run ON verdicts (run);

-- From which runs entries of memory came. What an earlier version writes is noted at an erasure.
ALTER TABLE memory ADD COLUMN noted BOOLEAN NOT NULL DEFAULT false;

CREATE INDEX memory_unnoted ON memory (id) WHERE noted IS FALSE;

CREATE TABLE memory_origins (
    run TEXT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (run, entry)
);

CREATE INDEX memory_origins_by_entry ON memory_origins (entry);

CREATE FUNCTION unnote_memory() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.noted := false;
    RETURN NEW;
END $$;

CREATE TRIGGER memory_unnoted BEFORE UPDATE OF entry ON memory
FOR EACH ROW EXECUTE FUNCTION unnote_memory();

CREATE FUNCTION drop_memory_origins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM memory_origins WHERE entry = OLD.id;
    RETURN NULL;
END $$;

CREATE TRIGGER memory_origins_dropped AFTER DELETE ON memory
FOR EACH ROW EXECUTE FUNCTION drop_memory_origins();
