"""Blobs, transcripts, journal and records on SQLite or PostgreSQL."""
