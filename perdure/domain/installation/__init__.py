"""What belongs to an installation rather than to a run: access, audit, versions, settings."""
