"""How tests draw a view as a terminal would."""

from io import StringIO

from rich.console import Console, RenderableType


def wide(view: RenderableType) -> str:
    """What an 80-column terminal shows, colours aside."""
    console = Console(file=StringIO(), width=80, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(view)
    return "\n".join(row.rstrip() for row in captured.get().splitlines())
