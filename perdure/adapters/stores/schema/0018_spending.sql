-- What all runs spent in a period is added up from the journal.
CREATE INDEX attempts_by_start ON attempts (started_at);

-- Prompt tokens of ended runs, and those that a loop which resends everything would have sent.
CREATE TABLE run_savings (
    run TEXT PRIMARY KEY,
    ended_at TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    naive_input_tokens BIGINT NOT NULL
);

CREATE INDEX run_savings_by_end ON run_savings (ended_at);
