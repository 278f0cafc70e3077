-- The namespace of the Temporal server in which a run works; null for runs of before it was kept.
ALTER TABLE runs ADD COLUMN namespace TEXT;
