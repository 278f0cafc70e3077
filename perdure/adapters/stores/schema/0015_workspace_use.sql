-- Which folders are used: a worker serves those alone.
ALTER TABLE workspaces ADD COLUMN used_at TEXT;

UPDATE workspaces SET used_at = '2000-01-01T00:00:00.000000+00:00';

-- NULL for rows of before, which might belong to any folder.
ALTER TABLE runs ADD COLUMN workspace TEXT;

CREATE INDEX runs_open ON runs (workspace) WHERE ended_at IS NULL;
