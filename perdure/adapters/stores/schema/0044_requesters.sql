-- Which tokens asked for a schedule or an experiment: they do not approve for the runs that it starts.
CREATE TABLE api_requesters (
    source TEXT NOT NULL,
    token TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (source, token)
);

-- What came of a request that started no run of its own at once, such as one for a schedule.
ALTER TABLE api_starts ADD COLUMN why TEXT NOT NULL DEFAULT '';
