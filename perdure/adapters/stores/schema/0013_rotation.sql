-- A token that got a new secret keeps its id; the secret of before opens it for a while.
ALTER TABLE api_tokens ADD COLUMN former_digest TEXT;

ALTER TABLE api_tokens ADD COLUMN former_until TEXT;
