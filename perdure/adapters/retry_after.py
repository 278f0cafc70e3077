"""Reads how long a server asks its callers to wait (`retry-after`)."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds a server asks to wait, never negative; None if it does not say.

    A date is compared with the response's own `date` header if there is one, because the local
    clock may be wrong. Callers bound the result.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    wish = headers.get("retry-after", "").strip()
    seconds = _number(wish)
    if seconds is not None:
        return max(0.0, seconds)
    until = _date(wish)
    if until is None:
        return None
    now = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(text: str) -> datetime | None:
    try:
        value = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
