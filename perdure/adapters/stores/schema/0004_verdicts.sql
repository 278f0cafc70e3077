-- What judges said of outputs, so that the same question is not paid for twice.
CREATE TABLE verdicts (
    key TEXT PRIMARY KEY,
    reply TEXT NOT NULL,
    written_at TEXT NOT NULL
);
