"""All runs, newest first, as they change."""
