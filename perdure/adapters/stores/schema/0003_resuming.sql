-- What a run can be started again from: addresses of its specification and of its last state.
ALTER TABLE runs ADD COLUMN spec TEXT;

ALTER TABLE runs ADD COLUMN state TEXT;
