-- What monitoring asks at every scrape is kept up, so that none reads all runs and all calls.
-- Runs that have ended: how many rows there are (`kept`), and how many ends there were, which only
-- rises. A trigger counts, so that workers of earlier versions are counted too.
CREATE TABLE run_totals (
    kind TEXT NOT NULL,
    lifecycle TEXT NOT NULL,
    outcome TEXT NOT NULL,
    kept BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    PRIMARY KEY (kind, lifecycle, outcome)
);

INSERT INTO run_totals (kind, lifecycle, outcome, kept, ends)
SELECT kind, lifecycle, coalesce(outcome, ''), count(*), count(*) FROM runs
WHERE ended_at IS NOT NULL GROUP BY kind, lifecycle, coalesce(outcome, '');

CREATE TRIGGER runs_counted_in AFTER INSERT ON runs WHEN new.ended_at IS NOT NULL BEGIN
    INSERT INTO run_totals (kind, lifecycle, outcome, kept, ends)
    VALUES (new.kind, new.lifecycle, coalesce(new.outcome, ''), 1, 1)
    ON CONFLICT (kind, lifecycle, outcome) DO UPDATE SET kept = kept + 1, ends = ends + 1;
END;

CREATE TRIGGER runs_counted_anew AFTER UPDATE OF kind, lifecycle, outcome, ended_at ON runs
WHEN old.ended_at IS NOT NULL OR new.ended_at IS NOT NULL BEGIN
    UPDATE run_totals SET kept = kept - 1
    WHERE old.ended_at IS NOT NULL AND kind = old.kind AND lifecycle = old.lifecycle
        AND outcome = coalesce(old.outcome, '');
    INSERT INTO run_totals (kind, lifecycle, outcome, kept, ends)
    SELECT new.kind, new.lifecycle, coalesce(new.outcome, ''), 1, old.ended_at IS NULL
    WHERE new.ended_at IS NOT NULL
    ON CONFLICT (kind, lifecycle, outcome) DO UPDATE
    SET kept = kept + 1, ends = ends + excluded.ends;
END;

CREATE TRIGGER runs_counted_out AFTER DELETE ON runs WHEN old.ended_at IS NOT NULL BEGIN
    UPDATE run_totals SET kept = kept - 1
    WHERE kind = old.kind AND lifecycle = old.lifecycle AND outcome = coalesce(old.outcome, '');
END;

-- Attempts of model calls that are counted, each once and for good.
CREATE TABLE call_totals (
    model TEXT NOT NULL,
    phase TEXT NOT NULL,
    calls BIGINT NOT NULL,
    unconfirmed BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (model, phase)
);

ALTER TABLE attempts ADD COLUMN counted BOOLEAN NOT NULL DEFAULT false;

CREATE INDEX attempts_uncounted ON attempts (started_at) WHERE counted IS 0;
