"""What the role loop adds to the frame of a stage: its task, its place, and what to judge by."""

from perdure.domain.base import Frozen
from perdure.domain.steps import Frame


class StageFrame(Frozen):
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
    return StageFrame.model_validate(frame.extra)
