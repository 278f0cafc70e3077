"""Where a run of roles resumes: after an iteration, or at the stage where one stopped."""

from collections.abc import Sequence
from datetime import datetime

from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.check_termination import limits_with
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.state import RoleState
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import fork_of, slim, with_records
from perdure.domain.run.spec import CommonSpec
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import TurnState

JUDGE_FAILED = "evaluator_failed"


def between_iterations(state: RoleState, *, ended: bool = False) -> RoleState:
    """The slim state after the last finished iteration, also while the next one has begun.

    What the next one took along is put back, so that it is told again.
    """
    kept = slim(state, whole_control=ended)
    begun = state.begun
    # As before the iteration, which is done again. What it paid for is in the journal.
    spent = state.began if begun else state.budget.spent
    control = kept.control.model_copy(
        update={
            "guidance": [*state.notes, *kept.control.guidance],
            "inputs": [*state.turn.unread, *kept.control.inputs],
        }
    )
    return kept.model_copy(
        update={
            **_FRESH,
            "iteration": state.iteration - 1 if begun else state.iteration,
            "done": [],
            "verdicts": [],
            "turn": TurnState(),
            "begun": False,
            "budget": kept.budget.model_copy(update={"spent": spent}),
            "control": control,
        }
    )


def at_failure(state: RoleState) -> RoleState:
    """The slim state of a run whose stage failed or is blocked: the stages before it stay."""
    kept = slim(state, whole_control=True)
    control = kept.control.model_copy(update={"guidance": [*state.notes, *kept.control.guidance]})
    done = [one for one in state.done if one.record.status == "completed"]
    return kept.model_copy(
        update={
            **_FRESH,
            "stage": state.stage,
            "attempt": state.attempt + 1,
            "done": done,
            "turn": TurnState(),
            "begun": True,
            # The iteration goes on, so its own stages are not past.
            "past": [one for one in state.past if one.iteration != state.iteration],
            # They were counted when the iteration was closed, and will be once more.
            "past_count": state.past_count - len(state.done),
            "verdicts": [],
            "rejections": 0,
            "topics": (),
            "control": control,
        }
    )


def at_review(state: RoleState) -> RoleState:
    """The slim state of a run whose goal judge failed: all stages stay, and the judge is asked."""
    kept = {"doing": "review", "attempt": 1, "verdicts": state.verdicts, "review": state.review}
    return at_failure(state).model_copy(update=kept)


def last_state(state: RoleState) -> RoleState:
    """What an ended run can be taken up from."""
    if state.cut is not None and state.cut.reason == JUDGE_FAILED:
        return at_review(state)
    undone = state.failure is not None or any(one.record.status == "blocked" for one in state.done)
    return at_failure(state) if undone else between_iterations(state, ended=True)


def cleared(state: RoleState) -> RoleState:
    """The state for a retry: rejections in a row are counted anew.

    Whoever retries a run that ended for them grants an iteration, as the answer `retry` would have.
    """
    if not state.rejections:
        return state
    granted = {"rejections": 0, "topics": (), "granted": state.granted + 1}
    return state.model_copy(update=granted)


def first_state(spec: RolesSpec, *, at: datetime) -> RoleState:
    """The state that a run of roles starts in; time limits of its condition begin then."""
    limits = spec.budget
    if spec.roles.snapshot is not None:
        condition = spec.roles.snapshot.definition.termination_condition
        limits = limits_with(limits, condition, started_at=at)
    return RoleState(started_at=at, budget=Budget(limits=limits))


def role_fork(
    state: RoleState, spec: RolesSpec, *, before: CommonSpec, now: datetime, origin: Origin
) -> RoleState:
    """The first state of a fork; rejections and grants of the run it comes from do not count."""
    say = None if spec.goal == before.goal else f"The goal is now: {spec.goal}"
    limits = first_state(spec, at=now).budget.limits
    forked = fork_of(state, now=now, limits=limits, origin=origin, say=say)
    fresh = {
        "rejections": 0,
        "topics": (),
        "spent_by_stage": {},
        "paid_by_stage": {},
        # A fork may begin within an iteration, whose spend is counted from the new account on.
        "began": forked.budget.spent,
    }
    return forked.model_copy(update=fresh)


def completed(state: RoleState, records: Sequence[IterationRecord]) -> RoleState:
    """A stored state with its records; that of an iteration which is done again is left out.

    There the files are those that its finished stages left.
    """
    upto = state.iteration - 1 if state.begun else state.iteration
    full = with_records(state, [record for record in records if record.index <= upto])
    if not state.begun or state.tree is None:
        return full
    # Records know the files of whole iterations only; finished stages of this one left newer ones.
    return full.model_copy(update={"tree": state.tree})


_FRESH: dict[str, object] = {
    "doing": "stage",
    "stage": 0,
    "attempt": 1,
    "turning": False,
    "seats": {},
    "all_terms": [],
    "notes": [],
    "answer": None,
    "urged": 0,
    "question": None,
    "failure": None,
    "cut": None,
    "review": None,
    "achieved": None,
    "why_asked": "",
    "reviewing": False,
    "child": None,
}
