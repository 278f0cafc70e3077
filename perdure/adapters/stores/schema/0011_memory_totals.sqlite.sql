-- How much memory holds: every recall asks, and must not count it all.
CREATE TABLE memory_totals (
    slot INTEGER PRIMARY KEY CHECK (slot = 1),
    entries BIGINT NOT NULL,
    length BIGINT NOT NULL
);

INSERT INTO memory_totals (slot, entries, length)
SELECT 1, count(*), coalesce(sum(length), 0) FROM memory WHERE length > 0;

CREATE TRIGGER memory_counted_in AFTER INSERT ON memory BEGIN
    UPDATE memory_totals SET entries = entries + (new.length > 0), length = length + new.length;
END;

CREATE TRIGGER memory_counted_anew AFTER UPDATE OF length ON memory BEGIN
    UPDATE memory_totals SET
        entries = entries + (new.length > 0) - (old.length > 0),
        length = length + new.length - old.length;
END;

CREATE TRIGGER memory_counted_out AFTER DELETE ON memory BEGIN
    UPDATE memory_totals SET entries = entries - (old.length > 0), length = length - old.length;
END;
