"""Requests and reports of the steps that only the role loop has."""

from perdure.domain.base import StepMessage
from perdure.domain.refs import Ref
from perdure.domain.roles.state import Review, StageQuestion
from perdure.domain.steps import ModelCallRequest, StructuredReport


class ReadStageRequest(StepMessage):
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


class ReadStageReport(StepMessage):
    """The first line of the text, what it asks, and the verdict that it gives.

    `canonical` is what an equal text would have too, however it is laid out.
    """

    line: str = ""
    question: StageQuestion | None = None
    review: Review | None = None
    text: Ref | None = None
    canonical: str | None = None


class VerdictRequest(StepMessage):
    """The second question for a verdict: to the same model, in a structured form."""

    call: ModelCallRequest


class VerdictReport(StructuredReport):
    """The verdict as read; `unclear` when the reply has none."""

    review: Review | None = None


class GoalRequest(StepMessage):
    """The goal judge's question."""

    call: ModelCallRequest


class GoalReport(StructuredReport):
    """Whether the goal is achieved; anything unclear is not."""

    achieved: bool = False
    rationale: str = ""
