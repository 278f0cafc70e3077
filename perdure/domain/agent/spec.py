"""The specification of an agent run, and whether its model may start and steer loops."""

from typing import Literal

from perdure.domain.run.spec import CommonSpec
from perdure.domain.tools.selection import names_loop_tools
from perdure.domain.turns.output_schema import OutputSchema
from perdure.domain.turns.settings import ToolsSpec


class AgentSpec(CommonSpec):
    """Model and tools until text; with `output_schema` the text is a JSON value that fits it.

    Memory takes part where the task says so: most agent runs are one short question.
    """

    kind: Literal["agent"]
    recall: bool = False
    learn: bool | None = None
    output_schema: OutputSchema | None = None


def asks_for_loops(tools: ToolsSpec) -> bool:
    """Whether a task names tools that start or steer loops, one by one or as `loop_*`."""
    return any(names_loop_tools(pattern) for pattern in tools.allow or ())
