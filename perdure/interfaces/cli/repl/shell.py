"""Reads a line, runs it as a command, reports errors, and goes on."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace

from cyclopts import App

from perdure.domain.foundation.errors import PerdureError
from perdure.interfaces.cli.app import INSIST_S
from perdure.interfaces.cli.invoke import bound_to, places_told, require_text, without_json
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.repl.completion import Branch, branch_of
from perdure.interfaces.cli.repl.parse_line import meaning
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, line, stack, table
from perdure.text_files import pipes_read_anew

GREETING = "/help shows what there is, Tab completes, /quit leaves; what runs goes on."
INTERRUPTED = 130


class Shell:
    """One session of the prompt.

    Args:
        session: of the command that opened it.
        app: the application whose commands it runs.
    """

    def __init__(self, session: Session, app: App) -> None:
        self._session = session
        self._app = app
        self.branch: Branch = branch_of(app)

    async def run(self, lines: AsyncGenerator[str]) -> int:
        """Run lines until the input ends or one quits; return the last failure's exit code."""
        code = 0
        async for text in lines:
            try:
                with pipes_read_anew():
                    ended = await self._line(text)
            except PerdureError as error:
                self._session.output.error(error)
                ended = error.exit_code
            if ended is None:
                break
            code = ended or code
        return code

    async def _line(self, text: str) -> int | None:
        """Handle one line; None quits."""
        meant = meaning(text, known=tuple(self.branch.branches))
        match meant.type:
            case "nothing":
                return 0
            case "leave":
                return None
            case "help":
                return await self._help(meant.words)
            case "command":
                return await self._command(meant.words)

    async def _help(self, words: tuple[str, ...]) -> int:
        if words:
            return await self._command((*words, "--help"))
        rows = [(f"/{name}", branch.about) for name, branch in sorted(self.branch.branches.items())]
        rows += [("/help COMMAND", "More about one."), ("/quit", "Leave; what runs goes on.")]
        self._session.output.tell(stack(table(("command", "does"), rows), line((GREETING, DIM))))
        return 0

    async def _command(self, words: tuple[str, ...]) -> int:
        """Run a command with its own output, which also tells what it refuses."""
        plain, as_json = without_json(words)
        context = self._session.context
        wanted = as_json or self._session.output.as_json
        output = Output(context.stdout, context.stderr, as_json=wanted)
        try:
            require_text(plain)
            with places_told():
                return await self._run(plain, output)
        except PerdureError as error:
            output.error(error)
            return error.exit_code

    async def _run(self, plain: Sequence[str], output: Output) -> int:
        """Run a command in its own session; Ctrl-C ends the command, not the prompt."""
        # Its own for each line: `--json` and the run that is followed must not outlive the command.
        session = replace(self._session, output=output, following=None)
        command, bound, ignored = bound_to(self._app, plain)
        if "session" not in ignored:
            _ = command(*bound.args, **bound.kwargs)
            return 0
        work = command(*bound.args, **bound.kwargs, session=session)
        try:
            return await interruptible(work)
        except asyncio.CancelledError:
            # Ctrl-C cancels the command's task alone. SIGTERM cancels this one, so the prompt ends.
            if (own := asyncio.current_task()) is not None and own.cancelling() > 0:
                self._session.following = session.following
                raise
            if session.following is not None:
                output.note(f"{session.following} goes on. Watch it: /watch {session.following}")
            return INTERRUPTED


async def interruptible(work: Coroutine[object, object, int | None]) -> int:
    """Let Ctrl-C cancel the work only; once more in haste, it cuts no cleanup short."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    listening = False
    cancelled_at = -INSIST_S

    def interrupt() -> None:
        nonlocal cancelled_at
        if (now := loop.time()) - cancelled_at > INSIST_S:
            cancelled_at = now
            task.cancel()

    with suppress(ValueError, RuntimeError):  # not the main thread: signals belong to somebody else
        loop.add_signal_handler(signal.SIGINT, interrupt)
        listening = True
    try:
        return await task or 0
    finally:
        # Taken away again: at the prompt, Ctrl-C drops the line that is typed.
        if listening:
            loop.remove_signal_handler(signal.SIGINT)
