"""Which runs may start and steer loops: agent runs that no run started, and that ask for it."""

from perdure.domain.tools.selection import names_loop_tools
from perdure.domain.turns.settings import ToolsSpec


def asks_for_loops(tools: ToolsSpec) -> bool:
    """Whether a task names tools that start or steer loops, one by one or as `loop_*`."""
    return any(names_loop_tools(pattern) for pattern in tools.allow or ())
