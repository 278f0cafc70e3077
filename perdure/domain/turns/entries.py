"""What loops append to a conversation: tasks of stages, results of tools, questions of a judge."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue

from perdure.domain.evaluation.rubric import Part
from perdure.domain.evaluation.scores import Evaluation, Finding
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.transcript import ToolOutcome
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.records import StageStatus


class StageShown(ActivityMessage):
    """A stage as a prompt shows it: `ref` is the whole text, `line` the first of it."""

    iteration: int
    name: str
    role: str
    status: StageStatus = "completed"
    line: str = ""
    ref: str | None = None


class StageEntry(ActivityMessage):
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


class GoalEntry(ActivityMessage):
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


class SayEntry(ActivityMessage):
    """A text to append; long ones by reference, with their estimated tokens."""

    type: Literal["say"]
    role: Literal["user", "assistant"] = "user"
    text: str = ""
    ref: str | None = None
    tokens: int = 0
    pinned: bool = False

    @classmethod
    def of(cls, given: PendingInput) -> Self:
        """What somebody said meanwhile; it stays in the conversation when that is compacted."""
        ref, tokens = (None, 0) if given.ref is None else (given.ref.hash, given.ref.tokens.total)
        return cls(type="say", text=given.text, ref=ref, tokens=tokens, pinned=True)


class ToolResultEntry(ActivityMessage):
    """The result of one call to append; `note` is shown to the model before it.

    `attachments` are images and PDFs that are shown with it.
    """

    call_id: str
    name: str
    outcome: ToolOutcome = "ok"
    ref: BlobRef | None = None
    note: str = ""
    attachments: tuple[Attachment, ...] = ()


class ResultsEntry(ActivityMessage):
    """All results of one reply's calls, in call order: they become one message."""

    type: Literal["results"]
    results: tuple[ToolResultEntry, ...]


class RefineEntry(ActivityMessage):
    """The context of a refine iteration, composed where the content is.

    `previous` is the address of the last output, `evaluation` what it lacks at `threshold`;
    `part` asks for one part only, `approach` for this way of doing it; `tokens` is what all that
    will add to the prompt, estimated; `changed` are the lines that the last iteration changed.
    `plan` and the blobs `recalled` and `skills` are for a prompt that shows no earlier output.
    `adaptation` holds the values in force.
    """

    type: Literal["refine"]
    previous: str | None = None
    evaluation: Evaluation | None = None
    threshold: float | None = None
    guidance: tuple[str, ...] = ()
    error: str | None = None
    part: Part | None = None
    tokens: int = 0
    changed: tuple[tuple[int, int], ...] = ()
    plan: str = ""
    recalled: str | None = None
    skills: str | None = None
    approach: str = ""
    adaptation: dict[str, JsonValue] = {}


class PlanEntry(ActivityMessage):
    """The planner's question; `problems` asks again after a bad reply.

    `adaptation` holds the values that the first iteration begins with.
    """

    type: Literal["plan"]
    recalled: str | None = None
    skills: str | None = None
    problems: tuple[str, ...] = ()
    adaptation: dict[str, JsonValue] = {}


class JudgeEntry(ActivityMessage):
    """The judge's question about one output; `problems` asks again after a bad reply.

    With `changed` lines the rest of the output is folded, for the judge scored it before: as
    `earlier` says, by dimension. `cut`: the output is not whole, and the judge is told so.
    `adaptation` holds the values that were in force when it was written.
    """

    type: Literal["judge"]
    output: str
    dimensions: tuple[str, ...]
    open_findings: tuple[Finding, ...] = ()
    problems: tuple[str, ...] = ()
    changed: tuple[tuple[int, int], ...] = ()
    earlier: dict[str, str] = {}
    said: tuple[str, ...] = ()
    cut: bool = False
    adaptation: dict[str, JsonValue] = {}


Entry = Annotated[
    SayEntry | ResultsEntry | RefineEntry | PlanEntry | JudgeEntry | StageEntry | GoalEntry,
    Field(discriminator="type"),
]
