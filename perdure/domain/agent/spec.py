"""The specification of an agent run."""

from typing import Literal

from perdure.domain.run.spec import CommonSpec
from perdure.domain.turns.output_schema import OutputSchema


class AgentSpec(CommonSpec):
    """Model and tools until text; with `output_schema` the text is a JSON value that fits it.

    Memory takes part where the task says so: most agent runs are one short question.
    """

    kind: Literal["agent"]
    recall: bool = False
    learn: bool = False
    output_schema: OutputSchema | None = None
