"""Schedules on a terminal: the list, and one in full."""

from collections.abc import Sequence

from rich.console import RenderableType

from perdure.domain.schedules.status import ScheduleStatus, Triggered
from perdure.interfaces.cli.views.layout import BAD, GOOD, WARN, heading, line, pairs, stack, table
from perdure.interfaces.formatting import duration, one_line
from perdure.interfaces.schedule_words import (
    OVERLAP_WORDS,
    budget_words,
    local,
    month_words,
    state_words,
    times_words,
    trouble,
)

EMPTY = (
    "Nothing is scheduled. Start a task by the clock: "
    'perdure schedule create NAME TASK --cron "0 9 * * MON-FRI"'
)
SHOWN_NEXT, SHOWN_STARTS = 3, 10


def schedules_view(found: Sequence[ScheduleStatus]) -> RenderableType:
    if not found:
        return line(EMPTY)
    rows = [
        (
            one.plan.name,
            state_words(one),
            times_words(one.plan.times),
            local(one.next_at[0], one.plan.times) if one.next_at else "-",
            month_words(one),
            trouble(one) if one.state != "missing" else "",
        )
        for one in found
    ]
    return table(("name", "state", "when", "next", "this month", ""), rows, whole=("name",))


def schedule_view(status: ScheduleStatus, *, file_words: str = "") -> RenderableType:
    """One schedule with its next and last starts."""
    plan = status.plan
    starts = [
        (local(one.at, plan.times), one.run, one.refused or "")
        for one in status.starts[:SHOWN_STARTS]
    ]
    return stack(
        pairs([
            ("name", plan.name),
            ("state", state_words(status)),
            ("goal", one_line(plan.goal)),
            ("task", plan.source),
            ("", file_words),
            ("when", times_words(plan.times)),
            ("next", "\n".join(local(one, plan.times) for one in status.next_at[:SHOWN_NEXT])),
            ("overlap", OVERLAP_WORDS[plan.overlap]),
            ("catch-up", f"starts up to {duration(plan.catch_up_s)} late are made up for"),
            ("budget", budget_words(plan)),
            ("this month", month_words(status)),
            ("open", ", ".join(status.running)),
            ("starts", f"{status.started}, {status.skipped} skipped" if status.started else ""),
        ]),
        line((f"! {trouble(status)}", WARN)) if trouble(status) else None,
        heading("Last starts") if starts else None,
        table(("when", "run", "refused"), starts, whole=("run",)) if starts else None,
    )  # fmt: skip


def triggered_view(found: Triggered) -> RenderableType:
    """The run of a manual start, or why there is none."""
    if found.run is not None:
        return line(("✓ ", GOOD), f"started {found.run}")
    return line(("✗ ", BAD), f"{found.schedule}: {found.why}")
