"""The only place that prints; nothing in a view can control the terminal.

Names, paths, labels, tool arguments and model replies reach the views unchanged. When a view is
drawn, control characters in them are shown by their number, whichever view it is.
"""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from io import UnsupportedOperation
from typing import IO, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from perdure.domain.foundation.plain_text import printable

UNWRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a write fails with that finds no room."""
# Set for the kernel of a notebook, and so for every command of its cells.
NOTEBOOK = "JPY_PARENT_PID"


def console_on(file: TextIO, *, needed: bool = True) -> Console:
    """A console that prints text as given: no markup, no emoji codes, no control characters.

    Args:
        file: where it prints.
        needed: whether a reader that goes away ends the work; else the rest is told to nobody.
    """
    # A cell's `!perdure` has a terminal that erases nothing: each turn of a spinner would stay.
    terminal = False if NOTEBOOK in os.environ else None
    made = PrintableConsole if needed else HintConsole
    return made(file=file, force_terminal=terminal, highlight=False, markup=False, emoji=False)


class PrintableConsole(Console):
    """Draws views with all control characters in their texts made visible."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        # Texts are cleaned before they are wrapped, because a number is wider than the character it
        # replaces. Segments are cleaned for views that draw in other ways; only the console itself
        # makes control segments.
        drawn = printable_text(renderable) if isinstance(renderable, Text) else renderable
        for segment in super().render(drawn, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def on_broken_pipe(self) -> None:
        """Raise it again: rich would close standard output, whichever pipe it is, and exit."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class HintConsole(PrintableConsole):
    """A console for what nobody needs: without a reader or room, the rest is told to nobody."""

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError as error:
            if error.errno not in UNWRITTEN:
                raise
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Be quiet from now on."""
        self.quiet = True
        lead_nowhere(self.file)


def lead_nowhere(file: IO[str]) -> None:
    """Send the rest of a file nowhere: Python would flush it at exit, and fail once more."""
    with suppress(UnsupportedOperation):  # in memory
        number = file.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def printable_text(text: Text) -> Text:
    """The same text and styles, with control characters shown by their number."""
    if printable(text.plain) == text.plain:
        return text
    made = text.blank_copy()
    edges = sorted({edge for span in text.spans for edge in (span.start, span.end)})
    # Piece by piece: a longer text moves what stands behind it out of its styles.
    for piece in text.divide(edges):
        start = len(made)
        made.append(printable(piece.plain))
        for span in piece.spans:
            made.stylize(span.style, start, len(made))
    return made
