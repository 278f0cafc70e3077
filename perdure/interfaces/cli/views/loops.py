"""Loops of roles: runs, definitions, and the effect of an action."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.run.loop_api import LoopControlled, LoopFacts, LoopParameter, LoopRow, LoopRows
from perdure.interfaces.cli.views.layout import (
    DIM,
    GOOD,
    LIFECYCLE_STYLES,
    WARN,
    Listing,
    line,
    stack,
)
from perdure.interfaces.formatting import ago, money, one_line

GOAL_WIDTH = 40
_ENDS = {
    "evaluation_bound": "approved",
    "goal_bound": "goal achieved",
    "iteration_bound": "iterations done",
    "max_iterations": "iterations done",
    "time_bound": "time is up",
    "timeout": "time is up",
    "tool_bound": "tool's answer",
    "manual": "stopped by you",
}
HOW_TO_START = '\nstart one  perdure loops start NAME "goal" [--param name=value]'


def loops_view(found: LoopRows, now: datetime) -> RenderableType:
    """One row per run, newest first."""
    note = line((found.note, DIM)) if found.note else None
    if not found.loops:
        return stack(line("No loops."), note)
    columns = ("run", "state", "iter", "cost", "started", "goal")
    rows = [_row(run, now) for run in found.loops]
    return stack(Listing(columns, rows, right=("iter", "cost")), note)


def loop_definitions_view(found: Sequence[LoopFacts]) -> RenderableType:
    """One row for each definition, then the command to start one."""
    rows = [
        (
            one.name,
            " → ".join(one.stages),
            _ends(one.ends),
            _parameters(one.parameters),
            one.description,
        )
        for one in found
    ]
    columns = ("name", "stages", "ends", "parameters", "about")
    return stack(Listing(columns, rows), line((HOW_TO_START, DIM)))


def controlled_view(done: LoopControlled) -> RenderableType:
    """The runs that took the action, and why others did not."""
    took = [line(("✓ ", GOOD), f"{done.action} {run}") for run in done.taken]
    refused = [line(("! ", WARN), f"{run}: {one_line(why)}") for run, why in done.refused.items()]
    nothing = None if took or refused else line(f"{done.action}: no open loop.")
    return stack(*took, *refused, nothing, line((done.note, DIM)) if done.note else None)


def _row(run: LoopRow, now: datetime) -> tuple[str | Text, ...]:
    state = run.outcome or run.blocked_on or run.phase or run.lifecycle
    shown = run.lifecycle if state == run.lifecycle else f"{run.lifecycle} · {state}"
    return (
        run.id,
        Text(shown.replace("_", " "), style=LIFECYCLE_STYLES.get(run.lifecycle, "")),
        "" if run.iteration is None else str(run.iteration),
        # By its text, as a float has more digits than what was paid.
        "" if run.cost_usd is None else money(Decimal(str(run.cost_usd))),
        ago(run.started_at, now),
        one_line(run.goal, GOAL_WIDTH),
    )


def _ends(conditions: str) -> str:
    named = conditions.split(", ")
    return ", ".join(_ENDS.get(name, name.replace("_", " ")) for name in named)


def _parameters(parameters: Sequence[LoopParameter]) -> str:
    return ", ".join(one.name if one.required else f"{one.name}?" for one in parameters)
