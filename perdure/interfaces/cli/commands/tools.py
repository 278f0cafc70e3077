"""Tools that workers made at run time: list them, and decide which later runs may use."""

from typing import Annotated

from cyclopts import App, Parameter

from perdure.domain.generated_tools.record import MadeState
from perdure.interfaces import generated_tools as deciding
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.views.generated_tools import (
    made_tools_view,
    shown_tool_view,
    usage_line,
)
from perdure.interfaces.cli.views.layout import GOOD, line

Wanted = Annotated[str, Parameter(name="TOOL")]
tools_app = App(
    name="tools",
    help="Manage the tools that workers wrote; without a command, list them.",
    version_flags=(),
)


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
        await session.decided(services, "library_approved", f"tool {opened.hash}")
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
        await session.decided(services, "library_rejected", f"tool {closed.hash}")
        session.output.show(line(("✓ ", GOOD), f"no run may use {closed.name} any more"), closed)
