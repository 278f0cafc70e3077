"""Questions of child runs: how they are reported upwards, shown, and answered from above.

A run tells the run above it all that is open in it and below it, whenever that changes. Only an
open child is heard, and only about its own tree; what it asked goes when it ends.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import ConfigDict, Field

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import LONGEST_RUN_ID
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.run.child_runs import ChildStatus, is_below
from perdure.domain.run.gates import APPROVE, Gate, GateKind, read_name
from perdure.domain.run.messages import Answer

# What a child reports becomes part of the state here, of all runs above, and of each
# continue-as-new.
MOST_QUESTIONS = 16
PROMPT_CHARACTERS = 300
MOST_CHOICES = 16
CHOICE_CHARACTERS = 80
NAME_CHARACTERS = 200


class Question(FrozenModel):
    """An open gate of a run below, in short; `path` are the names from here down to that run."""

    run: str = Field(max_length=LONGEST_RUN_ID)
    path: tuple[str, ...] = Field(default=(), max_length=64)
    gate: str = Field(max_length=NAME_CHARACTERS)
    kind: GateKind
    prompt: str = Field(max_length=PROMPT_CHARACTERS)
    choices: tuple[str, ...] = Field(default=(), max_length=MOST_CHOICES)
    opened_at: datetime

    @property
    def key(self) -> str:
        """What it is called from anywhere: the run, and the gate's name in it."""
        return f"{self.run}:{self.gate}"


class QuestionsBelow(FrozenModel):
    """What a child tells its parent: everything that is open, in place of its last report."""

    run: str = Field(max_length=LONGEST_RUN_ID)
    questions: tuple[Question, ...] = Field(default=(), max_length=MOST_QUESTIONS)


class OpenGate(Question):
    """An open gate as a foreign workflow is told of it, with all that people read.

    `subject` is the tool that an approval is about. A review wants a score for each of the
    `scores`. Gates of runs further down are told in short.
    """

    # The workflow that is told may have an older version than the run that tells it.
    model_config = ConfigDict(extra="ignore")

    prompt: str
    choices: tuple[str, ...] = ()
    subject: str | None = None
    free_text: bool = False
    scores: tuple[str, ...] = ()
    deadline: datetime | None = None


class GatesBelow(FrozenModel):
    """The open gates that a foreign workflow is told of, which awaits the run."""

    model_config = ConfigDict(extra="ignore")

    run: str
    questions: tuple[OpenGate, ...] = ()


class Forwarded(FrozenModel):
    """An answer that was given here, and the run that asked."""

    run: str
    answer: Answer


def question_of(run: str, gate: Gate) -> Question:
    """The report of an open gate to the run above."""
    choices = tuple(clipped(choice, CHOICE_CHARACTERS) for choice in gate.choices[:MOST_CHOICES])
    return Question(
        run=run,
        gate=gate.name,
        kind=gate.kind,
        prompt=clipped(" ".join(gate.prompt.split()), PROMPT_CHARACTERS),
        choices=choices,
        opened_at=gate.opened_at,
    )


def known_below(
    below: Mapping[str, Sequence[Question]], children: Sequence[ChildStatus]
) -> tuple[Question, ...]:
    """What is asked below a run, oldest first; a child that ended asks nothing any more."""
    names = {child.id: child.name for child in children if child.open}
    found = [
        question.model_copy(update={"path": (names[child], *question.path)})
        for child, questions in below.items()
        if child in names
        for question in questions
    ]
    return tuple(sorted(found, key=lambda question: (question.opened_at, question.key)))


def questions_for_parent(
    run: str, gates: Sequence[Gate], below: Sequence[Question]
) -> tuple[Question, ...]:
    """The questions a run reports to its parent: its own first, up to the limit."""
    own = (question_of(run, gate) for gate in gates)
    return (*own, *below)[:MOST_QUESTIONS]


def gates_for_outside(run: str, gates: Sequence[Gate], below: Sequence[Question]) -> GatesBelow:
    """What a run tells the foreign workflow that awaits it."""
    own = (
        OpenGate(
            run=run,
            gate=gate.name,
            kind=gate.kind,
            prompt=gate.prompt,
            choices=gate.choices,
            opened_at=gate.opened_at,
            subject=gate.subject,
            free_text=gate.free_text,
            scores=gate.scores,
            deadline=gate.deadline,
        )
        for gate in gates
    )
    others = (read_value(OpenGate, dict(question)) for question in below)
    return GatesBelow(run=run, questions=(*own, *others)[:MOST_QUESTIONS])


def report_refusal(message: QuestionsBelow, children: Sequence[ChildStatus]) -> str | None:
    """Why a report is not from a child of this run, or None."""
    if not any(child.id == message.run and child.open for child in children):
        return f"{message.run} is no open child of this run"
    foreign = [
        question.run
        for question in message.questions
        if question.run != message.run and not is_below(question.run, message.run)
    ]
    return f"{foreign[0]} does not work for {message.run}" if foreign else None


def questions_by_name(questions: Sequence[Question], named: str) -> tuple[Question, ...]:
    """The child questions that match a name: `RUN:g1-7f3a`, or a gate's name alone."""
    # From the right: the id of a run may hold colons, a gate's name has none.
    run, separator, name = named.strip().rpartition(":")
    wanted = read_name(name)
    return tuple(
        question
        for question in questions
        if (not separator or question.run == run)
        and (found := read_name(question.gate)).id == wanted.id
        and (wanted.begins is None or (found.begins or "").startswith(wanted.begins))
    )


def answer_below_refusal(found: Sequence[Question], message: Answer) -> str | None:
    """Why an answer to a question below is not passed on, or None; the child checks it again."""
    if len(found) > 1:
        listed = ", ".join(question.key for question in found)
        return f"several runs below have a gate {message.gate!r}: {listed}; name one of these"
    (question,) = found
    if message.choice is not None and (why := _unlisted(message.choice, question)):
        return f"{question.key}: {why}"
    bound = read_name(message.gate.rpartition(":")[2]).begins or message.args_hash
    if question.kind == "tool_approval" and message.choice == APPROVE and not bound:
        return f"{question.key}: an approval names what it approves, the gate as {question.gate}"
    return None


def _unlisted(choice: str, question: Question) -> str | None:
    """Why no choice of the question can be the one given, or None."""
    told = question.choices
    # Of many choices only the first were told, of a long one its beginning; the child knows all.
    if told and len(told) < MOST_CHOICES and clipped(choice, CHOICE_CHARACTERS) not in told:
        return f"{choice!r} is not one of {', '.join(told)}"
    if choice in told and len(choice) == CHOICE_CHARACTERS and choice.endswith("…"):
        return (
            f"{choice!r} is the beginning of a choice; give the whole one, which "
            f"`perdure gates {question.run}` shows"
        )
    return None
