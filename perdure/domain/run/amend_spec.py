"""What a person may edit of a run that goes on: its goal, its limit of iterations, its metadata."""

import json
from collections.abc import Mapping
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.budget.amend import beyond_share_refusal
from perdure.domain.evaluation.human_scores import BadScores, read_scores
from perdure.domain.foundation.plain_text import folded
from perdure.domain.foundation.problems import problems_of
from perdure.domain.run import gates as gating
from perdure.domain.run.child_questions import Question
from perdure.domain.run.control import Control, gate_named
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import AddInput, Amend, Answer, AnyMessage
from perdure.domain.run.spec import ROOT_RUN, STARTED_BY, CommonSpec

AnySpec = TypeVar("AnySpec", bound=CommonSpec)
LIMIT = "max_iterations"
METADATA_BYTES = 256 * 1024
GOAL_CHANGED = "The goal was changed. From now on it is: {goal}"


def edited(spec: AnySpec, message: Amend) -> AnySpec:
    """The specification with an amendment's edits; metadata is merged deeply, null removes.

    Raises:
        ValidationError: they make no valid specification.
    """
    # By alias: a check reads its `schema` under that name alone.
    fields: dict[str, JsonValue] = spec.model_dump(mode="json", by_alias=True)
    if message.goal is not None:
        fields["goal"] = message.goal
    if message.metadata is not None:
        fields["metadata"] = merged(_block(fields, "metadata"), message.metadata)
    if message.max_iterations is not None:
        kind = str(fields["kind"])
        fields[kind] = {**_block(fields, kind), LIMIT: message.max_iterations}
    return type(spec).model_validate(fields)


def edit_refusal(spec: CommonSpec, message: Amend, *, completed: int) -> str | None:
    """Why an amendment's edits are not taken, or None.

    Args:
        spec: as it stands.
        message: the amendment.
        completed: iterations that are over already.
    """
    limit = message.max_iterations
    if limit is not None and limit < completed:
        return f"{LIMIT}: found {limit}; {completed} iterations are complete already"
    try:
        after = edited(spec, message)
        # A run carries its metadata to its end, and each amendment could add to it. A run that
        # began with more may keep it, and make it smaller.
        if _size(after) > max(METADATA_BYTES, _size(spec)):
            return (
                f"metadata: {_size(after):,} bytes of JSON, {METADATA_BYTES:,} are allowed; null "
                "removes an entry"
            )
    except ValidationError as error:
        whole = spec.model_dump(mode="json", by_alias=True)
        return "; ".join(str(problem) for problem in problems_of(error, whole))[:500]
    return None


def belonging_refusal(message: AnyMessage) -> str | None:
    """Why a message may not change whose agent started a loop; None for all else.

    Who started that agent may not approve what the loop asks, and could cut it loose to do so.
    """
    named = message.metadata if isinstance(message, Amend) else None
    for name in (STARTED_BY, ROOT_RUN):
        if name in (named or {}):
            return (
                f"metadata.{name}: it says which run's agent started a loop, and stays as it is. "
                "Leave it out, or use another name"
            )
    return None


def merged(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Two objects as one, block by block; the new one wins, and its nulls remove (RFC 7396)."""
    found = dict(old)
    for name, value in new.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            inner = found.get(name)
            found[name] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            found[name] = value
    return found


def _block(fields: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    found = fields.get(name)
    return dict(found) if isinstance(found, dict) else {}


def _size(spec: CommonSpec) -> int:
    return len(json.dumps(spec.metadata.model_dump(mode="json")))


def raise_refusal(
    state: Control, message: AnyMessage, *, budget: Budget, wall_time: float
) -> str | None:
    """Why an answer `raise` would not let the run go on, with the cure; None for all else.

    The answer alone makes no room: it takes a limit that was amended since the question, above
    what is spent.
    """
    if not isinstance(message, Answer) or message.choice != gating.RAISE:
        return None
    gate = gate_named(state, message.gate)
    if gate is None or gate.kind != "budget":
        return None
    spent = budgets.exhausted_limit(
        budget, wall_time=wall_time, within_iteration=gate.within_iteration
    )
    # `>=` below: all that happens in one workflow task has the same time.
    if spent is None and any(
        "budget" in one.changes and one.at >= gate.opened_at for one in state.amendments
    ):
        return None
    found = f"the budget is spent ({spent.text})" if spent else "no limit was raised since it asked"
    named = "cost_usd" if spent and spent.dimension == "cost" else spent and spent.dimension
    return (
        f"gate {gate.name}: {found}. Raise the limit first: "
        f"`perdure amend RUN --budget {named or 'tokens'}=…`, or `amend` with `budget`"
    )


def share_refusal(
    message: AnyMessage, *, budget: Budget, share: BudgetLimits, parent: str | None
) -> str | None:
    """Why a run below another may not have the limits that it is sent; None for all else."""
    if parent is None or not isinstance(message, Amend) or not message.budget:
        return None
    return beyond_share_refusal(budget.limits, message.budget, share=share, parent=parent)


def unheard_refusal(state: Control, message: AnyMessage, *, deadline_passed: bool) -> str | None:
    """Why an answer comes too late for a run that has to end; None for all else."""
    if not isinstance(message, Answer):
        return None
    if state.stop is not None:
        return "the run is stopping, and waits for no answer"
    return "the time limit has passed, and the run waits for no answer" if deadline_passed else None


def unclear_refusal(state: Control, message: AnyMessage) -> str | None:
    """Why an answer's scores may not be those that it begins with; None for all else."""
    gate = gate_named(state, message.gate) if isinstance(message, Answer) else None
    if gate is None or not gate.scores or not isinstance(message, Answer):
        return None
    read = read_scores(gating.said_in(message.choice, message.text), gate.scores)
    return f"gate {gate.id}: {read.problem}" if isinstance(read, BadScores) else None


def undecided_refusal(message: AnyMessage, asked: Gate | Question | None) -> str | None:
    """Why words alone do not answer what is asked, here or below, by choices; None for all else.

    Whoever says in words what a blocked stage lacks wants it to go on, and anything but `retry`
    ends the run.
    """
    if not isinstance(message, Answer) or message.choice is not None:
        return None
    if asked is None or asked.kind != "blocked":
        return None
    needed = ", ".join(asked.choices)
    return f"gate {message.gate} needs {needed}; your words go beside it, as `text`"


def wordless_refusal(message: AnyMessage) -> str | None:
    """Why an answer or an input of which people see nothing is not taken; None for all else."""
    match message:
        case Answer(gate=gate, choice=choice, text=text):
            why = f"gate {gate}: the answer is empty"
            said = gating.said_in(choice, text)
        case AddInput(text=said, ref=None):
            why = "the input is empty"
        case _:
            return None
    # A prompt leaves out a message without words, so the model would be called with nothing new.
    return None if folded(said).strip() else why


def late_refusal(message: AnyMessage, *, deadline_passed: bool) -> str | None:
    """Why more time comes too late for a run whose time limit has passed; None for all else."""
    if not deadline_passed or not isinstance(message, Amend) or not message.budget:
        return None
    if "wall_time" not in message.budget:
        return None
    return "budget.wall_time: the time limit has passed, and the run is ending with its best result"
