"""The few layouts that views use; they read the same with and without a terminal."""

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.domain.foundation.plain_text import printable
from perdure.interfaces.cli.console import PrintableConsole, printable_text

# Wider than any line: in a pipe, a wrapped id or path could not be read by a program.
PLAIN_WIDTH = 10_000
Cell = str | Text

GOOD = "green"
BAD = "red"
WARN = "yellow"
DIM = "dim"
LIFECYCLE_STYLES = {
    "running": "cyan",
    "paused": WARN,
    "waiting": "magenta",
    "completed": GOOD,
    "failed": BAD,
    "stopped": DIM,
}


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> "Listing":
    """A table without borders; `right` columns are right-aligned, they and `whole` ones never cut.

    Where these have no room, each row is a block.
    """
    return Listing(columns, rows, right=right, whole=(*right, *whole))


def pairs(rows: Iterable[tuple[str, Cell | None]]) -> Table:
    """Labels and values; rows without a value are left out."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    drawn.add_column(style=DIM, no_wrap=True)
    drawn.add_column(overflow="fold")
    for label, value in rows:
        if value is not None and str(value):
            drawn.add_row(label, _text(value))
    return drawn


def line(*pieces: Cell | tuple[str, str], indent: int = 0) -> Text:
    """One line from plain texts and (text, style) pairs; markup in them has no effect."""
    text = Text(" " * indent)
    for piece in pieces:
        if isinstance(piece, tuple):
            text.append(piece[0], style=piece[1])
        else:
            text.append(piece)
    return text


def address(label: str, url: str | None) -> Text | None:
    """An address on its own line, never cut, so that it can be copied and clicked."""
    if url is None:
        return None
    return Text.assemble(
        # The link itself goes to the terminal as a code, which no console cleans as it does text.
        (f"{label}  ", DIM),
        (url, f"link {printable(url)}"),
        no_wrap=True,
        overflow="ignore",
    )


def stack(*parts: RenderableType | None) -> Group:
    """Stack parts vertically, leaving out None."""
    return Group(*(part for part in parts if part is not None))


def heading(text: str) -> Text:
    """Put a title above a block."""
    return Text(text, style="bold")


def plain(renderable: RenderableType) -> str:
    """Render for a pipe: no colours and no cut lines; texts as they are, layouts without blanks."""
    return "\n".join(_plain_parts(renderable))


def _plain_parts(renderable: RenderableType) -> list[str]:
    # rich turns tabs into spaces, and ends a line of more signs than its width.
    if isinstance(renderable, Text):
        return [printable(renderable.plain)]
    if isinstance(renderable, Group):
        return [part for one in renderable.renderables for part in _plain_parts(one)]
    console = PrintableConsole(
        file=StringIO(), width=PLAIN_WIDTH, color_system=None, force_terminal=False, soft_wrap=False
    )
    with console.capture() as captured:
        console.print(renderable)
    return [row.rstrip() for row in captured.get().splitlines()]


def _text(cell: Cell) -> Text:
    # Cleaned before the layout, because the visible form sets the width of the column.
    return printable_text(cell if isinstance(cell, Text) else Text(cell))


GAP = 2
LEAST_LAST = 24
LEAST_FOLDED = 8
INDENT = 2


class Listing:
    """Columns of which some wrap; on a narrow terminal each row becomes a short block.

    Args:
        columns: their names; the first names the row.
        rows: a cell for each column.
        right: columns of figures, right-aligned; in a block their names precede the figures.
        whole: columns that never wrap; in a block all names precede the cells. Default: all
            columns but the last, of which a block names those of figures.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        *,
        right: Sequence[str] = (),
        whole: Sequence[str] | None = None,
    ) -> None:
        self._columns = tuple(columns)
        self._rows = [tuple(_text(cell) for cell in row) for row in rows]
        self._right = frozenset(right)
        self._named = self._right if whole is None else frozenset(columns)
        self._whole = frozenset(self._columns[:-1] if whole is None else whole)
        self._least = LEAST_LAST if whole is None else LEAST_FOLDED

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw for the available width."""
        # rich would cut columns that have no room, and a figure without its end is another figure.
        if self._least_width() <= options.max_width:
            yield self._table()
            return
        for row in self._rows:
            first = self._columns[0]
            yield _labelled(first, row[0]) if first in self._right else row[0]
            yield Padding(self._told(row), (0, 0, 0, INDENT))

    def _least_width(self) -> int:
        widths = [self._width(index) for index in range(len(self._columns))]
        needed = [
            width if column in self._whole else min(width, self._least)
            for column, width in zip(self._columns, widths, strict=True)
        ]
        return sum(needed) + GAP * len(needed)

    def _width(self, index: int) -> int:
        cells = [cell_len(row[index].plain) for row in self._rows]
        return max([cell_len(self._columns[index]), *cells])

    def _table(self) -> Table:
        drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for column in self._columns:
            drawn.add_column(
                column,
                justify="right" if column in self._right else "left",
                overflow="fold",
                no_wrap=column in self._whole,
            )
        for row in self._rows:
            drawn.add_row(*row)
        return drawn

    def _told(self, row: Sequence[Text]) -> Text:
        """The cells after the name of a row, without empty ones."""
        pieces = [
            _labelled(column, cell) if column in self._named else cell
            for column, cell in zip(self._columns[1:], row[1:], strict=True)
            if cell.plain.strip()
        ]
        return Text(" · ", style=DIM).join(pieces)


def _labelled(column: str, cell: Text) -> Text:
    return Text.assemble((f"{column} ", DIM), cell) if column else cell
