"""A model call and what surrounds it: requests, replies, transcripts, usage, errors."""
