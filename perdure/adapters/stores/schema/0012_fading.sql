-- What may be forgotten, without a look at all that may not.
CREATE INDEX memory_by_forgetting ON memory (fades_at) WHERE learned;
