"""Rows of a list: a table where the terminal is wide enough, else some lines for each row."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perdure.interfaces.cli.views.layout import DIM, Cell

GAP = 2
LEAST_LAST = 24
INDENT = 2


class Listing:
    """Columns of which only the last is ever wrapped; without room for that, rows below each other.

    Args:
        columns: their names; the first names the row.
        rows: a cell for each column.
        right: columns of figures, aligned right; their name stands before the figure without room.
    """

    def __init__(
        self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Sequence[str] = ()
    ) -> None:
        self._columns = tuple(columns)
        self._rows = [tuple(_text(cell) for cell in row) for row in rows]
        self._right = frozenset(right)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Drawn for the width that there is."""
        if self._least_width() <= options.max_width:
            yield self._table()
            return
        for row in self._rows:
            yield row[0]
            yield Padding(self._told(row), (0, 0, 0, INDENT))

    def _least_width(self) -> int:
        widths = [self._width(index) for index in range(len(self._columns))]
        return sum(widths[:-1]) + GAP * len(widths) + min(widths[-1], LEAST_LAST)

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
                no_wrap=column != self._columns[-1],
            )
        for row in self._rows:
            drawn.add_row(*row)
        return drawn

    def _told(self, row: Sequence[Text]) -> Text:
        """What follows the name of a row, without what is empty."""
        pieces = [
            Text.assemble((f"{column} ", DIM), cell) if column in self._right else cell
            for column, cell in zip(self._columns[1:], row[1:], strict=True)
            if cell.plain.strip()
        ]
        return Text(" · ", style=DIM).join(pieces)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
