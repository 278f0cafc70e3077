-- How much memory holds: every recall asks, and must not count it all.
CREATE TABLE memory_totals (
    slot INTEGER PRIMARY KEY CHECK (slot = 1),
    entries BIGINT NOT NULL,
    length BIGINT NOT NULL
);

INSERT INTO memory_totals (slot, entries, length)
SELECT 1, count(*), coalesce(sum(length), 0) FROM memory WHERE length > 0;

CREATE FUNCTION count_memory() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    more_entries BIGINT := 0;
    more_length BIGINT := 0;
BEGIN
    IF TG_OP <> 'DELETE' THEN
        more_entries := more_entries + (NEW.length > 0)::int;
        more_length := more_length + NEW.length;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        more_entries := more_entries - (OLD.length > 0)::int;
        more_length := more_length - OLD.length;
    END IF;
    IF more_entries <> 0 OR more_length <> 0 THEN
        UPDATE memory_totals SET entries = entries + more_entries, length = length + more_length;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER memory_counted AFTER INSERT OR DELETE OR UPDATE OF length ON memory
FOR EACH ROW EXECUTE FUNCTION count_memory();
