"""Blobs, transcripts, journal and records on SQLite or PostgreSQL."""

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.open_stores import Stores, open_stores

__all__ = ["Database", "Stores", "open_stores"]
