"""Tools that workers made at run time: list them, and decide which later runs may use."""

import json
from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from perdure.domain.generated_tools.record import GeneratedTool, MadeState
from perdure.interfaces import generated_tools as deciding
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line, pairs, stack, table
from perdure.interfaces.formatting import one_line
from perdure.interfaces.generated_tools import ShownTool

Wanted = Annotated[str, Parameter(name="TOOL")]
tools_app = App(
    name="tools",
    help="Manage the tools that workers wrote; without a command, list them.",
    version_flags=(),
)

SHORT_HASH = 12
_STYLES = {"made": WARN, "approved": GOOD, "rejected": BAD}
NONE = "No tools were made. Workers of delegation runs make them where they need one."


@tools_app.default
@tools_app.command(name="list")
async def list_tools(
    *, state: MadeState | None = None, run: str | None = None, session: Given
) -> None:
    """List generated tools, newest first.

    Args:
        state: Only tools in this state.
        run: Only tools from this run or a run below it.
    """
    async with session.connected() as services:
        root = None if run is None else await services.gateway.resolve(run)
        found = await deciding.made_tools(services.made_tools, state=state, root=root)
        data = {"type": "tools", "tools": [tool.model_dump(mode="json") for tool in found]}
        session.output.show(made_tools_view(found), data)


@tools_app.command
async def show(tool: Wanted, /, *, session: Given) -> None:
    """Show a tool: its code, its schema and its author.

    Args:
        tool: A tool's name, or a unique beginning of its hash.
    """
    async with session.connected() as services:
        shown = await deciding.show(services.made_tools, services.blobs, tool)
        session.output.show(shown_tool_view(shown), shown)


@tools_app.command
async def approve(tool: Wanted, /, *, session: Given) -> None:
    """Approve a tool that an accepted run wrote, for later runs.

    Args:
        tool: A tool's name, or a unique beginning of its hash.
    """
    context = session.context
    async with session.connected() as services:
        opened = await deciding.approve(
            services.made_tools, services.records, tool, by=context.user, now=context.now()
        )
        await session.note_decision(services, "library_approved", f"tool {opened.hash}")
        session.output.show(line(("✓ ", GOOD), f"later runs may use {opened.name}"), opened)
        session.output.note(usage_line(opened))


@tools_app.command
async def reject(tool: Wanted, /, *, session: Given) -> None:
    """Reject a tool; no run may use it.

    Args:
        tool: A tool's name, or a unique beginning of its hash.
    """
    context = session.context
    async with session.connected() as services:
        closed = await deciding.reject(
            services.made_tools, tool, by=context.user, now=context.now()
        )
        await session.note_decision(services, "library_rejected", f"tool {closed.hash}")
        session.output.show(line(("✓ ", GOOD), f"no run may use {closed.name} any more"), closed)


def made_tools_view(tools: Sequence[GeneratedTool]) -> RenderableType:
    """One row for each tool, and what a person can do with undecided ones."""
    if not tools:
        return line(NONE)
    rows = [_row(tool) for tool in tools]
    drawn = table(("hash", "name", "state", "what"), rows, whole=("hash", "name"))
    waiting = next((tool for tool in tools if tool.state == "made"), None)
    if waiting is None:
        return drawn
    way = f"perdure tools show {waiting.hash[:SHORT_HASH]}, then approve (or reject)"
    return stack(drawn, line((f"open one to later runs: {way}", DIM)))


def shown_tool_view(shown: ShownTool) -> RenderableType:
    """The record, the code, and who made it."""
    tool = shown.tool
    by = f" by {tool.decided_by}" if tool.decided_by else ""
    makers = ", ".join(f"{maker.worker} of {maker.run}" for maker in shown.makers)
    facts = pairs(
        (
            ("tool", tool.name),
            ("hash", tool.hash),
            ("state", Text(f"{tool.state}{by}", style=_STYLES[tool.state])),
            ("what", tool.description),
            ("made by", makers),
            ("arguments", json.dumps(tool.parameters, ensure_ascii=False)),
        )
    )
    return stack(facts, Text(shown.code.rstrip("\n")), line((usage_line(tool), DIM)))


def usage_line(tool: GeneratedTool) -> str:
    """How a task file names the tool, or that no run may use it."""
    if tool.state == "rejected":
        return "No run may use it."
    return f"In a task file: tools: {{generated: {{{tool.name}: {tool.hash}}}}}"


def _row(tool: GeneratedTool) -> tuple[Text, ...]:
    return (
        Text(tool.hash[:SHORT_HASH]),
        Text(tool.name),
        Text(tool.state, style=_STYLES[tool.state]),
        Text(one_line(tool.description)),
    )
