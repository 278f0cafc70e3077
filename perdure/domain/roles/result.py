"""The result that a run of roles ends with: the best iteration, every verdict, what it cost."""

from perdure.domain.evaluation.outcomes import explain
from perdure.domain.roles.iteration_rules import partial
from perdure.domain.roles.state import KeptIteration, RoleState
from perdure.domain.run.bookkeeping_messages import SnapshotReport
from perdure.domain.run.result import RunResult
from perdure.domain.run.result_parts import (
    exhausted_by,
    told_of_what_is_there,
    tree_artifacts,
    unadopted,
)
from perdure.domain.run.status_views import spend_report
from perdure.domain.turns.turn import Ending

_FINDING_FIELDS = {"severity", "title", "detail", "fix", "location"}


def returned(state: RoleState, *, gate: str | None = None) -> KeptIteration | None:
    """The iteration that the run delivers; where none was completed, what there is of it.

    `gate` is the stage that reviews the others' work, where there is one.
    """
    return state.kept or partial(state, gate=gate)


def role_result(
    state: RoleState,
    *,
    run: str,
    ending: Ending,
    explanation: str | None,
    wall_time: float,
    tree: SnapshotReport | None,
    kept: KeptIteration | None,
) -> RunResult:
    """What the run returns; `kept` is the iteration that it delivers."""
    outcome, reason, detail = ending.outcome, ending.reason, ending.detail
    told = explanation or explain(outcome, reason, detail)
    output = kept.output.hash if kept and kept.output else None
    artifacts = tree_artifacts(tree, kept=kept.tree) if kept else ()
    review = state.last_review
    is_open = review is not None and review.word != "approved"
    return RunResult(
        id=run,
        kind="roles",
        outcome=outcome,
        reason=reason,
        explanation=told_of_what_is_there(told, output=output, artifacts=artifacts),
        quality_met=kept is not None and kept.approved,
        partial=kept is None or kept.partial,
        output_ref=output,
        best=state.best,
        last=state.last,
        iterations=tuple(state.records),
        iteration_count=state.record_count,
        spend=spend_report(state, wall_time=wall_time),
        open_findings=tuple(
            finding.model_dump(mode="json", include=_FINDING_FIELDS)
            for finding in (review.findings if review and is_open else ())
        ),
        artifacts=artifacts,
        tools_used=dict(state.tools_used),
        exhausted=exhausted_by(outcome, reason, detail),
        transcript=_transcript(state),
        unread_input=(*state.control.unread_input, *unadopted(state.control)),
        models_used=tuple(state.models_used),
        error=detail or None if outcome in {"failed", "blocked"} else None,
        forked_from=state.forked_from,
        started_at=state.started_at,
    )


def _transcript(state: RoleState) -> str | None:
    """The newest conversation of a stage."""
    if state.turn.head is not None:
        return state.turn.head.hash
    heads = [one.record.transcript for one in state.done if one.record.transcript]
    return heads[-1] if heads else None
