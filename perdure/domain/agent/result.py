"""The envelope an agent run starts with, and the result it ends with."""

from typing import Protocol

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentState
from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.outcomes import Outcome, explain, with_cut_text, with_nothing_to_show
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.bookkeeping_messages import SnapshotReport
from perdure.domain.run.control import texts_or_addresses
from perdure.domain.run.result import Mark, RunResult
from perdure.domain.run.result_parts import exhausted_by, tree_artifacts
from perdure.domain.run.status_views import spend_report
from perdure.domain.turns.settings import Turns


class End(Protocol):
    """How a turn loop ended."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def reason(self) -> str: ...
    @property
    def text(self) -> BlobRef | None: ...
    @property
    def fallback(self) -> bool: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def partial(self) -> bool: ...
    @property
    def detail(self) -> str: ...


def agent_budget(spec: AgentSpec, turns: Turns) -> Budget:
    """The task's budget, narrowed by the agent settings: the lower of two limits counts."""
    limits = spec.budget.model_copy(
        update={
            "output_tokens": _lower(spec.budget.output_tokens, turns.output_token_ceiling),
            "active_time": _lower(spec.budget.active_time, turns.active_time),
        }
    )
    return Budget(limits=limits)


def agent_result(
    state: AgentState,
    *,
    run: str,
    turns: Turns,
    end: End,
    wall_time: float,
    tree: SnapshotReport | None,
    structured: bool = False,
    says_nothing: bool = True,
) -> RunResult:
    """What the run returns; without an answer, a fallback text says that there is none.

    So does the explanation, except in the histories of runs that began before (`says_nothing`).
    """
    control, misfits = state.control, state.turn.misfits_of(end.text) if structured else ()
    # An answer that took the last of the budget is whole; a closing text is partial.
    met = end.outcome == "accepted" or (end.outcome == "out_of_budget" and not end.partial)
    iteration = state.turn.iteration
    told = explain(end.outcome, end.reason, end.detail)
    mark = Mark(iteration=iteration, output_ref=end.text.hash if end.text else None)
    return RunResult(
        id=run,
        kind="agent",
        outcome=end.outcome,
        reason=end.reason,
        explanation=with_cut_text(told, cut=end.truncated)
        if end.text or not says_nothing
        else with_nothing_to_show(told),
        quality_met=met and end.text is not None and not misfits,
        fits_schema=not misfits if structured else None,
        misfits=misfits,
        partial=end.partial,
        output=turns.fallback_text if end.text is None else None,
        output_ref=end.text.hash if end.text else None,
        best=mark if end.text else None,
        last=mark if iteration else None,
        iterations=tuple(state.records),
        iteration_count=state.record_count,
        spend=spend_report(state, wall_time=wall_time),
        artifacts=tree_artifacts(tree),
        tools_used=dict(state.turn.tallies.used),
        tool_successes=sum(
            call.outcome == "ok" for record in state.records for call in record.calls
        ),
        exhausted=exhausted_by(end.outcome, end.reason, end.detail),
        skills=state.recalled_skills,
        transcript=state.turn.head.hash if state.turn.head else None,
        unread_input=texts_or_addresses((*state.turn.unread, *control.inputs)),
        models_used=tuple(state.models_used),
        truncated=end.truncated,
        error=end.detail or None if end.outcome == "failed" else None,
        forked_from=state.forked_from,
        started_at=state.started_at,
    )


def _lower(left: float | int | None, right: float | int | None) -> float | int | None:
    # Zero is no limit, so it is never the lower one.
    given = [value for value in (left, right) if value]
    return min(given) if given else None
