"""The one place that prints: nothing in a view can steer the terminal that shows it.

Names, paths, labels, tool arguments and replies of models reach the views as they are. What a
terminal would obey is shown by its number when a view is drawn, whoever drew it.
"""

from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from perdure.domain.foundation.plain_text import printable


def console_on(file: TextIO) -> Console:
    """A console that prints what it is given: no markup, no emoji codes, nothing that steers."""
    return PrintableConsole(file=file, highlight=False, markup=False, emoji=False)


class PrintableConsole(Console):
    """Draws views without anything in their texts that a terminal would obey."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        # Texts before they are wrapped, as a number is wider than the sign it stands for; segments
        # for views that draw otherwise. Only the console's own segments are control segments.
        drawn = printable_text(renderable) if isinstance(renderable, Text) else renderable
        for segment in super().render(drawn, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def printable_text(text: Text) -> Text:
    """The same text in its styles, with what a terminal would obey by its number."""
    if printable(text.plain) == text.plain:
        return text
    made = text.blank_copy()
    edges = sorted({edge for span in text.spans for edge in (span.start, span.end)})
    for piece in text.divide(edges):
        start = len(made)
        made.append(printable(piece.plain))
        for span in piece.spans:
            made.stylize(span.style, start, len(made))
    return made
