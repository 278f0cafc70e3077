"""What the role loop appends to a conversation: the task of a stage, the question of a judge."""

from typing import Literal

from perdure.domain.base import StepMessage
from perdure.domain.evaluation import Finding
from perdure.domain.result import StageStatus


class StageShown(StepMessage):
    """A stage as a prompt shows it: `ref` is the whole text, `line` the first of it."""

    iteration: int
    name: str
    role: str
    status: StageStatus = "completed"
    line: str = ""
    ref: str | None = None


class StageEntry(StepMessage):
    """The task of a stage, composed where the content is.

    `place` is the stage's, from 1, among `of`. `done` are the stages before it, `past` those of
    earlier iterations, of which `left_out` older ones are not told. `review` is the address of the
    last review where it listed no findings, `goal_reason` why the goal judge said no. `tokens` is
    what all that will add, estimated.
    """

    type: Literal["stage"]
    iteration: int
    limit: int | None = None
    place: int
    of: int
    done: tuple[StageShown, ...] = ()
    past: tuple[StageShown, ...] = ()
    left_out: int = 0
    findings: tuple[Finding, ...] = ()
    review: str | None = None
    goal_reason: str = ""
    guidance: tuple[str, ...] = ()
    answer: str | None = None
    tokens: int = 0


class GoalEntry(StepMessage):
    """The goal judge's question about what the stages of an iteration said.

    `said` is what people demanded since the task was given, `problems` ask again after a
    reply that could not be read.
    """

    type: Literal["goal"]
    iteration: int
    done: tuple[StageShown, ...]
    tokens: int = 0
    said: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
