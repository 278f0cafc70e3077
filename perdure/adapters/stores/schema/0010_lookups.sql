-- What is looked up at every start, however many runs there were.
CREATE INDEX attempts_by_model ON attempts (model, started_at);

CREATE INDEX runs_by_start ON runs (started_at, id);
