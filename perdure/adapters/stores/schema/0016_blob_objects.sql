-- Blobs whose content is in an object store: a row names the object that holds it.
CREATE TABLE blob_objects (
    address TEXT PRIMARY KEY,
    object TEXT NOT NULL,
    size BIGINT NOT NULL,
    written_at TEXT NOT NULL
);
