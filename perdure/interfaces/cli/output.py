"""Where output goes: colours and live views to a terminal, lines to a pipe, JSON to a program."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from rich.console import Console, RenderableType
from rich.live import Live
from rich.status import Status
from rich.text import Text

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.plain_text import printable, printable_json
from perdure.domain.foundation.progress import Standing
from perdure.interfaces.cli.console import console_on
from perdure.interfaces.cli.views.layout import BAD, WARN, line, plain, stack

REFRESHES_PER_SECOND = 8


class Picture:
    """A live view in the last lines of a terminal, redrawn several times a second while shown."""

    def __init__(self, view: RenderableType, console: Console) -> None:
        self._view = view
        self._console = console
        self._live: Live | None = None

    def show(self) -> None:
        """Draw it below the existing output."""
        if self._live is None:
            # A new one each time: a stopped one would erase lines that were printed since.
            self._live = Live(
                self._view,
                console=self._console,
                refresh_per_second=REFRESHES_PER_SECOND,
                transient=True,
            )
            self._live.start(refresh=True)

    def hide(self) -> None:
        """Remove it; output printed from now on stays in place."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, view: RenderableType) -> None:
        """Change its content, now or when it is shown again."""
        self._view = view
        if self._live is not None:
            self._live.update(view)

    def tell(self, view: RenderableType) -> None:
        """Print a line above the live view."""
        self._console.print(view)


Json = BaseModel | Sequence[BaseModel] | Mapping[str, object]


class Output:
    """One command's output.

    Args:
        stdout: results, nothing else.
        stderr: progress, hints and errors.
        as_json: results are JSON values, one per line.
    """

    def __init__(self, stdout: TextIO, stderr: TextIO, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._stdout = stdout
        self._out = console_on(stdout)
        self._err = console_on(stderr, needed=False)

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return self._out.is_terminal and not self.as_json

    def show(self, view: RenderableType, data: Json) -> None:
        """Print a result: `data` for programs, `view` for people."""
        if self.as_json:
            self.emit(data)
        else:
            self.tell(view)

    def emit(self, data: Json) -> None:
        """Write one JSON line."""
        # A sign that an encoding lacks goes by its number, which in JSON has a form of its own.
        lacks = not (self._stdout.encoding or "utf-8").lower().startswith("utf")
        text = json.dumps(data, ensure_ascii=lacks, default=_jsonable)
        self._write(printable_json(text))

    def tell(self, view: RenderableType) -> None:
        """Print something for people, on standard output."""
        if self._out.is_terminal:
            # Not cropped: an address stays whole on its line, to be copied and clicked.
            self._out.print(view, crop=False)
        else:
            self._write(plain(view))

    def raw(self, text: str) -> None:
        """Write text unchanged to a pipe, and without control characters to a terminal."""
        body = printable(text) if self._out.is_terminal else text
        self._stdout.write(body if body.endswith("\n") else f"{body}\n")
        self._stdout.flush()

    def raw_bytes(self, data: bytes) -> None:
        """Write bytes unchanged to a pipe or a file; not for a terminal."""
        # Text still in the buffer of the text layer must come before the bytes.
        self._stdout.flush()
        self._stdout.buffer.write(data)
        self._stdout.buffer.flush()

    def go_on(self, text: str) -> None:
        """Write text without ending the line; a terminal gets no control characters."""
        self._stdout.write(printable(text) if self._out.is_terminal else text)
        self._stdout.flush()

    def prompt(self, text: str) -> None:
        """Print a prompt; the typed answer follows on the same line."""
        self._out.print(Text(text, style="bold magenta"), end="", soft_wrap=True)
        self._stdout.flush()

    def note(self, text: str, *, style: str = "") -> None:
        """Print progress or a hint on standard error; with JSON output nothing is printed."""
        if not self.as_json:
            told = Text(text, style=style if self._err.is_terminal else "")
            self._err.print(told, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Say on standard error what keeps the work from going on, also beside JSON output.

        A program that waits in silence cannot tell a long run from one that waits for it.
        """
        self._err.print(Text(text, style=WARN if self._err.is_terminal else ""), soft_wrap=True)

    @contextmanager
    def working(self, what: str) -> Generator["Progress"]:
        """Show that something takes a while; in a pipe each step is one line."""
        if self.as_json or not self._err.is_terminal:
            yield Progress(self)
            return
        with self._err.status(Text(what)) as status:
            yield Progress(self, status)

    @contextmanager
    def live(self, view: RenderableType) -> Generator[Picture]:
        """A live view; `tell` prints above it."""
        picture = Picture(view, self._out)
        picture.show()
        try:
            yield picture
        finally:
            picture.hide()

    def error(self, error: PerdureError) -> None:
        """Print what went wrong, and what to do next."""
        cure = line("→ ", error.cure) if error.cure else None
        head = line(("error: ", f"bold {BAD}"), error.message)
        told = stack(head, cure)
        if self._err.is_terminal:
            self._err.print(told)
        else:
            # rich takes a pipe for 80 columns wide, and would break lines that programs search.
            self._err.print(Text(plain(told)), soft_wrap=True)
        # Last, as standard output may be what fails.
        if self.as_json:
            fields = {"type": "error", "code": error.code, "exit_code": error.exit_code}
            self.emit({**fields, "message": error.message, "cure": error.cure})

    def _write(self, text: str) -> None:
        self._stdout.write(f"{text}\n")
        # At once: a program that follows a run must not wait for a buffer to fill.
        self._stdout.flush()


class Progress:
    """Steps of something that takes a while."""

    def __init__(self, output: Output, status: Status | None = None) -> None:
        self._output = output
        self._status = status

    def __call__(self, text: str) -> None:
        """Name the current step."""
        # A spinner would take it away with the next step, and with JSON nobody would see it.
        if isinstance(text, Standing):
            self._output.warn(text)
        elif self._status is None:
            self._output.note(text)
        else:
            self._status.update(Text(text))


def _jsonable(data: object) -> object:
    """The form in JSON of what has none of its own: models, times, amounts."""
    return data.model_dump(mode="json") if isinstance(data, BaseModel) else to_jsonable_python(data)
