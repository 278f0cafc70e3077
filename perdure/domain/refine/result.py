"""The result that a refine run ends with: the best output, what it cost, what was saved."""

from perdure.domain.evaluation.outcomes import explain, with_cut_text, with_nothing_to_show
from perdure.domain.refine.state import BestDraft, RefineState
from perdure.domain.run.bookkeeping_messages import SnapshotReport
from perdure.domain.run.control import texts_or_addresses
from perdure.domain.run.result import Mark, RunResult, Savings
from perdure.domain.run.result_parts import exhausted_by, tree_artifacts, unadopted
from perdure.domain.run.status_views import spend_report
from perdure.domain.scoring.combine import findings_of
from perdure.domain.scoring.judging import evaluator_limit, evaluator_tokens
from perdure.domain.turns.output_schema import NOT_LOOKED_AT
from perdure.domain.turns.turn import Ending


def refine_result(
    state: RefineState,
    *,
    run: str,
    ending: Ending,
    explanation: str | None,
    returned: BestDraft | None,
    met: bool,
    wall_time: float,
    tree: SnapshotReport | None,
    evaluator_share: float = 1.0,
    structured: bool = False,
) -> RunResult:
    """What the run returns.

    `returned` is the best version, except where another one passed all that decides: then that
    one is the output, and the best stands beside it.
    """
    outcome, reason, detail = ending.outcome, ending.reason, ending.detail
    told = explanation or explain(outcome, reason, detail)
    return RunResult(
        id=run,
        kind="refine",
        outcome=outcome,
        reason=reason,
        explanation=with_cut_text(told, cut=returned.truncated)
        if returned
        else with_nothing_to_show(told),
        quality_met=met,
        fits_schema=returned is not None and not returned.misfits if structured else None,
        misfits=returned.misfits if returned else NOT_LOOKED_AT if structured else (),
        partial=returned is None or returned.partial,
        truncated=returned is not None and returned.truncated,
        output_ref=returned.output.hash if returned else None,
        # Beside another output that passed all that decides, this is still the best by score.
        best=_mark(state.kept),
        last=state.last,
        iterations=tuple(state.records),
        iteration_count=state.record_count,
        spend=spend_report(state, wall_time=wall_time),
        savings=savings_of(state, evaluator_share=evaluator_share),
        open_findings=findings_of(returned.evaluation if returned else None),
        skills=state.recollection.skills,
        read_only=state.answer_only is not None and state.answer_only.kind == "read_only",
        artifacts=tree_artifacts(tree, kept=returned.tree if returned else None),
        tools_used=dict(state.turn.tallies.used),
        exhausted=exhausted_by(outcome, reason, detail),
        transcript=state.turn.head.hash if state.turn.head else None,
        unread_input=_unread(state),
        models_used=tuple(state.models_used),
        error=detail or None if outcome == "failed" else None,
        forked_from=state.forked_from,
        started_at=state.started_at,
    )


def savings_of(state: RefineState, *, evaluator_share: float = 1.0) -> Savings:
    """What was sent, what a loop that resends everything would have sent, and the judge's part."""
    spent, economy = state.budget.spent, state.economy
    # Calls without an answer were sent too, and are paid for.
    sent = (spent.usage + spent.unconfirmed).prompt_tokens
    return Savings(
        naive_input_tokens=sent + economy.spared,
        input_tokens=sent,
        evaluations_skipped=economy.evaluations_skipped,
        judge_calls_saved=economy.judge_calls_saved,
        evaluator_tokens=evaluator_tokens(state),
        evaluator_limit=evaluator_limit(state, evaluator_share),
    )


def _unread(state: RefineState) -> tuple[str, ...]:
    """What people said and no draft was written with; amendments as well as input."""
    control = state.control
    inputs = texts_or_addresses((*state.turn.unread, *control.inputs))
    return (*inputs, *control.guidance, *unadopted(control))


def _mark(version: BestDraft | None) -> Mark | None:
    if version is None:
        return None
    return Mark(iteration=version.iteration, score=version.score, output_ref=version.output.hash)
