"""Requests and reports of the steps that only the role loop has."""

from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.roles.state import Review, StageQuestion
from perdure.domain.run.activity_messages import Frame, ModelCallRequest, StructuredReport


class ReadStageRequest(ActivityMessage):
    """Keep what a stage said as an artifact, and read it; `gate`: also as a verdict.

    `text` is the address of the whole text; `measure` asks for its size, `compare` for the hash of
    its canonical form.
    """

    run: str
    frame: str
    iteration: int
    stage: str
    role: str
    attempt: int
    text: str
    gate: bool = False
    measure: bool = False
    compare: bool = False


class ReadStageReport(ActivityMessage):
    """The first line of the text, what it asks, and the verdict that it gives.

    `canonical` is what an equal text would have too, however it is laid out.
    """

    line: str = ""
    question: StageQuestion | None = None
    review: Review | None = None
    text: BlobRef | None = None
    canonical: str | None = None


class VerdictRequest(ActivityMessage):
    """The second question for a verdict: to the same model, in a structured form."""

    call: ModelCallRequest


class VerdictReport(StructuredReport):
    """The verdict as read; `unclear` when the reply has none."""

    review: Review | None = None


class GoalRequest(ActivityMessage):
    """The goal judge's question."""

    call: ModelCallRequest


class GoalReport(StructuredReport):
    """Whether the goal is achieved; anything unclear is not."""

    achieved: bool = False
    rationale: str = ""


class StageFrame(FrozenModel):
    """The `extra` of a frame of kind `roles`; each stage has a frame of its own.

    `verdict` says that the stage's reply is read as a verdict; `criteria` are the conditions it is
    given by.
    """

    loop: str
    stage: str
    role: str
    task: str
    description: str = ""
    criteria: str = ""
    parameters: dict[str, str] = {}
    verdict: bool = False


def stage_frame(frame: Frame) -> StageFrame:
    """Read the loop's own part of a frame."""
    return read_value(StageFrame, frame.extra)
