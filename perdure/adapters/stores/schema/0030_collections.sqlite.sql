-- What collections read, however many runs are kept: ended root runs, oldest first.
CREATE INDEX runs_roots_by_end ON runs (ended_at, id) WHERE parent IS NULL;
