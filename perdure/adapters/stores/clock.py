"""The time that stores write down."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The current time, aware."""
    return datetime.now(UTC)
