"""Findings compared with the iteration before: new, still open, or resolved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

Written = Mapping[str, JsonValue]
SHOWN = ("severity", "title", "location", "detail", "fix")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFinding:
    """A finding as text, with its standing."""

    standing: Literal["new", "still open", "resolved"]
    severity: str
    title: str
    location: str
    detail: str
    fix: str


def compared(now: Sequence[Written], before: Sequence[Written] | None) -> list[ShownFinding]:
    """The findings of an iteration: new ones first, resolved ones last.

    Args:
        now: its findings.
        before: those of the iteration before; None for the first one.
    """
    earlier = {_name(one) for one in before or ()}
    later = {_name(one) for one in now}
    fresh = [_shown(one, "new") for one in now if _name(one) not in earlier]
    kept = [_shown(one, "still open") for one in now if _name(one) in earlier]
    gone = [_shown(one, "resolved") for one in before or () if _name(one) not in later]
    return [*fresh, *kept, *gone]


def _name(finding: Written) -> tuple[str, ...]:
    """What identifies a finding: its id; without one, its text."""
    known = finding.get("id")
    return (str(known),) if known else tuple(str(finding.get(part, "")) for part in SHOWN[:3])


def _shown(finding: Written, standing: Literal["new", "still open", "resolved"]) -> ShownFinding:
    texts = {name: str(finding.get(name) or "") for name in SHOWN}
    return ShownFinding(standing=standing, **texts)
