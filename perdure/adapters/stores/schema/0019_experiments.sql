-- Experiments, their inputs, and a row for each trial: thousands of runs stand in no history.
CREATE TABLE experiments (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    inputs BIGINT NOT NULL,
    digest TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ended_at TEXT
);

CREATE INDEX experiments_by_start ON experiments (created_at);

CREATE TABLE experiment_inputs (
    experiment TEXT NOT NULL,
    position BIGINT NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (experiment, position)
);

CREATE TABLE experiment_trials (
    experiment TEXT NOT NULL,
    number BIGINT NOT NULL,
    ended BOOLEAN NOT NULL,
    trial TEXT NOT NULL,
    PRIMARY KEY (experiment, number)
);
