"""Statuses and results of runs whose worker does not answer, built from store and server."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.budget.amend import with_amendments
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.outcomes import (
    Lifecycle,
    Outcome,
    explain,
    lifecycle,
    with_nothing_to_show,
)
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.spec import RolesSpec, planned_rounds
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.control import Phase
from perdure.domain.run.result import Mark, RunResult
from perdure.domain.run.status import BudgetStatus, Point, RunStatus, StoredRun
from perdure.domain.run.status_views import metadata_of, stage_results
from perdure.domain.specs import Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.dispatch import PENDING
from perdure.gateway.execution_info import ExecutionInfo

NO_WORKER = "No worker answers; this is what store and server know."
NEVER_STARTED = "The server does not know this run: it was never started, or its history is gone."
# The ending of a run that left no result, under whose id a later start was refused.
LATER_REFUSED = "refused"
# How long after its row is written a run that the server does not know may still be started.
STARTING = timedelta(minutes=1)
_NOT_OURS = {
    LATER_REFUSED: "The run was ended from outside, and a later start under its id was refused",
    "timed_out": "Temporal ended the run at a time limit that was set with its start",
    "unknown": "The Temporal server does not know this run any more",
}
UNLIMITED = BudgetLimits(tokens=None, cost_usd=None, active_time=None, wall_time=None)


def first_status(spec: Spec, run: str, *, now: datetime, dispatch: str | None = None) -> RunStatus:
    """The status of a run that is about to start; `dispatch` is a note if workers are busy."""
    return RunStatus(
        id=run,
        kind=spec.kind,
        goal=spec.goal,
        label=spec.metadata.label,
        metadata=metadata_of(spec),
        lifecycle="running",
        phase="starting",
        iteration_limit=_limit(spec),
        budget=BudgetStatus(limits=spec.budget),
        dispatch=dispatch or PENDING,
        started_at=now,
    )


def amended_limits(limits: BudgetLimits, *, asked: BudgetLimits, row: StoredRun) -> BudgetLimits:
    """Limits of a run with what people changed of them since.

    Args:
        limits: those of an earlier state, or of the start.
        asked: those of the run's specification, which an amendment does not change.
        row: of the run; its status has the limits of now.
    """
    if row.status is None:
        return limits
    kept = read_stored(RunStatus, row.status, what=f"the status of {row.id}").budget.limits
    return with_amendments(limits, asked=asked, kept=kept)


def amended_spec(spec: Spec, row: StoredRun) -> Spec:
    """The specification of a run with the limits that people set since its start."""
    limits = amended_limits(spec.budget, asked=spec.budget, row=row)
    return spec.model_copy(update={"budget": limits})


def _limit(spec: Spec) -> int | None:
    match spec:
        case AgentSpec():
            return spec.agent.max_iterations
        case RefineSpec():
            return spec.refine.planned_limit
        case RolesSpec():
            return planned_rounds(spec.roles)
        case DelegationSpec():
            return spec.delegation.max_iterations


def may_begin(row: StoredRun, now: datetime) -> bool:
    """Whether a run that the server does not know may still get there: its row is new.

    An experiment writes the row in a step of its own, and a server that is away takes no start.
    """
    return row.ended_at is None and now < row.started_at + STARTING


def stored_status(row: StoredRun) -> RunStatus:
    kept = (
        read_stored(RunStatus, row.status, what=f"the status of {row.id}")
        if row.status
        else _bare(row)
    )
    kept = kept.model_copy(update={"source": "store"})
    if row.ended_at is None:
        return kept
    result = (
        read_stored(RunResult, row.result, what=f"the result of {row.id}") if row.result else None
    )
    began = kept.started_at or row.started_at  # the row has the time of the host that started it
    kept = kept.model_copy(
        update={
            "phase": "ended",
            "lifecycle": _lifecycle(row.lifecycle),
            "outcome": row.outcome,
            "step": None,
            "gates": (),
            "questions": (),
            # Never below 0: both times may come from hosts whose clocks differ.
            "elapsed_s": max(0.0, round((row.ended_at - began).total_seconds(), 3)),
        }
    )
    return kept if result is None else _with_result(kept, result)


def away_status(look: ExecutionInfo, row: StoredRun | None) -> RunStatus:
    """The status of an open run whose worker is away: its row, updated from the server."""
    base = stored_status(row) if row is not None else _of_look(look)
    known: dict[str, object] = {
        "lifecycle": _lifecycle(look.text("PerdureLifecycle") or base.lifecycle),
        "phase": look.text("PerdurePhase") or base.phase,
        "blocked_on": look.text("PerdureBlockedOn"),
        "iteration": int(look.number("PerdureIteration") or base.iteration),
        "started_at": base.started_at or look.started_at,
        "explanation": NO_WORKER,
        "source": "store",
    }
    # Validated, unlike by `model_copy`: the words come from search attributes.
    return RunStatus.model_validate({**base.model_dump(), **known})


def torn_status(
    base: RunStatus, look: ExecutionInfo | None, *, ending: str | None = None
) -> RunStatus:
    """The status of a run that ended without a result; `ending` if not as `look` has it."""
    stands, outcome, reason = "failed", base.outcome, base.reason
    explanation = f"{NEVER_STARTED} `perdure retry {base.id}` goes on from the store."
    ending = ending or (look.ending if look is not None else None)
    if ending is not None:
        stands = torn_lifecycle(ending)
        explanation = torn_sentence(ending)
        outcome, reason = torn_end(ending)
    return base.model_copy(
        update={
            "lifecycle": stands,
            "phase": "ended",
            "blocked_on": None,
            "outcome": outcome,
            "reason": reason,
            "explanation": explanation,
            "source": "store",
            "gates": (),
            "questions": (),
            "children": (),
            "runs_below": tuple(_over(child) for child in base.runs_below),
            "budget": base.budget.model_copy(
                update={"reserved_tokens": 0, "reserved_cost_usd": Decimal(0)}
            ),
            "step": None,
            "stage": None,
        }
    )


def _over(child: ChildStatus) -> ChildStatus:
    """A child of a closed run; an open one is shown as stopped, since it was told to end."""
    if not child.open:
        return child
    return child.model_copy(
        update={"state": "ended", "outcome": "stopped", "reason": "parent_closed"}
    )


def torn_end(ending: str) -> tuple[Outcome, str]:
    """Outcome and reason of a run that was closed this way, without a result."""
    return ("stopped", "stopped") if torn_lifecycle(ending) == "stopped" else ("failed", "internal")


def torn_lifecycle(ending: str) -> Lifecycle:
    """The lifecycle of a run that was closed this way, without a result."""
    return "stopped" if ending in {"terminated", "canceled", "cancelled"} else "failed"


def torn_sentence(ending: str) -> str:
    """What happened to a run that left no result."""
    if ending == LATER_REFUSED:
        return f"{_NOT_OURS[ending]}; it left no result."
    return f"The run was ended from outside ({ending.replace('_', ' ')}) and left no result."


def _torn_explanation(ending: str, why: str) -> str:
    """Why a run that was closed this way has no result of its own."""
    if ending in _NOT_OURS:
        return f"{_NOT_OURS[ending]}; this is the best result so far."
    detail = why or ending
    stopped = torn_lifecycle(ending) == "stopped"
    return explain(*torn_end(ending), f"ended from outside: {detail}" if stopped else detail)


def torn_result(
    row: StoredRun, records: Sequence[IterationRecord], *, ending: str, why: str
) -> RunResult:
    """The result of a run that left none: its records, and why it ended."""
    outcome, reason = torn_end(ending)
    scored = [record for record in records if record.score is not None]
    best = max(scored, key=lambda record: (record.score or 0.0, record.index), default=None)
    shown = best or next((item for item in reversed(records) if item.output_ref), None)
    told = _torn_explanation(ending, why)
    return RunResult(
        id=row.id,
        kind=row.kind,
        outcome=outcome,
        reason=reason,
        explanation=told if shown and shown.output_ref else with_nothing_to_show(told),
        partial=True,
        output_ref=shown.output_ref if shown else None,
        best=_mark(shown),
        last=_mark(records[-1]) if records else None,
        iterations=tuple(records),
        iteration_count=len(records),
        error=why or None,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def of_result(result: RunResult, *, goal: str) -> RunStatus:
    """The status of an ended run, from its result alone."""
    base = RunStatus(
        id=result.id,
        kind=result.kind,
        goal=goal,
        lifecycle=lifecycle(result.outcome),
        phase="ended",
        budget=BudgetStatus(limits=UNLIMITED),
        started_at=result.started_at,
        source="store",
    )
    return _with_result(base, result)


def _with_result(status: RunStatus, result: RunResult) -> RunStatus:
    spend = result.spend
    budget = status.budget.model_copy(
        update={
            "tokens": spend.tokens,
            "cost_usd": spend.cost_usd,
            "model_calls": spend.model_calls,
            "tool_calls": spend.tool_calls,
            "active_time_s": spend.active_time_s,
            "reserved_tokens": 0,
        }
    )
    points = tuple(
        Point(iteration=item.index, score=item.score, decision=item.decision)
        for item in result.iterations
    )
    return status.model_copy(
        update={
            "lifecycle": lifecycle(result.outcome),
            "outcome": result.outcome,
            "reason": result.reason,
            "explanation": result.explanation,
            "iteration": result.iteration_count or len(result.iterations),
            # A result has only the newest iterations; the row has them all.
            "trajectory": status.trajectory or points,
            "stages": status.stages or stage_results(result.iterations),
            "best": result.best,
            "budget": budget,
            "elapsed_s": spend.wall_time_s or status.elapsed_s,
        }
    )


def _bare(row: StoredRun) -> RunStatus:
    phase: Phase = "starting" if row.ended_at is None else "ended"
    return RunStatus(
        id=row.id,
        kind=row.kind,
        goal=row.goal,
        label=row.label,
        lifecycle=_lifecycle(row.lifecycle),
        phase=phase,
        budget=BudgetStatus(limits=UNLIMITED),
        started_at=row.started_at,
    )


def _of_look(look: ExecutionInfo) -> RunStatus:
    return RunStatus(
        id=look.id,
        kind=look.kind,
        goal=look.memo.get("goal", ""),
        label=look.memo.get("label") or look.text("PerdureLabel"),
        lifecycle="running",
        phase="starting",
        budget=BudgetStatus(limits=UNLIMITED),
        started_at=look.started_at,
    )


def _lifecycle(word: str) -> Lifecycle:
    match word:
        case "running" | "paused" | "waiting" | "completed" | "failed" | "stopped":
            return word
        case _:
            return "running"


def _mark(record: IterationRecord | None) -> Mark | None:
    if record is None:
        return None
    return Mark(iteration=record.index, score=record.score, output_ref=record.output_ref)
