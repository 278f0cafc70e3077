"""Models that their provider ends: when, and what to name instead.

The price list knows no such days, and the SDK takes a second to import: so they stand here, and a
test holds them against the SDK's own list.
"""

from collections.abc import Iterable
from datetime import date, timedelta

# The newest of each family, which is the default and what a model that ends is followed by; a test
# holds them against the SDK's list.
NEWEST = {"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"}
TOLD_BEFORE = timedelta(days=90)
ENDS = {
    "claude-1.3": date(2024, 11, 6),
    "claude-1.3-100k": date(2024, 11, 6),
    "claude-instant-1.1": date(2024, 11, 6),
    "claude-instant-1.1-100k": date(2024, 11, 6),
    "claude-instant-1.2": date(2024, 11, 6),
    "claude-2.0": date(2025, 7, 21),
    "claude-2.1": date(2025, 7, 21),
    "claude-3-sonnet-20240229": date(2025, 7, 21),
    "claude-3-opus-20240229": date(2026, 1, 5),
    "claude-3-5-haiku-latest": date(2026, 2, 19),
    "claude-3-5-haiku-20241022": date(2026, 2, 19),
    "claude-3-7-sonnet-latest": date(2026, 2, 19),
    "claude-3-7-sonnet-20250219": date(2026, 2, 19),
    "claude-opus-4-0": date(2026, 6, 15),
    "claude-opus-4-20250514": date(2026, 6, 15),
    "claude-sonnet-4-0": date(2026, 6, 15),
    "claude-sonnet-4-20250514": date(2026, 6, 15),
    "claude-mythos-preview": date(2026, 6, 30),
    "claude-sonnet-4-5": date(2026, 11, 30),
    "claude-sonnet-4-5-20250929": date(2026, 11, 30),
}


def successor_of(model: str) -> str:
    """The current model of the same family; of a family that is gone, the general one."""
    return next((new for family, new in NEWEST.items() if family in model), NEWEST["sonnet"])


def current(model: str, *, today: date) -> str:
    """The model while its provider serves it, then its successor."""
    ends = ENDS.get(model)
    return model if ends is None or today < ends else successor_of(model)


def retirement_notes(models: Iterable[str], *, today: date) -> tuple[str, ...]:
    """One sentence for each model that ends soon or has ended."""
    told: list[str] = []
    for model in dict.fromkeys(models):
        ends = ENDS.get(model)
        if ends is None or ends - today > TOLD_BEFORE:
            continue
        left = (ends - today).days
        when = f"ends in {left} days, on {ends}" if left > 0 else f"has ended on {ends}"
        told.append(
            f"The model {model} {when}; its provider does not serve it from then on. "
            f"Name {successor_of(model)} instead (--model, `models:` of the task, PERDURE_MODEL)."
        )
    return tuple(told)
