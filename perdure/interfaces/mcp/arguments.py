"""Wrong calls of tools in our words: every problem at once, its place, value, what is allowed."""

from collections.abc import Mapping, Sequence

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import JsonValue, ValidationError

from perdure.domain.foundation.problems import Problem, nearest_name, problems_of, shown


class PlainServer(MCPServer):
    """A server that refuses a wrong call before the tool runs, and says how to call it."""

    async def call_tool(
        self, name: str, arguments: dict[str, JsonValue], context: Context | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; raises `ToolError` for an unknown one, or wrong arguments."""
        known = {tool.name: tool.input_schema for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(_unknown(name, sorted(known)))
        fields = _names(known[name].get("properties"))
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
        found=f"an argument {shown(field)}",
        allowed="one of " + ", ".join(fields) if fields else "no argument",
        nearest=nearest_name(field, fields),
    )


def _unknown(name: str, known: Sequence[str]) -> str:
    near = nearest_name(name, known)
    hint = f" Did you mean {near}?" if near else ""
    return f"There is no tool {name[:80]!r}.{hint} There are: {', '.join(known)}."


def _told(tool: str, problems: Sequence[Problem], fields: Sequence[str]) -> str:
    lines = "\n".join(f"  {problem}" for problem in problems)
    takes = f"It takes {', '.join(fields)}." if fields else "It takes no arguments."
    return f"{tool} was not called; {len(problems)} wrong:\n{lines}\n{takes} Correct these."
