-- The oldest schema whose code may go on with the database after this migration; null: only its own.
ALTER TABLE schema_versions ADD COLUMN serves BIGINT;
