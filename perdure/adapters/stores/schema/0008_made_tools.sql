-- Tools that workers made at run time, frozen by hash, and which runs made them. `tool` is the whole
-- record as JSON; the columns beside it are what is looked up.
CREATE TABLE made_tools (
    hash TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    made_at TEXT NOT NULL,
    tool TEXT NOT NULL
);

CREATE INDEX made_tools_by_name ON made_tools (name, made_at);

CREATE TABLE made_tool_makers (
    hash TEXT NOT NULL REFERENCES made_tools (hash) ON DELETE CASCADE,
    run TEXT NOT NULL,
    root TEXT NOT NULL,
    worker TEXT NOT NULL,
    made_at TEXT NOT NULL,
    PRIMARY KEY (hash, run)
);

CREATE INDEX made_tool_makers_by_root ON made_tool_makers (root);
