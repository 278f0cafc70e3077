-- What an id, or an idempotency key, was used for: it outlives the history on the server.
ALTER TABLE runs ADD COLUMN digest TEXT;

ALTER TABLE runs ADD COLUMN start_key TEXT;

CREATE UNIQUE INDEX runs_by_start_key ON runs (start_key);
