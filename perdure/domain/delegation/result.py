"""The records and the result of a delegation run: what it decided, and the best that it made."""

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import BestResult, CurrentIteration, DelegationState
from perdure.domain.evaluation.outcomes import Outcome, explain
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import EvaluationMode, overall_score
from perdure.domain.run.bookkeeping_messages import SnapshotReport
from perdure.domain.run.iteration_record import spent_since
from perdure.domain.run.result import Artifact, Mark, RunResult, Savings
from perdure.domain.run.result_parts import (
    exhausted_by,
    told_of_what_is_there,
    tree_artifacts,
)
from perdure.domain.run.status_views import spend_report
from perdure.domain.scoring.combine import dimension_records, findings_of
from perdure.domain.scoring.judging import evaluator_limit
from perdure.domain.turns.records import Decision, IterationRecord
from perdure.domain.turns.turn import Ending

SAID_CHARACTERS = 400
COMPLETED = "completed"
# A refused completion is still what the manager wants to hand over.
CLAIMED_REASONS = frozenset({"completion_rejected", "quality_failed"})
_DECISIONS: dict[Outcome, Decision] = {
    "accepted": "accept",
    "best_effort": "accept_best",
    "out_of_budget": "abort_budget",
    "deadline": "abort_timeout",
    "stopped": "stop",
}


def record_of(state: DelegationState) -> IterationRecord:
    """The finished iteration: what was decided and why, and everything that it used."""
    turnover = state.turnover
    base = turnover.record or IterationRecord(index=state.course.iteration)
    used = spent_since(turnover.began, state.budget.spent)
    decision = turnover.decision
    round = state.course.rounds[-1] if state.course.rounds else None
    said = [decision.decision, decision.reason] if decision is not None else []
    # A reply that nobody could read opens no round, so the newest may be of an earlier iteration.
    note = round.note if round is not None and round.index == base.index else ""
    ending = turnover.ending
    return base.model_copy(
        update={
            "phase": state.phase,
            "decision": _decision(state, ending),
            # Where no rubric scored, what the workers think of their work.
            "score": turnover.confidence if turnover.score is None else turnover.score,
            "dimensions": dimension_records(turnover.evaluation),
            "findings": findings_of(turnover.evaluation),
            "evaluation": _evaluation(turnover),
            "usage": used.total_usage,
            "cost_usd": used.total_cost_usd,
            "model_calls": used.attempts,
            "tool_calls": state.budget.spent.tool_calls - turnover.began.tool_calls,
            "duration_s": used.seconds,
            "output_ref": turnover.made.hash if turnover.made else None,
            "tree_ref": turnover.tree,
            "transcript": turnover.transcript,
            "adaptation": ": ".join(part for part in (*said, note) if part)[:SAID_CHARACTERS]
            or None,
            "break_reason": ending.reason if ending else None,
            "error": _error(turnover),
        }
    )


def keep_rated(state: DelegationState, rubric: Rubric, *, accepted: bool) -> None:
    """Put the rubric's score on what was handed over, and keep the best of all that it scored."""
    claimed, evaluation = state.claimed, state.turnover.evaluation
    if claimed is None or evaluation is None:
        return
    score = overall_score(rubric, evaluation)
    scored = {"score": score, "complete": accepted, "evaluation": evaluation}
    state.claimed = claimed.model_copy(update=scored)
    state.turnover.score = score
    # On a tie the later one, as for work.
    if score is not None and (state.rated is None or score >= (state.rated.score or 0.0)):
        state.rated = state.claimed
        state.best = _mark(state.claimed)


def keep_best(state: DelegationState) -> None:
    """Keep the best work so far; on a tie the later one."""
    turnover, index = state.turnover, state.course.iteration
    mark = Mark(
        iteration=index,
        score=turnover.confidence,
        output_ref=turnover.made.hash if turnover.made else None,
    )
    state.last = mark if turnover.score is None or not state.claimed else _mark(state.claimed)
    if turnover.confidence is None:
        return
    best = state.kept.score if state.kept else None
    if best is None or turnover.confidence >= best:
        # What the rubric scored is measured; what workers think of their work is not.
        state.best = state.best if state.rated is not None else mark
        state.kept = BestResult(
            iteration=index, output=turnover.made, tree=turnover.tree, score=turnover.confidence
        )


def to_hand_over(state: DelegationState, ending: Ending) -> BestResult | None:
    """What is handed over: what was accepted, else the best by the rubric, else a refused claim.

    Without a claim it is the best work.
    """
    claimed, rated = state.claimed, state.rated
    # With a rubric, a claim whose scoring failed is `complete` as well: what was scored goes first.
    if claimed is not None and claimed.complete and (rated is None or ending.reason == COMPLETED):
        return claimed
    if rated is not None:
        return rated
    if claimed is not None and ending.reason in CLAIMED_REASONS:
        return claimed
    return state.kept or claimed


def delegation_result(
    state: DelegationState,
    *,
    run: str,
    spec: DelegationSpec,
    ending: Ending,
    wall_time: float,
    tree: SnapshotReport | None,
) -> RunResult:
    kept = to_hand_over(state, ending)
    outcome, reason, detail = ending.outcome, ending.reason, ending.detail
    score = kept.score if kept else None
    explanation = state.verdict or explain(outcome, reason, detail)
    accepted = outcome == "accepted"
    # A turn that only says how sure it is may be the best one, and has no output.
    output = kept.output.hash if kept and kept.output else None
    artifacts = (
        *tree_artifacts(tree, kept=kept.tree if kept else None),
        *(Artifact(kind="file", ref=path) for path in state.artifacts),
    )
    return RunResult(
        id=run,
        kind="delegation",
        outcome=outcome,
        reason=reason,
        explanation=told_of_what_is_there(explanation, output=output, artifacts=artifacts),
        quality_met=accepted or (score is not None and score >= spec.delegation.evaluation.accept),
        partial=not accepted,
        output_ref=output,
        best=state.best,
        last=state.last,
        iterations=tuple(state.records),
        iteration_count=state.record_count,
        spend=spend_report(state, wall_time=wall_time),
        savings=_evaluator_part(state, spec),
        open_findings=findings_of(kept.evaluation if kept else None),
        artifacts=artifacts,
        tools_used=state.tools_used,
        exhausted=exhausted_by(outcome, reason, detail),
        skills=tuple(state.shelf.versions()),
        tools_created=tuple(dict.fromkeys((*state.tools_created, *state.toolbox.made))),
        made_tools=state.toolbox.made,
        tool_metrics=state.toolbox.metrics,
        confidence=_own_confidence(state, kept),
        models_used=tuple(state.models_used),
        unread_input=state.control.unread_input,
        error=detail or None if outcome == "failed" else None,
        forked_from=state.forked_from,
        started_at=state.started_at,
    )


def _own_confidence(state: DelegationState, kept: BestResult | None) -> float | None:
    """How sure the manager was of what it handed over; None where it did not hand that over."""
    claimed = state.claimed
    if kept is None or claimed is None or kept.output != claimed.output:
        return None
    return claimed.confidence


def _mark(kept: BestResult) -> Mark:
    output = kept.output.hash if kept.output else None
    return Mark(iteration=kept.iteration, score=kept.score, output_ref=output)


def _evaluation(turnover: CurrentIteration) -> EvaluationMode:
    if turnover.unrated is not None:
        return "failed"
    return "none" if turnover.evaluation is None else turnover.evaluation.mode


def _error(turnover: CurrentIteration) -> str | None:
    ending = turnover.ending
    if turnover.unrated is not None:
        return turnover.unrated
    return (ending.detail or None) if ending and ending.outcome == "failed" else None


def _evaluator_part(state: DelegationState, spec: DelegationSpec) -> Savings:
    """What the judges of a rubric used of their share; nothing else is economized here."""
    if spec.rubric is None:
        return Savings()
    spent = state.budget.spent
    sent = (spent.usage + spent.unconfirmed).prompt_tokens
    return Savings(
        naive_input_tokens=sent,
        input_tokens=sent,
        evaluator_tokens=state.judged_tokens,
        evaluator_limit=evaluator_limit(state, spec.delegation.evaluator_share),
    )


def _decision(state: DelegationState, ending: Ending | None) -> Decision:
    if ending is not None:
        return _DECISIONS.get(ending.outcome, "abort_error")
    decision = state.turnover.decision
    return "escalate" if decision is not None and decision.decision == "escalate" else "continue"
