"""Tools that workers made: the list, and one in full."""

import json
from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.generated_tools.record import GeneratedTool
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line, pairs, stack, table
from perdure.interfaces.formatting import one_line
from perdure.interfaces.generated_tools import ShownTool

SHORT_HASH = 12
_STYLES = {"made": WARN, "approved": GOOD, "rejected": BAD}
NONE = "No tools were made. Workers of delegation runs make them where they need one."


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
