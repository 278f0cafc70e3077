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

CREATE FUNCTION count_runs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    had BOOLEAN := false;
    has BOOLEAN := false;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        had := OLD.ended_at IS NOT NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        has := NEW.ended_at IS NOT NULL;
    END IF;
    IF had AND has THEN
        IF (OLD.kind, OLD.lifecycle, coalesce(OLD.outcome, ''))
            = (NEW.kind, NEW.lifecycle, coalesce(NEW.outcome, ''))
        THEN
            RETURN NULL;
        END IF;
    END IF;
    IF had THEN
        UPDATE run_totals SET kept = kept - 1
        WHERE kind = OLD.kind AND lifecycle = OLD.lifecycle AND outcome = coalesce(OLD.outcome, '');
    END IF;
    IF has THEN
        INSERT INTO run_totals (kind, lifecycle, outcome, kept, ends)
        VALUES (NEW.kind, NEW.lifecycle, coalesce(NEW.outcome, ''), 1, (NOT had)::int)
        ON CONFLICT (kind, lifecycle, outcome) DO UPDATE
        SET kept = run_totals.kept + 1, ends = run_totals.ends + excluded.ends;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER runs_counted
AFTER INSERT OR DELETE OR UPDATE OF kind, lifecycle, outcome, ended_at ON runs
FOR EACH ROW EXECUTE FUNCTION count_runs();

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

CREATE INDEX attempts_uncounted ON attempts (started_at) WHERE counted IS FALSE;
