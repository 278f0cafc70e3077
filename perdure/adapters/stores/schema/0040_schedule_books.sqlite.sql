-- The books of schedules, kept up with every change of the journal, so that no start reads the runs
-- and calls of its month. A trigger writes what changed, so that workers of earlier versions count.
ALTER TABLE schedule_starts ADD COLUMN open BOOLEAN NOT NULL DEFAULT true;

ALTER TABLE schedule_starts ADD COLUMN spent_usd TEXT NOT NULL DEFAULT '0';

ALTER TABLE schedule_starts ADD COLUMN spent_tokens BIGINT NOT NULL DEFAULT 0;

UPDATE schedule_starts SET open = false WHERE refused IS NOT NULL
    OR EXISTS (SELECT 1 FROM runs WHERE runs.id = schedule_starts.run AND ended_at IS NOT NULL);

CREATE INDEX schedule_starts_open ON schedule_starts (schedule) WHERE open IS 1;

DROP INDEX schedule_starts_by_time;

CREATE INDEX schedule_starts_by_time ON schedule_starts (schedule, at, run);

-- What attempts booked, or took back (`sign` is -1), since a start of the schedule was admitted.
CREATE TABLE schedule_bookings (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule TEXT NOT NULL,
    run TEXT NOT NULL,
    root TEXT NOT NULL,
    started_at TEXT NOT NULL,
    state TEXT NOT NULL,
    usage TEXT NOT NULL,
    cost_usd TEXT,
    estimate TEXT NOT NULL,
    sign INTEGER NOT NULL
);

CREATE INDEX schedule_bookings_by_schedule ON schedule_bookings (schedule, number);

-- All before that, by quarter hours: months of every time zone begin with one.
CREATE TABLE schedule_spend (
    schedule TEXT NOT NULL,
    began TEXT NOT NULL,
    cost_usd TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    unpriced BIGINT NOT NULL,
    PRIMARY KEY (schedule, began)
);

CREATE INDEX schedule_spend_by_time ON schedule_spend (began);

-- A run that learns from one is a tree of its own.
CREATE TRIGGER attempts_taken_back AFTER UPDATE OF state, usage, cost_usd, estimate ON attempts
WHEN old.state <> 'started' AND (old.state IS NOT new.state OR old.usage IS NOT new.usage
    OR old.cost_usd IS NOT new.cost_usd OR old.estimate IS NOT new.estimate) BEGIN
    INSERT INTO schedule_bookings
        (schedule, run, root, started_at, state, usage, cost_usd, estimate, sign)
    SELECT schedule, run, old.root, old.started_at, old.state, old.usage, old.cost_usd,
        old.estimate, -1
    FROM schedule_starts WHERE run IN (old.root,
        CASE WHEN substr(old.root, 1, 6) = 'learn-' THEN substr(old.root, 7) ELSE old.root END)
    LIMIT 1;
END;

CREATE TRIGGER attempts_booked AFTER UPDATE OF state, usage, cost_usd, estimate ON attempts
WHEN new.state <> 'started' AND (old.state IS NOT new.state OR old.usage IS NOT new.usage
    OR old.cost_usd IS NOT new.cost_usd OR old.estimate IS NOT new.estimate) BEGIN
    INSERT INTO schedule_bookings
        (schedule, run, root, started_at, state, usage, cost_usd, estimate, sign)
    SELECT schedule, run, new.root, new.started_at, new.state, new.usage, new.cost_usd,
        new.estimate, 1
    FROM schedule_starts WHERE run IN (new.root,
        CASE WHEN substr(new.root, 1, 6) = 'learn-' THEN substr(new.root, 7) ELSE new.root END)
    LIMIT 1;
END;

CREATE TRIGGER attempts_booked_at_once AFTER INSERT ON attempts WHEN new.state <> 'started' BEGIN
    INSERT INTO schedule_bookings
        (schedule, run, root, started_at, state, usage, cost_usd, estimate, sign)
    SELECT schedule, run, new.root, new.started_at, new.state, new.usage, new.cost_usd,
        new.estimate, 1
    FROM schedule_starts WHERE run IN (new.root,
        CASE WHEN substr(new.root, 1, 6) = 'learn-' THEN substr(new.root, 7) ELSE new.root END)
    LIMIT 1;
END;

INSERT INTO schedule_bookings
    (schedule, run, root, started_at, state, usage, cost_usd, estimate, sign)
SELECT starts.schedule, starts.run, attempts.root, attempts.started_at, attempts.state,
    attempts.usage, attempts.cost_usd, attempts.estimate, 1
FROM schedule_starts starts JOIN attempts ON attempts.root IN (starts.run, 'learn-' || starts.run)
WHERE attempts.state <> 'started';

CREATE TRIGGER runs_opened_for_schedules AFTER INSERT ON runs BEGIN
    UPDATE schedule_starts SET open = (new.ended_at IS NULL)
    WHERE run = new.id AND open <> (new.ended_at IS NULL) AND refused IS NULL;
END;

CREATE TRIGGER runs_ended_for_schedules AFTER UPDATE OF ended_at ON runs BEGIN
    UPDATE schedule_starts SET open = (new.ended_at IS NULL)
    WHERE run = new.id AND open <> (new.ended_at IS NULL) AND refused IS NULL;
END;

CREATE TRIGGER runs_gone_for_schedules AFTER DELETE ON runs BEGIN
    UPDATE schedule_starts SET open = false WHERE run = old.id AND open;
END;
