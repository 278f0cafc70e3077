"""What the refine loop adds to a run's frame: the rubric, and how the output is taken apart."""

from perdure.domain.base import Frozen
from perdure.domain.refine.settings import OutputSettings
from perdure.domain.rubric import Rubric
from perdure.domain.steps import Frame


class RefineFrame(Frozen):
    """The `extra` of a frame of kind `refine`; the rubric is frozen by living here."""

    rubric: Rubric
    output: OutputSettings = OutputSettings()


def refine_frame(frame: Frame) -> RefineFrame:
    """Read the loop's own part of a frame."""
    return RefineFrame.model_validate(frame.extra)
