"""Which runs may start and steer loops: agent runs that no run started, and that ask for it."""

from perdure.domain.agent.settings import ToolsSpec

LOOP_TOOLS = ("loop_start", "loop_list", "loop_status", "loop_control", "loop_definitions")
STEM = "loop_"


def asks_for_loops(tools: ToolsSpec) -> bool:
    """Whether a task names tools that start or steer loops, one by one or as `loop_*`."""
    return any(names_loop_tools(pattern) for pattern in tools.allow or ())


def steers_loops(tool: str) -> bool:
    """Whether a tool of this name starts or steers loops, also by way of an MCP server."""
    return tool.rpartition(".")[2] in LOOP_TOOLS


def names_loop_tools(pattern: str) -> bool:
    """Whether a pattern means them on purpose, our own or those of a server; `*` does not."""
    return pattern.rpartition(".")[2].startswith(STEM)
