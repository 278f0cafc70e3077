"""Read a provider's wish how long to wait: seconds, milliseconds, an HTTP date, or nonsense."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds from now, never negative; None when there is no wish or it makes no sense.

    A date is measured against the response's own `date` header where there is one, so that a wrong
    local clock does not shift it. Clamping is policy and happens in the domain.
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
