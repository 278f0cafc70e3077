"""Sources of lines: a person at a terminal, with completion and history, or a pipe."""

import sys
from collections.abc import AsyncGenerator, Callable
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output as TerminalOutput

from perdure.extending.own_thread import in_own_thread
from perdure.interfaces.cli.repl.completion import Menu

PROMPT = "perdure> "
REFRESH_S = 1.0
HISTORY_FILE = "repl_history"


async def typed_lines(
    menu: Menu,
    *,
    status: Callable[[], str],
    home: Path,
    source: Input | None = None,
    screen: TerminalOutput | None = None,
) -> AsyncGenerator[str]:
    """Lines that a person types, until Ctrl-D; Ctrl-C drops the current line.

    Args:
        menu: completes.
        status: the line below the prompt, refreshed every second.
        home: the home folder, where the history is kept.
        source: where keys come from; None: this terminal.
        screen: where the prompt goes; None: this terminal.
    """
    session: PromptSession[str] = PromptSession(
        history=_history(home),
        completer=menu,
        complete_while_typing=False,
        # `HTML.format` escapes what it inserts.
        bottom_toolbar=lambda: HTML("{}").format(f" {status()} "),
        refresh_interval=REFRESH_S,
        input=source,
        output=screen,
    )
    while True:
        try:
            yield await session.prompt_async(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


async def piped_lines(source: TextIO | None = None) -> AsyncGenerator[str]:
    """Lines of a pipe or a file, until its end."""
    stream = source or sys.stdin
    if isinstance(stream, TextIOWrapper):
        # A line in another encoding is refused by itself, and those behind it are read.
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    # In a thread: a pipe may stay silent for long, and the event loop handles signals. In one of
    # its own: after SIGTERM the process would wait for a thread of the pool until the pipe ends.
    while line := await in_own_thread(stream.readline):
        yield line


def _history(home: Path) -> History:
    path = home / HISTORY_FILE
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Created here for the owner only: goals and answers are typed at the prompt.
        path.touch(mode=0o600, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)
