-- What collections read, however many runs are kept: ended root runs, oldest first.
CREATE INDEX runs_roots_by_end ON runs (ended_at, id) WHERE parent IS NULL;

-- The runs below one: their ids begin with its own, which only the order of bytes keeps together.
CREATE INDEX runs_by_bytes ON runs (id COLLATE "C");
