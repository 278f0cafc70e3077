-- Idempotency keys of starts are kept as digests, since a client may put words into them.
UPDATE api_starts SET key = sha256_hex(key) WHERE key IS NOT NULL;

-- A start whose run is gone, which the books tell, keeps no key.
DELETE FROM api_starts WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = api_starts.run)
    AND (EXISTS (SELECT 1 FROM attempts WHERE attempts.root = api_starts.run)
        OR EXISTS (SELECT 1 FROM tombstones WHERE tombstones.run = api_starts.run));
