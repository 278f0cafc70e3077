"""One iteration of the refine loop: update the best, gather facts to decide, record it."""

from datetime import datetime
from typing import Literal

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import TIME_DIMENSIONS, LimitReached
from perdure.domain.evaluation.check_termination import TerminationFacts
from perdure.domain.evaluation.outcomes import explain
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import (
    Evaluation,
    failing,
    has_passed_all_items,
    has_passed_deciding_checks,
)
from perdure.domain.evaluation.trajectory import PERFECT, rounded
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import estimate
from perdure.domain.outputs.parts import failing_parts
from perdure.domain.refine.spec import RefineSettings
from perdure.domain.refine.state import BestDraft, Draft, RefineState
from perdure.domain.refine.stop_rules import Decision, Facts, Failure
from perdure.domain.refine.token_savings import saved_share
from perdure.domain.run.hooks import adaptation_lines
from perdure.domain.run.iteration_record import spent_since
from perdure.domain.run.result import Mark
from perdure.domain.scoring.combine import dimension_records, findings_of, score_of
from perdure.domain.scoring.feedback import delta_feedback, failure_feedback
from perdure.domain.turns.records import Decision as DecisionKind
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending

ADAPTATION_CHARACTERS = 400
NOT_PROMPTED = {"dimensions": {"__all__": {"counted"}}}


IN_GENERAL = "general refinement"


def told_to_change(state: RefineState, *, rubric: Rubric, settings: RefineSettings) -> str:
    """The delta in one line; empty for `strategies`, where each names its approach itself."""
    if settings.pattern == "strategies":
        return ""
    evaluation = state.newest.evaluation if state.newest else None
    threshold = settings.quality_threshold
    delta = delta_feedback(rubric, evaluation, threshold=threshold) if evaluation else ""
    told = failure_feedback(state.last_error, delta) if state.last_error else delta
    lines = [" ".join(line.removeprefix("- ").split()) for line in told.splitlines()]
    said = "; ".join(line for line in lines if line) or IN_GENERAL
    return clipped(said, ADAPTATION_CHARACTERS)


def adaptation_text(before: str | None, told: str) -> str | None:
    """What changed already, such as the model, and what is to change next."""
    return "; ".join(part for part in (before, told) if part) or None


# The rows that are termination conditions; the others that end a run are limits and failures.
CONDITION_ROWS = frozenset(
    {"quality", "tree", "max_iterations", "hard_limit", "repeated", "degradation", "little_gain"}
)


def note_draft(state: RefineState, rubric: Rubric) -> None:
    """Add the draft to trajectory, seen outputs and best, before anything is decided."""
    draft, version = state.draft, draft_version(state)
    # A failure outweighs the evaluation: one that lacks a person's answer carries their earlier
    # scores, and would look complete.
    score = None if draft.failure is not None else score_of(rubric, draft.evaluation)
    state.trajectory = state.trajectory.after(score, has_output=version is not None)
    if draft.output_hash is not None:
        # Looked up before it is noted: behind that, each output would have been seen.
        draft.repeated = draft.output_hash in state.seen.hashes
        state.seen = state.seen.noted(draft.output_hash)
    state.failures_in_a_row = state.failures_in_a_row + 1 if draft.failure is not None else 0
    state.last_error = draft.failure or (draft.cut.detail if draft.cut else None)
    # Counted here and not when it starts: inside it, the last permitted one is not yet spent.
    state.budget = budgets.count(state.budget, iterations=1)
    _keep(state, None if version is None else version.model_copy(update={"score": score}))


def _keep(state: RefineState, version: BestDraft | None) -> None:
    score = state.trajectory.current
    address = version.output.hash if version else None
    state.last = Mark(iteration=state.iteration, score=score, output_ref=address)
    if version is None:
        return
    # The next draft is compared with the last scored one: of an unscored one nobody knows what to
    # keep.
    if score is not None:
        state.newest = version
    best = state.trajectory.best
    # By the iteration, as a tie of scores makes the newer draft the best.
    if best is not None and best.iteration == state.iteration:
        state.kept, state.best = version, state.last
        # Half a draft leaves the reserve closed, which pays for a closing text.
        if not version.partial:
            state.budget = state.budget.model_copy(update={"complete_output": True})


def written(draft: Draft) -> BlobRef | None:
    """The output, or what was written of it when nothing was evaluated."""
    return draft.output or (draft.pieces[0] if draft.pieces else None)


def draft_version(state: RefineState) -> BestDraft | None:
    """The draft as a version that could be returned."""
    draft, output = state.draft, written(state.draft)
    if output is None:
        return None
    return BestDraft(
        iteration=state.iteration,
        output=output,
        output_hash=draft.output_hash,
        score=state.trajectory.current,
        evaluation=draft.evaluation,
        tree=draft.tree,
        # Pieces are joined where a draft is checked; of an unchecked one only the first is
        # returned.
        partial=draft.partial or draft.output is None,
        truncated=draft.truncated,
        misfits=draft.misfits,
        changed=draft.changes.spans if draft.changes else (),
        adaptation=state.adaptation,
        demands=draft.demands,
    )


def facts_of(
    state: RefineState, *, settings: RefineSettings, rubric: Rubric, now: datetime
) -> Facts:
    """Everything the decision table looks at, the newest iteration included."""
    draft, evaluation = state.draft, state.draft.evaluation
    wall = (now - state.started_at).total_seconds()
    spent = budgets.exhausted_limit(state.budget, wall_time=wall)
    scored = state.trajectory.current is not None
    return Facts(
        loop=TerminationFacts(
            trajectory=state.trajectory,
            active_seconds=state.budget.spent.active_time,
            wall_seconds=wall,
            now=now,
            repeated=draft.repeated,
            # A draft without a score achieves nothing, whatever a judge said of it.
            goal_achieved=_goal_achieved(settings, rubric, evaluation) if scored else None,
            tool_outputs={tool: str(n) for tool, n in state.turn.tallies.numbers.items()},
        ),
        settings=settings,
        exhausted=_spent_dimension(draft.cut, spent),
        out_of_time=_clock(state, draft.cut, wall),
        deciding_passed=scored
        and evaluation is not None
        and has_passed_deciding_checks(rubric, evaluation),
        items_passed=scored
        and evaluation is not None
        and has_passed_all_items(rubric, evaluation, settings.quality_threshold),
        escalation_asked=state.control.escalation is not None,
        tool_loop=state.tool_loop,
        failing_parts=_parts_left(settings, rubric, evaluation),
        answer_only=state.answer_only.kind if state.answer_only else None,
        failure=failure_of(draft),
        failures_in_a_row=state.failures_in_a_row,
    )


def quality_met(settings: RefineSettings, rubric: Rubric, version: BestDraft | None) -> bool:
    """Whether an output is good enough, however the run that returns it ends.

    It is when all its deciding dimensions pass, or when its score reaches the threshold, a full
    score where there is none; a checklist is met by all its items alone.
    """
    if version is None or version.score is None or version.evaluation is None or version.misfits:
        return False
    if settings.pattern == "checklist":
        return has_passed_all_items(rubric, version.evaluation, settings.quality_threshold)
    if has_passed_deciding_checks(rubric, version.evaluation):
        return True
    threshold = settings.success_threshold
    return version.score >= rounded(PERFECT if threshold is None else threshold)


def failure_of(draft: Draft) -> Failure | None:
    """Why the iteration has no score, or None."""
    if draft.failure is None:
        return None
    return Failure(
        reason=draft.failure_reason, message=draft.failure, heals=draft.overflow or draft.heals
    )


def cut_decision(ending: Ending) -> Decision:
    """The decision on an iteration that a person, a limit or an error cut short."""
    kinds: dict[str, DecisionKind] = {
        "stopped": "stop",
        "unanswered": "stop",
        "deadline": "abort_timeout",
        "out_of_budget": "abort_budget",
    }
    kind = kinds.get(ending.outcome, "abort_error")
    why = explain(ending.outcome, ending.reason, ending.detail)
    return Decision(kind, kind, why, ending.outcome, ending.reason)


def end_detail(state: RefineState, decision: Decision, *, wall_time: float) -> str:
    """The figures or the error behind a decision that ends the run; empty when there are none."""
    if decision.outcome in {"failed", "no_output"}:
        return state.draft.failure or ""
    if decision.reason == "max_iterations":
        return f"{state.trajectory.completed} iterations"
    if decision.row not in {"budget", "time"}:
        return ""
    if state.draft.cut is not None:
        return state.draft.cut.detail
    spent = budgets.exhausted_limit(state.budget, wall_time=wall_time)
    return spent.text if spent else ""


def record_of(
    state: RefineState,
    base: IterationRecord,
    *,
    decision: Decision,
    rubric: Rubric,
    settings: RefineSettings,
) -> IterationRecord:
    """The record of the finished iteration; what it used is everything spent since it began."""
    draft, output = state.draft, written(state.draft)
    used = spent_since(draft.began, state.budget.spent)
    goes_on = decision.decision == "continue"
    told = told_to_change(state, rubric=rubric, settings=settings) if goes_on else ""
    computed = "; ".join(adaptation_lines(draft.adapted or {}))
    said = "; ".join(part for part in (computed, draft.unadapted, told) if part)
    return base.model_copy(
        update={
            "phase": state.phase,
            "decision": decision.decision,
            "score": state.trajectory.current,
            "gain": state.trajectory.gain,
            "dimensions": dimension_records(draft.evaluation),
            "findings": findings_of(draft.evaluation),
            "evaluation": draft.kind,
            "unexplained": draft.slips,
            "saved": saved_share(state.economy),
            "usage": used.total_usage,
            "cost_usd": used.total_cost_usd,
            "model_calls": used.attempts,
            "duration_s": used.seconds,
            "output_ref": output.hash if output else None,
            "output_hash": draft.output_hash,
            "tree_ref": draft.tree,
            "transcript": state.turn.head.hash if state.turn.head else base.transcript,
            "break_reason": decision.row if decision.ends else base.break_reason,
            "adapted": draft.adapted,
            "adaptation": adaptation_text(base.adaptation, said),
            "error": draft.failure or (draft.cut.detail or None if draft.cut else None),
        }
    )


def later_tokens(state: RefineState, newest: BestDraft | None) -> int:
    """What the context of an iteration adds to a prompt: the task, the last draft, the delta."""
    if newest is None:
        return state.task_tokens
    # Without the counts that only people are shown: they are in no prompt.
    told = newest.evaluation and newest.evaluation.model_dump_json(exclude=NOT_PROMPTED)
    delta = estimate(told).total if told else 0
    return state.task_tokens + newest.output.tokens.total + delta // 2


def rescore_best(
    state: RefineState, evaluation: Evaluation | None, rubric: Rubric, *, demands: str
) -> None:
    """Score the best output anew by what was amended; without a verdict it is unscored."""
    if state.kept is None or state.trajectory.best is None:
        return
    score = score_of(rubric, evaluation)
    anew = {"score": score, "evaluation": evaluation, "demands": demands}
    state.kept = state.kept.model_copy(update=anew)
    state.best = state.best and state.best.model_copy(update={"score": score})
    # Other drafts have scores from before, so the next one is compared with the best alone.
    state.newest = state.kept if score is not None else None
    state.trajectory = state.trajectory.model_copy(
        update={
            "best": state.trajectory.best.model_copy(update={"score": score}),
            "latest": score,
            "best_before": None,
            "falls": 0,
        }
    )


def take_rescored_best(state: RefineState) -> None:
    """Take the score by an amended rubric for the newest draft, if that is the best output."""
    if state.kept is None or state.kept.iteration != state.iteration:
        return
    rescored = with_rescored_best(state)
    state.draft, state.trajectory, state.last = rescored.draft, rescored.trajectory, state.best


def with_rescored_best(state: RefineState) -> RefineState:
    """The state to decide on by an amended rubric: with its score of the best output."""
    if state.kept is None:
        return state
    draft = state.draft.model_copy(update={"evaluation": state.kept.evaluation})
    # A score by the older rubric is nothing that this one could have fallen from.
    rescored_now = {"current": state.kept.score, "previous": None}
    trajectory = state.trajectory.model_copy(update=rescored_now)
    return state.model_copy(update={"draft": draft, "trajectory": trajectory})


def _goal_achieved(
    settings: RefineSettings, rubric: Rubric, evaluation: Evaluation | None
) -> bool | None:
    """Whether every judged dimension passes; None if there is none."""
    if not rubric.judged or evaluation is None:
        return None
    open_ones = failing(rubric, evaluation, settings.quality_threshold)
    return not any(dimension.name in open_ones for dimension in rubric.judged)


def _parts_left(settings: RefineSettings, rubric: Rubric, evaluation: Evaluation | None) -> int:
    if settings.output.parts == "whole" or evaluation is None:
        return 0
    return len(failing_parts(rubric, evaluation))


def _spent_dimension(cut: Ending | None, spent: LimitReached | None) -> str | None:
    # The cut counts first: the draft that was cut may be the best one, and opens the reserve, after
    # which nothing looks spent.
    if cut is not None and cut.outcome == "out_of_budget":
        return cut.reason
    return spent.dimension if spent and spent.dimension not in TIME_DIMENSIONS else None


def _clock(
    state: RefineState, cut: Ending | None, wall: float
) -> Literal["active_time", "wall_time"] | None:
    for clock in ("wall_time", "active_time"):
        left = state.budget.remaining(clock, wall_time=wall)
        if left is not None and left <= 0:
            return clock
        # What cut the draft ends the run, even if its clock has time left by now.
        if cut is not None and cut.outcome == "deadline" and cut.reason == clock:
            return clock
    return None
