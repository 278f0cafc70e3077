"""A picture that changes in place, and that makes room when a person is asked something."""

from rich.console import Console, RenderableType
from rich.live import Live

REFRESHES_PER_SECOND = 8


class Picture:
    """The last lines of a terminal, drawn anew several times a second while they are shown."""

    def __init__(self, view: RenderableType, console: Console) -> None:
        self._view = view
        self._console = console
        self._live: Live | None = None

    def show(self) -> None:
        """Draw it below what is there."""
        if self._live is None:
            # A new one each time: a stopped one would erase the lines that came after it.
            self._live = Live(
                self._view,
                console=self._console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start(refresh=True)

    def hide(self) -> None:
        """Take it away; what is printed from now on stays where it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, view: RenderableType) -> None:
        """Change what it shows, now or when it is shown again."""
        self._view = view
        if self._live is not None:
            self._live.update(view)

    def tell(self, view: RenderableType) -> None:
        """Print above it."""
        self._console.print(view)
