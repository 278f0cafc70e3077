"""The refine loop's part of resuming: the state that an iteration starts from, and what follows.

What the records of a run hold is left out of the stored state and put back from them.
"""

from collections.abc import Sequence
from datetime import datetime

from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.check_termination import limits_with
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.outputs.diff import SeenOutputs
from perdure.domain.refine.planning import with_fix_steps
from perdure.domain.refine.spec import MAX_ITERATIONS, RefineSpec
from perdure.domain.refine.state import Draft, RefineState
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import fork_of, slim, with_records
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import TurnState


def first_state(spec: RefineSpec, *, at: datetime) -> RefineState:
    """The state that a refine run starts in; time limits of its condition begin then."""
    # The time limits of the task's own condition end a step in flight, as the budget's do.
    limits = limits_with(spec.budget, spec.refine.termination, started_at=at)
    adapting = spec.hooks.adapt
    return RefineState(
        started_at=at,
        budget=Budget(limits=limits),
        stage="recall",
        adaptation=adapting.start if adapting else {},
    )


def between_iterations(state: RefineState, *, ended: bool = False) -> RefineState:
    """The slim state after the last finished iteration, also while the next one has begun.

    What the next one took along (guidance, input) is put back, so that it is told again.
    """
    kept = slim(state, whole_control=ended)
    guidance = [*(state.notes if state.turning else ()), *kept.control.guidance]
    inputs = [*state.turn.unread, *kept.control.inputs]
    spent = state.draft.began if state.turning else state.budget.spent
    return kept.model_copy(
        update={
            "iteration": state.iteration - 1 if state.turning else state.iteration,
            "stage": "execute",
            "turning": False,
            "question": "",
            "turn": TurnState(tallies=state.turn.tallies.model_copy(update={"strikes": 0})),
            "draft": Draft(),
            "seen": SeenOutputs(),
            # Stored once: `completed` puts the kept one in its place.
            "newest": None if state.newest == state.kept else state.newest,
            "tool_loop": "none",
            "notes": [],
            "plan": state.plan
            if state.turning
            else with_fix_steps(state.plan, state.draft.evaluation),
            "budget": kept.budget.model_copy(update={"spent": spent}),
            "control": kept.control.model_copy(update={"guidance": guidance, "inputs": inputs}),
        }
    )


def completed(state: RefineState, records: Sequence[IterationRecord]) -> RefineState:
    """A stored state with what its records hold: seen outputs, the newest of them, the files."""
    kept = state.kept
    # A kept draft without a score was never the newest, which is the last scored one.
    scored = kept if kept is not None and kept.score is not None else None
    seen = SeenOutputs()
    for record in records:
        seen = seen if record.output_hash is None else seen.noted(record.output_hash)
    put_back = {"newest": state.newest or scored, "seen": seen}
    return with_records(state.model_copy(update=put_back), records)


def refine_fork(
    state: RefineState, spec: RefineSpec, *, before: Rubric, now: datetime, origin: Origin
) -> RefineState:
    """The first state of a fork; under another rubric the best is scored anew, as by `amend`.

    Args:
        state: after the iteration that the fork starts from.
        spec: what the fork is told.
        before: the rubric that the state was scored by.
        now: when it starts.
        origin: where it comes from.
    """
    forked = fork_of(
        state,
        now=now,
        limits=limits_with(spec.budget, spec.refine.termination, started_at=now),
        origin=origin,
    )
    # A fork pays for itself alone, so it must not claim what its origin saved.
    economy = state.economy.model_copy(
        update={"spared": 0, "evaluations_skipped": 0, "judge_calls_saved": 0}
    )
    # If somebody forks a run whose goal was taken for a question, it is work now.
    fresh = {"rubric": None, "economy": economy, "answer_only": None}
    forked = forked.model_copy(update=fresh)
    if spec.rubric.digest != before.digest:
        changed = spec.rubric.model_dump(mode="json", by_alias=True)
        control = forked.control.model_copy(update={"rubric": changed})
        forked = forked.model_copy(update={"control": control})
    return forked


def cleared(state: RefineState) -> RefineState:
    """The state of a failed run with its failures forgiven."""
    return state.model_copy(update={"failures_in_a_row": 0, "tool_loop": "none"})


def forgiving(spec: RefineSpec, failures: int) -> RefineSpec:
    """The specification with as many iterations more as were lost to failures in a row."""
    settings = spec.refine
    limit = min(MAX_ITERATIONS, settings.max_iterations + failures)
    more = settings.model_copy(update={"max_iterations": limit})
    return spec.model_copy(update={"refine": more})
