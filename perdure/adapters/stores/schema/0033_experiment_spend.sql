-- What trials have spent, so that lists add it up without reading the trials.
ALTER TABLE experiment_trials ADD COLUMN tokens BIGINT;

ALTER TABLE experiment_trials ADD COLUMN pico_usd BIGINT;

CREATE INDEX experiment_trials_by_spend
    ON experiment_trials (experiment, ended, tokens, pico_usd);
