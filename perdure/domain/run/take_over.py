"""A run that was reset: a new execution replaces an older one and takes over from it.

`temporal workflow reset` ends an execution and starts another from the middle of its history. State
and counters are those of that moment, but what the older life spent after it stays spent, children
that it started after it work for nobody, and records that it wrote after it are no longer true.
"""

from decimal import Decimal

from perdure.domain.budget.accounting import Spend
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.tolerance import read
from perdure.domain.run.child_runs import WAVE, ChildStatus, with_child_status
from perdure.domain.run.cost_report import charge_child, money
from perdure.domain.run.result import SpendReport
from perdure.domain.run.resume import Booked, spent_with
from perdure.domain.run.state import LoopState
from perdure.domain.run.status import RunStatus, StoredRun

# What people read as the reason of a child whose parent was reset to before it began.
BY_RESET = "parent_reset"
_OF_AN_END = ("outcome", "reason", "explanation")


class TakeOverRequest(ActivityMessage):
    """Take over a run from the executions before this one.

    Args:
        run: the run.
        root: the root of its tree.
        before: the execution that was reset, whose steps may still be at work.
        children: the number of the newest child that this life knows.
        records: the index of the newest record that this life knows.
        dropped_calls: tool calls of dropped records that this life has counted.
        held: keys of reservations: steps in flight and open children, which are settled later.
        count_cache_reads: how the budget of the run counts tokens.
    """

    run: str
    root: str
    before: str
    children: int = 0
    records: int = 0
    dropped_calls: int = 0
    held: tuple[str, ...] = ()
    count_cache_reads: bool = False


class Orphan(FrozenModel):
    """A child that a life started which was reset; `open` says that it has not ended yet."""

    id: str
    name: str
    kind: str
    open: bool
    spend: SpendReport


class TakeOverReport(ActivityMessage):
    """What the store knows of all lives of a run.

    Args:
        ended: the result, as JSON, of a child that ended in an older life: its parent has it.
        booked: what the run and all below it spent, without what is still held.
        orphans: children of older lives; nothing below them may spend any more.
        children: the number after which children of this life are numbered.
        tool_calls: calls in iterations that were dropped, and that this life has not counted.
    """

    ended: str | None = None
    booked: Booked = Booked()
    orphans: tuple[Orphan, ...] = ()
    children: int = 0
    tool_calls: int = 0


def last_taken_number(known: int, newest: int) -> int:
    """The number after which a new life numbers its children.

    Args:
        known: the newest child that this life knows.
        newest: the newest child that the store knows.

    A wave that was started a moment before the reset may not be stored yet; its numbers are left
    out, so that no child of this life has the id of one that still comes up.
    """
    return max(known, newest) + WAVE


def reopened(row: StoredRun) -> StoredRun:
    """The row of a run that ended and goes on, without what its end wrote."""
    status = None
    if row.status:
        # As any version wrote it: a newer one may have ended the run.
        ended = read(RunStatus, row.status)
        going_on = {"lifecycle": "running", "phase": "starting", **dict.fromkeys(_OF_AN_END)}
        status = ended.model_copy(update=going_on).model_dump_json()
    return row.model_copy(
        update={
            "lifecycle": "running",
            "outcome": None,
            "ended_at": None,
            "result": None,
            "state": None,
            "status": status,
        }
    )


def take_over(state: LoopState, report: TakeOverReport) -> dict[str, object]:
    """Count in the state what all lives spent; returns what an event tells of it."""
    before = state.budget.spent
    for orphan in report.orphans:
        charge_child(state, orphan.id, orphan.spend)
        state.children = with_child_status(state.children, _ended(orphan))
    # After the orphans, not before: what the journal says has their calls already.
    state.by_phase, state.by_model = dict(report.booked.by_phase), dict(report.booked.by_model)
    state.children_started = max(state.children_started, report.children)
    state.dropped_calls += report.tool_calls
    state.budget = state.budget.model_copy(update={"spent": _spent(state, report)})
    spent = state.budget.spent
    return {
        "tokens": spent.tokens - before.tokens,
        "cost_usd": money(max(Decimal(0), spent.cost_usd - before.cost_usd)),
        "ended": [orphan.id for orphan in report.orphans] or None,
    }


def _spent(state: LoopState, report: TakeOverReport) -> Spend:
    spent, orphans = spent_with(state.budget, report.booked.account), report.orphans
    below = [orphan.spend for orphan in orphans]
    again = report.tool_calls + sum(spend.tool_calls for spend in below)
    managers = sum(orphan.kind == "delegation" for orphan in orphans)
    return spent.model_copy(
        update={
            "tool_calls": spent.tool_calls + again,
            "workers": spent.workers + len(below) + sum(spend.workers for spend in below),
            "sub_managers": spent.sub_managers
            + managers
            + sum(spend.sub_managers for spend in below),
        }
    )


def _ended(orphan: Orphan) -> ChildStatus:
    return ChildStatus(
        id=orphan.id,
        name=orphan.name,
        kind=orphan.kind,
        state="ended",
        outcome="stopped",
        reason=BY_RESET,
        tokens=orphan.spend.tokens,
        cost_usd=orphan.spend.cost_usd,
    )
