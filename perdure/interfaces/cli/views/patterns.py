"""Patterns, the schedule of the look for them, and what one look gave."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.memory.entries import Pattern
from perdure.domain.memory.patterns import MineReport, proposable
from perdure.gateway.types import MiningSchedule
from perdure.interfaces.cli.views.formatting import ago, duration, one_line, plural, score
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, line, stack
from perdure.interfaces.cli.views.listing import Listing

_STYLES = {"proposed": WARN, "approved": GOOD, "rejected": DIM}
NONE = "No patterns. Look for them: perdure patterns schedule --every 24h --now"


def patterns_view(patterns: Sequence[Pattern]) -> RenderableType:
    """One row per pattern, and what a person can do with the proposed ones."""
    if not patterns:
        return line(NONE)
    columns = ("id", "kind", "state", "confidence", "seen", "what")
    rows = [_row(pattern) for pattern in patterns]
    drawn = Listing(columns, rows, right=("confidence", "seen"))
    waiting = next((item for item in patterns if item.state == "proposed"), None)
    if waiting is None:
        return drawn
    way = f"perdure patterns approve {waiting.id} (or reject)"
    return stack(drawn, line((f"make a skill of one: {way}", DIM)))


def schedule_view(schedule: MiningSchedule | None, now: datetime) -> RenderableType:
    """How often patterns are looked for."""
    if schedule is None:
        return line(
            "Patterns are not looked for. Start with: perdure patterns schedule --every 24h"
        )
    often = "" if schedule.every_s is None else f" every {duration(schedule.every_s)}"
    last = f", the last one {ago(schedule.last_at, now)}" if schedule.last_at else ""
    coming = ""
    if schedule.next_at is not None:
        coming = f", the next in {duration(max(0.0, (schedule.next_at - now).total_seconds()))}"
    paused = " (paused)" if schedule.paused else ""
    done = plural(schedule.looks, "look")
    return line(f"Patterns are looked for{often}{paused}: {done} so far{last}{coming}.")


def mined_view(report: MineReport) -> RenderableType:
    """What one look gave."""
    new = f"{report.proposed} of them new proposals" if report.proposed else "nothing new"
    found = f"{plural(report.events, 'event')}, {plural(report.found, 'pattern')}, {new}"
    return line(("✓ ", GOOD), f"looked at {found}")


def _row(pattern: Pattern) -> tuple[Text, ...]:
    weak = pattern.state == "proposed" and not proposable(pattern)
    cells = (
        pattern.id,
        pattern.sort,
        pattern.state,
        score(pattern.confidence),
        str(pattern.seen),
        one_line(pattern.text),
    )
    style = DIM if weak else _STYLES[pattern.state]
    return tuple(Text(cell, style=style if place == 2 else "") for place, cell in enumerate(cells))
