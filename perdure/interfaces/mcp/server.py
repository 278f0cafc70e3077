"""The tools for loops of roles that other agents get, and a list of open questions."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, JsonValue, ValidationError

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import (
    Problem,
    did_you_mean,
    format_value,
    nearest_name,
    problems_of,
)
from perdure.domain.run.loop_api import (
    LoopAsk,
    LoopControlled,
    LoopFacts,
    LoopRows,
    LoopStarted,
    parameters_of,
)
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGates
from perdure.interfaces.mcp.handler import McpSite
from perdure.interfaces.mcp.runs import add_runs, at_desk


class PlainServer(MCPServer):
    """A server that checks a call before the tool runs, and explains how to call it."""

    async def call_tool(
        self, name: str, arguments: dict[str, JsonValue], context: Context | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; raises `ToolError` for an unknown tool or wrong arguments."""
        known = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(_unknown(name, sorted(known)))
        fields = _names(known[name].get("properties"))
        # The SDK drops unknown arguments, so a misspelt limit would silently not hold.
        wrong = [_no_field(field, fields) for field in arguments if field not in fields]
        wrong += [
            Problem(path=field, found="nothing", allowed="a value, the argument is required")
            for field in _names(known[name].get("required"))
            if field not in arguments
        ]
        try:
            if not wrong:
                return await super().call_tool(name, arguments, context)
        except ToolError as error:
            # What the tool itself raised says in words already what is wrong.
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong += problems_of(error.__cause__, arguments)
        raise ToolError(_told(name, wrong, fields))


def _names(of_schema: object) -> tuple[str, ...]:
    is_list = isinstance(of_schema, Mapping | Sequence)
    return tuple(str(name) for name in of_schema) if is_list else ()


def _no_field(field: str, fields: Sequence[str]) -> Problem:
    return Problem(
        path=field[:80],
        found=f"an argument {format_value(field)}",
        allowed="one of " + ", ".join(fields) if fields else "no argument",
        nearest=nearest_name(field, fields),
    )


def _unknown(name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(name, known)
    return f"There is no tool {name[:80]!r}.{hint} There are: {', '.join(known)}."


def _told(tool: str, problems: Sequence[Problem], fields: Sequence[str]) -> str:
    lines = "\n".join(f"  {problem}" for problem in problems)
    takes = f"It takes {', '.join(fields)}." if fields else "It takes no arguments."
    return f"{tool} was not called; {len(problems)} wrong:\n{lines}\n{takes} Correct these."


INSTRUCTIONS = (
    "Starts and follows Perdure's durable loops. `loop_definitions` and `run_tasks` say what there "
    "is, `loop_start` and `run_start` start one and return its id at once, `loop_status` follows "
    "any run, `run_wait` waits for it, `run_result` reads its output and `run_text` the rest of a "
    "long one, `run_list` finds a run again. What a run asks is answered by people alone: "
    "`run_wait` puts it to the person at your client where it can, `loop_gates` shows it, and no "
    "tool takes an answer from you."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False)
STEERS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)

Definition = Annotated[str, Field(description="A name that loop_definitions gives.")]
Goal = Annotated[str, Field(min_length=1, description="What to do, in words.")]
# Typed as any JSON, so that our own message explains a wrong value.
Parameters = Annotated[
    JsonValue,
    Field(
        description="Values of the definition's parameters: an object, or its JSON text.",
        json_schema_extra={"anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}]},
    ),
]
Limit = Annotated[
    int | None, Field(ge=1, description="Most iterations, instead of the definition's limit.")
]
RunId = Annotated[str, Field(description="A run id, or a unique beginning of one.")]


class Definitions(FrozenModel):
    """What `loop_definitions` returns."""

    definitions: tuple[LoopFacts, ...]


def build_server(site: McpSite) -> MCPServer:
    """Build the server over one installation, for any transport."""
    server = PlainServer(
        "perdure", version=site.version, instructions=INSTRUCTIONS, log_level="WARNING"
    )

    _add_starting(server, site)
    _add_looking(server, site)
    add_runs(server, site)
    return server


def _add_starting(server: MCPServer, site: McpSite) -> None:
    """Add the tools that start and steer."""

    @server.tool(annotations=STARTS)
    async def loop_start(
        context: Context,
        definition: Definition,
        goal: Goal,
        parameters: Parameters = None,
        max_iterations: Limit = None,
    ) -> LoopStarted:
        """Start a loop and return its id; it runs on by itself."""
        async with at_desk(site, context, scope="operate", start=True) as desk:
            ask = LoopAsk(
                definition=definition,
                goal=goal,
                parameters=parameters_of(parameters),
                max_iterations=max_iterations,
            )
            return await desk.start(ask)

    @server.tool(annotations=STEERS)
    async def loop_control(
        context: Context,
        action: Annotated[str, Field(description="pause, resume, stop or retry.")],
        id: Annotated[str, Field(description="A run id, or `all` for every open loop.")],
    ) -> LoopControlled:
        """Pause, resume, stop or retry a loop; `stop` ends it with its best result."""
        async with at_desk(site, context, scope="operate") as desk:
            return await desk.control(action, id)


def _add_looking(server: MCPServer, site: McpSite) -> None:
    """Add the tools that only read."""

    @server.tool(annotations=READS)
    async def loop_list(
        context: Context,
        status: Annotated[
            str | None, Field(description="running, paused, waiting, completed, failed or stopped.")
        ] = None,
    ) -> LoopRows:
        """The newest loops of roles, of one status or all; run_list has runs of every kind."""
        async with at_desk(site, context, scope="read") as desk:
            return await desk.rows(status)

    @server.tool(annotations=READS)
    async def loop_status(context: Context, id: RunId) -> RunStatus:
        """Where a loop stands: stage, results of stages, iteration, spend, questions, outcome."""
        async with at_desk(site, context, scope="read") as desk:
            return await desk.status(id)

    @server.tool(annotations=READS)
    async def loop_definitions(context: Context) -> Definitions:
        """The loops that can be started, with their stages and parameters."""
        async with at_desk(site, context, scope="read") as desk:
            return Definitions(definitions=await desk.loops.definitions())

    @server.tool(annotations=READS)
    async def loop_gates(context: Context) -> OpenGates:
        """Questions that wait for a person; a person answers them, with `perdure answer`."""
        async with at_desk(site, context, scope="read") as desk:
            return await desk.gates()
