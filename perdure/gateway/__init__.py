"""The gateway: interfaces reach Temporal only through it."""
