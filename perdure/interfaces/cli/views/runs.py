"""Lists of runs, and the effect of a verb on one or many of them."""

import shlex
from datetime import datetime
from decimal import Decimal

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.run.messages import Receipt
from perdure.gateway.types import BulkReport, Repaired, RunFilter, RunPage, RunRow
from perdure.interfaces.cli.views.layout import (
    DIM,
    GOOD,
    LIFECYCLE_STYLES,
    WARN,
    Listing,
    line,
    stack,
)
from perdure.interfaces.formatting import ago, money, one_line, score

LISTED = 20
GOAL_WIDTH = 36
TROUBLE_WIDTH = 40
FAILING = "its code keeps failing"


def runs_view(page: RunPage, now: datetime, asked: RunFilter | None = None) -> RenderableType:
    """One row per run, newest first, and the command that lists more of those asked for."""
    more = f"more: {_following(asked, page.cursor)}" if page.cursor else ""
    if not page.runs:
        # A page can be empty when few of many stored runs match the filter.
        told = "None of the runs looked at so far fits." if more else "No runs."
        return stack(line(told), _note(page.note), _note(more))
    columns = ("run", "state", "iter", "score", "cost", "started", "goal")
    rows = [_row(run, now) for run in page.runs]
    drawn = Listing(columns, rows, right=("iter", "score", "cost"))
    return stack(drawn, _note(page.note), _note(more))


def _following(asked: RunFilter | None, cursor: str) -> str:
    # A cursor is a place alone: without the same filters, other runs follow it.
    given = {} if asked is None else asked.model_dump(exclude_none=True, exclude={"cursor"})
    if given.get("limit") == LISTED:
        del given["limit"]
    options = (f"--{name}={value}" for name, value in given.items())
    return shlex.join(("perdure", "list", *options, "--cursor", cursor))


GOING_ON = frozenset({"running", "waiting", "paused"})


def receipt_view(run: str, receipt: Receipt) -> Text:
    """What an accepted verb did to one run."""
    note = f" · {one_line(receipt.note, 300)}" if receipt.note else ""
    done = ("✓ ", GOOD)
    # The receipt arrives before the run ends, so its state is still the old one.
    ends = receipt.verb == "stop" and receipt.lifecycle in GOING_ON
    told = "it ends with its best result" if ends else f"now {receipt.lifecycle}"
    return line(done, f"{receipt.verb} {run}: {told}{note}")


def bulk_view(report: BulkReport) -> RenderableType:
    """What a verb did to all matching open runs."""
    took = line(
        ("✓ ", GOOD), f"{report.verb}: taken by {len(report.taken)} of {report.matched} runs"
    )
    refused = [line(("! ", WARN), f"{run}: {one_line(why)}") for run, why in report.refused.items()]
    if not report.matched:
        return stack(line(f"{report.verb}: no open run."), _note(report.note))
    return stack(took, *refused, _note(report.note))


def repaired_view(repaired: Repaired) -> RenderableType:
    """The result of a repair."""
    done = line(
        ("✓ ", GOOD),
        f"{repaired.run} goes on from event {repaired.event}; "
        f"{repaired.sent_again} messages were sent again",
    )
    left = [line(("! ", WARN), f"left out: {one_line(sent)}") for sent in repaired.left_out]
    return stack(done, *left)


def _row(run: RunRow, now: datetime) -> tuple[str | Text, ...]:
    # That a run without an outcome has ended, its lifecycle says.
    phase = run.phase if run.phase != "ended" else None
    state = run.outcome or run.blocked_on or phase or run.lifecycle
    # Instead of the phase: where nothing goes on, a phase would say that something does.
    if run.trouble is not None:
        state = FAILING if run.failing else one_line(run.trouble, TROUBLE_WIDTH)
    shown = run.lifecycle if state == run.lifecycle else f"{run.lifecycle} · {state}"
    # By its text, as a float has more digits than what was paid.
    cost = None if run.cost_usd is None else Decimal(str(run.cost_usd))
    return (
        run.id,
        Text(shown.replace("_", " "), style=LIFECYCLE_STYLES.get(run.lifecycle, "")),
        "" if run.iteration is None else str(run.iteration),
        score(run.score),
        "" if cost is None else money(cost),
        ago(run.started_at, now),
        one_line(run.goal, GOAL_WIDTH) + (f"  [{one_line(run.label, 20)}]" if run.label else ""),
    )


def _note(note: str) -> Text | None:
    return line((note, DIM)) if note else None
