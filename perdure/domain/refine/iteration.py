"""One iteration of the refine loop as values: the facts it decides on, its record, its result."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from perdure.domain.budget import TIME_DIMENSIONS, Refused, exhausted
from perdure.domain.evaluation import Evaluation, Finding, deciding_pass, items_pass
from perdure.domain.outcomes import Outcome, explain
from perdure.domain.refine.decision import Decision, Facts, Failure
from perdure.domain.refine.parts import failing_parts
from perdure.domain.refine.scoring import dimension_records, score_of
from perdure.domain.refine.settings import RefineSettings
from perdure.domain.refine.state import Draft, Kept, RefineState
from perdure.domain.result import (
    Artifact,
    Exhausted,
    IterationRecord,
    Mark,
    RunResult,
    Savings,
)
from perdure.domain.rubric import Rubric
from perdure.domain.steps import SnapshotReport
from perdure.domain.termination import LoopFacts
from perdure.domain.tokens import estimate
from perdure.domain.views import spend_report

NO_OUTPUT = "The iteration gave no output."


def facts_of(
    state: RefineState,
    *,
    settings: RefineSettings,
    rubric: Rubric,
    now: datetime,
    repeated: bool,
    failure: Failure | None,
) -> Facts:
    """Everything the decision table looks at, the newest iteration included."""
    wall = (now - state.started_at).total_seconds()
    spent = exhausted(state.budget, wall_time=wall)
    evaluation = state.draft.evaluation
    scored = evaluation is not None and state.trajectory.current is not None
    return Facts(
        loop=LoopFacts(
            trajectory=state.trajectory,
            active_seconds=state.budget.spent.active_time,
            wall_seconds=wall,
            now=now,
            repeated=repeated,
        ),
        settings=settings,
        exhausted=spent.dimension if spent and spent.dimension not in TIME_DIMENSIONS else None,
        out_of_time=_clock(state, spent, wall),
        deciding_passed=scored and evaluation is not None and deciding_pass(rubric, evaluation),
        items_passed=scored
        and evaluation is not None
        and items_pass(rubric, evaluation, settings.quality_threshold),
        escalation_asked=state.control.escalation is not None,
        tool_loop=state.tool_loop,
        failing_parts=0
        if settings.output.parts == "whole" or evaluation is None
        else len(failing_parts(rubric, evaluation)),
        failure=failure,
        failures_in_a_row=state.failures_in_a_row,
    )


def failure_of(draft: Draft) -> Failure | None:
    """Why the iteration has no score, or None."""
    if draft.failure is None:
        return None
    return Failure(
        reason=draft.failure_reason or "model_error",
        message=draft.failure,
        heals=draft.overflow,
    )


def record_of(
    state: RefineState, base: IterationRecord, *, decision: Decision, rubric: Rubric
) -> IterationRecord:
    """The record of the finished iteration."""
    draft = state.draft
    return base.model_copy(
        update={
            "decision": decision.decision,
            "score": state.trajectory.current,
            "gain": state.trajectory.gain,
            "dimensions": dimension_records(draft.evaluation),
            "findings": findings_of(draft.evaluation),
            "evaluation": draft.kind,
            "output_ref": draft.output.hash if draft.output else None,
            "tree_ref": draft.tree,
            "transcript": state.turn.head.hash if state.turn.head else None,
            "break_reason": decision.row if decision.ends else base.break_reason,
            "error": draft.failure,
        }
    )


def kept_of(state: RefineState) -> Kept | None:
    """The draft as a version that could be returned."""
    draft = state.draft
    if draft.output is None:
        return None
    return Kept(
        iteration=state.iteration,
        output=draft.output,
        score=state.trajectory.current,
        evaluation=draft.evaluation,
        tree=draft.tree,
    )


def later_tokens(state: RefineState, newest: Kept | None) -> int:
    """What the context of an iteration adds to a prompt: the task, the last draft, the delta."""
    if newest is None:
        return state.task_tokens
    delta = estimate(newest.evaluation.model_dump_json()).total if newest.evaluation else 0
    return state.task_tokens + newest.output.tokens.total + delta // 2


def findings_of(evaluation: Evaluation | None) -> tuple[dict[str, JsonValue], ...]:
    """Open findings as plain data."""
    found: Sequence[Finding] = evaluation.findings if evaluation else ()
    return tuple(finding.model_dump(mode="json", exclude_none=True) for finding in found)


def refine_result(
    state: RefineState,
    *,
    run: str,
    outcome: Outcome,
    reason: str,
    detail: str,
    met: bool,
    wall_time: float,
    tree: SnapshotReport | None,
    loose: Kept | None = None,
) -> RunResult:
    """What the run returns: the best iteration's output, whatever the newest was."""
    best = state.kept or loose
    return RunResult(
        id=run,
        kind="refine",
        outcome=outcome,
        reason=reason,
        explanation=explain(outcome, reason, detail),
        quality_met=met,
        partial=best is None or outcome not in {"accepted"},
        output_ref=best.output.hash if best else None,
        best=_mark(best),
        last=_mark(state.newest),
        iterations=tuple(state.records),
        iteration_count=state.record_count,
        spend=spend_report(state, wall_time=wall_time),
        savings=Savings(
            evaluations_skipped=state.evaluations_skipped,
            judge_calls_saved=state.judge_calls_saved,
            input_tokens=state.budget.spent.usage.prompt_tokens,
        ),
        open_findings=findings_of(best.evaluation if best else None),
        artifacts=_artifacts(tree, best),
        tools_used=dict(state.turn.tallies.used),
        exhausted=_exhausted(outcome, reason, detail),
        transcript=state.turn.head.hash if state.turn.head else None,
        unread_input=tuple(given.text for given in state.control.inputs),
        models_used=tuple(state.models_used),
        error=detail or None if outcome == "failed" else None,
        started_at=state.started_at,
    )


def rescored(state: RefineState, evaluation: Evaluation, rubric: Rubric) -> RefineState:
    """The state with the best output scored anew under an amended rubric."""
    score = score_of(rubric, evaluation)
    if state.kept is None:
        return state
    kept = state.kept.model_copy(update={"score": score, "evaluation": evaluation})
    best = state.trajectory.best
    trajectory = state.trajectory.model_copy(
        update={
            "best": best.model_copy(update={"score": score}) if best else None,
            "latest": score,
            "best_before": None,
            "falls": 0,
        }
    )
    return state.model_copy(update={"kept": kept, "trajectory": trajectory})


def _mark(version: Kept | None) -> Mark | None:
    if version is None:
        return None
    return Mark(iteration=version.iteration, score=version.score, output_ref=version.output.hash)


def _artifacts(tree: SnapshotReport | None, best: Kept | None) -> tuple[Artifact, ...]:
    if tree is None:
        return ()
    ref = best.tree if best and best.tree else tree.tree.hash
    kept = [Artifact(kind="tree", ref=ref)]
    if tree.patch is not None:
        note = "take over with `perdure apply`"
        kept.append(Artifact(kind="patch", ref=tree.patch.hash, note=note))
    return tuple(kept)


def _exhausted(outcome: Outcome, reason: str, detail: str) -> Exhausted | None:
    if outcome in {"out_of_budget", "deadline"}:
        return Exhausted(dimension=reason, text=detail or reason)
    return None


def _clock(
    state: RefineState, spent: Refused | None, wall: float
) -> Literal["active_time", "wall_time"] | None:
    if spent is not None and spent.dimension == "wall_time":
        return "wall_time"
    if spent is not None and spent.dimension == "active_time":
        return "active_time"
    for clock in ("wall_time", "active_time"):
        left = state.budget.remaining(clock, wall_time=wall)
        if left is not None and left <= 0:
            return clock
    return None
