"""What a manager may decide: a closed union, told apart by `decision`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.json_extraction import as_text
from perdure.domain.foundation.plain_text import folded
from perdure.domain.foundation.problems import format_value

DecisionName = Literal["delegate", "plan", "diagnose", "complete", "escalate", "fail"]
DECISION_NAMES: tuple[DecisionName, ...] = (
    "delegate",
    "plan",
    "diagnose",
    "complete",
    "escalate",
    "fail",
)
TEMPERATURE = 0.2
HIGHEST_TEMPERATURE = 2.0
MOST_SUBTASKS = 10
MOST_HYPOTHESES = 3
MOST_ENVELOPES = 200

Priority = Literal["low", "normal", "high"]
PRIORITIES: tuple[Priority, ...] = ("low", "normal", "high")


def _clamped(value: float) -> float:
    return min(HIGHEST_TEMPERATURE, max(0.0, value))


def without_blanks(values: Sequence[str]) -> tuple[str, ...]:
    """The texts without space around them; blank ones are left out."""
    return tuple(value.strip() for value in values if value.strip())


Temperature = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_clamped)]
Names = Annotated[tuple[str, ...], AfterValidator(without_blanks)]
WORD_CHARACTERS = 120
Word = Annotated[str, Field(min_length=1, max_length=WORD_CHARACTERS)]


class Envelope(FrozenModel):
    """One piece of work for one worker.

    Args:
        worker: its name; the same name works on with what it knew.
        instructions: what it is to do, whole.
        subtask: the node of the task plan that this works on.
        expected: what the result should be, in words.
        acceptance: what a reviewer measures the result by; empty: the subtask's.
        inputs: facts that it needs, shown to it as data.
        tools: names of the tools that it asks for.
        skills: names of known skills, or Markdown of new ones.
        inherit: keys of the manager's context that a sub-manager gets.
        model: who does it; none: the run's worker model.
        temperature: ignored where the model takes none.
        result_schema: the JSON schema that its result must fit.
        budget_share: its share of what remains, clamped where it is reserved.
        sub_manager: true: it may have workers of its own; false: never; none: as complexity says.
        priority: how much depends on it.
    """

    worker: Word
    instructions: str = Field(min_length=1)
    subtask: str | None = None
    expected: str = ""
    acceptance: str = ""
    inputs: dict[str, JsonValue] = {}
    tools: Names = ()
    skills: Names = ()
    inherit: Names = ()
    model: str | None = None
    temperature: Temperature = TEMPERATURE
    result_schema: dict[str, JsonValue] | None = None
    budget_share: float | None = Field(default=None, allow_inf_nan=False)
    sub_manager: bool | None = None
    priority: Priority = "normal"


def further_try(worker: str, suffix: str) -> str:
    """The name of a worker's further try; as long as a name may be, since steps refuse others."""
    return f"{worker[: WORD_CHARACTERS - len(suffix)]}{suffix}"


# What steers a run is never handed down as data, whatever a manager calls its inputs.
CONTROL_KEYS = frozenset(
    {
        "agent", "budget", "control", "delegation", "gates", "goal", "kind", "learn", "metadata",
        "models", "recall", "rubric", "site", "skills", "tools", "workspace",
    }
)  # fmt: skip


def inherited(envelope: Envelope, inputs: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The named inputs that an envelope hands on; control keys and unknown ones are not."""
    return {
        name: inputs[name]
        for name in envelope.inherit
        if name in inputs and name not in CONTROL_KEYS
    }


def inputs_written(envelope: Envelope) -> dict[str, str]:
    """The inputs that a manager wrote itself, as texts: its model names no blob of the store."""
    return {name: as_text(value) for name, value in envelope.inputs.items()}


class Subtask(FrozenModel):
    """One node of a task plan: what is to be done, after what, and what shows that it is done."""

    id: Word
    title: str = Field(min_length=1)
    depends_on: Names = ()
    acceptance: str = ""


class Hypothesis(FrozenModel):
    """A guess at why the work is stuck, with a cheap test of it."""

    id: Word
    statement: str = Field(min_length=1)
    test: str = Field(min_length=1)


class Delegate(FrozenModel):
    """Give work to workers."""

    decision: Literal["delegate"]
    reason: str = ""
    delegations: tuple[Envelope, ...] = Field(min_length=1, max_length=MOST_ENVELOPES)


class MakePlan(FrozenModel):
    """Take the task apart into a graph of subtasks."""

    decision: Literal["plan"]
    reason: str = ""
    subtasks: tuple[Subtask, ...] = Field(min_length=1, max_length=MOST_SUBTASKS)


class Diagnose(FrozenModel):
    """Find out why the work is stuck before trying again."""

    decision: Literal["diagnose"]
    reason: str = ""
    hypotheses: tuple[Hypothesis, ...] = Field(min_length=1, max_length=MOST_HYPOTHESES)


class Complete(FrozenModel):
    """Say that the task is done, and with what."""

    decision: Literal["complete"]
    reason: str = ""
    final_result: JsonValue = None
    confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    deliverables: Names = ()


class Escalate(FrozenModel):
    """Ask a person."""

    decision: Literal["escalate"]
    reason: str = ""
    question: str = Field(min_length=1)
    choices: Names = ()


# Answers to any question of a manager: take the best result as it is, or stop the run. No choice
# of its own may be called so, or whoever takes it would end the run.
ENDING_CHOICES = ("accept", "stop")


def choice_problems(choices: Sequence[str]) -> tuple[str, ...]:
    """One problem for each of a manager's choices that would end the run."""
    names = " and ".join(ENDING_CHOICES)
    return tuple(
        f"choices: found {format_value(choice)}; allowed: other words, since {names} end the run."
        for choice in choices
        # Folded, since people would read `stop` also where hidden signs stand between its letters.
        if folded(choice).strip().casefold() in ENDING_CHOICES
    )


ASKED_ABOVE = "asked_above"
ANSWER_BELOW = (
    "If you know the answer, delegate the work again with the answer in its instructions; if only "
    "a person can know it, escalate."
)


def asked_above(question: str, choices: Sequence[str]) -> str:
    """What a manager below asks its own manager, in one line."""
    offered = f" (choices: {', '.join(choices)})" if choices else ""
    return f"{question.strip()}{offered}"


class Fail(FrozenModel):
    """Give the task up."""

    decision: Literal["fail"]
    reason: str = ""
    why: str = ""


ManagerDecision = Annotated[
    Delegate | MakePlan | Diagnose | Complete | Escalate | Fail, Field(discriminator="decision")
]
MANAGER_DECISION: TypeAdapter[Delegate | MakePlan | Diagnose | Complete | Escalate | Fail] = (
    TypeAdapter(ManagerDecision)
)
