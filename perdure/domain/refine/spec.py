"""The specification of a refine run."""

from typing import Literal, Self

from pydantic import model_validator

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.refine.settings import RefineSettings
from perdure.domain.run.spec import CommonSpec
from perdure.domain.turns.output_schema import OutputSchema


class RefineSpec(CommonSpec):
    """Execute, evaluate, decide, refine until it is good enough.

    With `output_schema` each draft is a JSON value that fits it; one that does not has no score.
    """

    kind: Literal["refine"]
    rubric: Rubric
    refine: RefineSettings = RefineSettings()
    output_schema: OutputSchema | None = None

    @model_validator(mode="after")
    def _of_one_piece(self) -> Self:
        if self.output_schema is not None and self.refine.output.parts != "whole":
            raise ValueError(
                f"`output_schema` asks for one JSON value, and `refine.output.parts` for "
                f"{self.refine.output.parts}; leave out one of the two"
            )
        return self
