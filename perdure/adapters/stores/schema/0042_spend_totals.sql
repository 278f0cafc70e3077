-- What calls of runs that are gone came to: their rows in the journal go, and no sum changes.
CREATE TABLE spend_totals (
    id TEXT PRIMARY KEY,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    phase TEXT NOT NULL,
    kind TEXT,
    label TEXT,
    learning BOOLEAN NOT NULL,
    unconfirmed BOOLEAN NOT NULL,
    calls BIGINT NOT NULL,
    unpriced_calls BIGINT NOT NULL,
    estimated_calls BIGINT NOT NULL,
    cost_usd TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_5m_tokens BIGINT NOT NULL,
    cache_write_1h_tokens BIGINT NOT NULL
);

CREATE INDEX spend_totals_by_day ON spend_totals (day);
