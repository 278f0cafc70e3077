"""From what a delegation run is taken up again, by a retry or a fork, between two decisions."""

from datetime import datetime

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import CurrentIteration, DelegationState
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import fork_of, slim


def between_decisions(state: DelegationState, *, ended: bool = False) -> DelegationState:
    """The state after the newest finished iteration; at the `ended` with what people asked."""
    return slim(state, whole_control=ended).model_copy(
        update={"stage": "manage", "turnover": CurrentIteration(), "unwritten": [], "children": []}
    )


def cleared(state: DelegationState) -> DelegationState:
    """A failed state that may go on: unreadable replies are forgiven, and no end is decided."""
    course = state.course.model_copy(update={"unreadable": 0, "unrated": 0})
    return state.model_copy(update={"course": course, "verdict": "", "claimed": None})


def delegation_fork(
    state: DelegationState,
    spec: DelegationSpec,
    *,
    before: DelegationSpec,
    now: datetime,
    origin: Origin,
) -> DelegationState:
    """The first state of a new run that goes on from another's; its children are its own."""
    say = None if spec.goal == before.goal else f"The task is now: {spec.goal}"
    forked = fork_of(cleared(state), now=now, limits=spec.budget, origin=origin, say=say)
    # A score under another rubric says nothing under this one.
    rated = state.rated if spec.rubric == before.rubric else None
    fresh = {"by_child": {}, "children_started": 0, "rated": rated, "judged_tokens": 0}
    return forked.model_copy(update=fresh)
