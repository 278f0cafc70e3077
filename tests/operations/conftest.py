"""The fixtures of maintenance."""

from holding import holding

__all__ = ["holding"]
