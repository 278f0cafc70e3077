"""The application: all commands, how they are called, and their exit codes."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from cyclopts import App, Group, Parameter
from rich.console import Console

from perdure.domain.foundation.errors import PerdureError
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.cli.console import UNWRITTEN, console_on, lead_nowhere
from perdure.interfaces.cli.invoke import (
    bound_to,
    places_told,
    require_text,
    with_standard_input,
    without_json,
)
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.session import Session

SIGNALLED = 128
INTERRUPTED = SIGNALLED + signal.SIGINT
INSIST_S = 1.0
HELP = (
    "Language-model work in loops that stop when the result is good enough, and survive anything."
)
EPILOGUE = (
    "Every command takes --json. Runs are named by id, by a unique beginning of one, or by @last. "
    "Exit codes: 0 done, 1 ended badly, 2 wrong input, 3 a service is away, 4 not found, "
    "5 not allowed now, 130 interrupted, 143 terminated."
)

COMMANDS = "perdure.interfaces.cli.commands"
GROUPS = {
    Group("Start", sort_key=1): {
        "run": "run:run",
        "watch": "run:watch",
        "fork": "fork:fork",
        "demo": "demo:demo",
        "experiment": "experiment:experiment_app",
        "schedule": "schedule:schedule_app",
        "loops": "loops:loops_app",
        "repl": "repl:repl",
    },
    Group("Look", sort_key=2): {
        "open": "open_page:open_page",
        "status": "inspect:status",
        "history": "inspect:history",
        "costs": "inspect:costs",
        "result": "inspect:result",
        "gates": "inspect:gates",
        "explain": "inspect:explain",
        "list": "inspect:list_runs",
        "transcript": "outputs:transcript",
        "artifacts": "projects:artifacts",
        "artifact": "outputs:artifact",
        "diff": "outputs:diff",
        "apply": "outputs:apply",
        "projects": "projects:projects_app",
        "sessions": "projects:sessions_app",
    },
    Group("Steer", sort_key=3): {
        "pause": "steer:pause",
        "resume": "steer:resume",
        "stop": "steer:stop",
        "escalate": "steer:escalate",
        "amend": "steer:amend",
        "answer": "steer:answer",
        "add": "steer:add",
        "retry": "steer:retry",
        "repair": "steer:repair",
    },
    Group("Task files", sort_key=4): {
        "new": "files:new",
        "validate": "definitions:validate",
        "schema": "files:schema",
        "definitions": "definitions:definitions",
    },
    Group("Memory", sort_key=5): {
        "memory": "memory:memory_app",
        "skills": "memory:skills_app",
        "patterns": "patterns:patterns_app",
        "tools": "tools:tools_app",
    },
    Group("Installation", sort_key=6): {
        "up": "installation:up",
        "down": "installation:down",
        "logs": "installation:logs",
        "worker": "installation:worker",
        "deploy": "deploy:deploy_app",
        "api": "serve:api_app",
        "audit": "audit:audit",
        "notices": "notices:notices_app",
        "keys": "keys:keys_app",
        "mcp": "mcp_server:mcp",
        "config": "config:config",
        "codec": "installation:codec",
        "setup": "installation:setup",
        "doctor": "installation:doctor",
        "gc": "installation:gc",
        "erase": "erase:erase",
        "move-blobs": "installation:move_blobs",
        "replay": "replay_chaos:replay",
        "chaos": "replay_chaos:chaos",
    },
}
"""Where each command is defined; its module is imported only when the command is called."""


def build(
    version: str, console: Console, error_console: Console, *, called: str | None = None
) -> App:
    """Build the application with all commands registered.

    All of them are imported unless `called` names one.
    """
    app = App(
        name="perdure",
        help=HELP,
        help_epilogue=EPILOGUE,
        version=version,
        console=console,
        error_console=error_console,
        help_format="plaintext",
        default_parameter=Parameter(negative=(), show_default=_default_shown),
    )
    for group, commands in GROUPS.items():
        for name, place in commands.items():
            app.command(f"{COMMANDS}.{place}", name=name, group=group)
    # Help, and the hint at a misspelt name, need all commands with what they do.
    if not any(called in commands for commands in GROUPS.values()):
        app.resolved_commands()
    return app


def _default_shown(value: object) -> str | None:
    """A default as help shows it, or None where it is nothing: a flag that is off, no text."""
    if value is None or value is False or (isinstance(value, str | tuple) and not value):
        return None
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def main(context: AppContext, argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    # In this order: `--json` may stand before the command too.
    words, as_json = without_json(argv)
    words = with_standard_input(words)
    session = Session(context, Output(context.stdout, context.stderr, as_json=as_json))
    try:
        return _carried_out(session, words)
    except OSError as error:
        code = _unwritten(error, context.stdout, context.stderr)
        _tell_it_goes_on(session)
        return code


def _carried_out(session: Session, words: Sequence[str]) -> int:
    try:
        require_text(words)
        with places_told():
            return _run(session, words)
    except PerdureError as error:
        session.output.error(error)
        _tell_it_goes_on(session)
        return error.exit_code
    # Not returned as a code: only here is it told that a followed run goes on.
    except _Interrupted as interrupted:
        _tell_it_goes_on(session)
        return interrupted.code
    # Python's own handler raises it, which stands again after a line of the prompt.
    except KeyboardInterrupt:
        _tell_it_goes_on(session)
        return INTERRUPTED


def _unwritten(error: OSError, stdout: TextIO, stderr: TextIO) -> int:
    """Say that output could not be written, and return the exit code; any other error is raised."""
    if isinstance(error, BrokenPipeError):
        lead_nowhere(stdout)  # the reader of the pipe is gone, as with `| head`
        return 0
    if error.errno not in UNWRITTEN:
        raise error
    lead_nowhere(stdout)
    told = PerdureError(
        f"This command could not write: {error.strerror}.",
        cure="Make room where its output and its files go.",
    )
    # Not through the session's output, whose standard output is what failed.
    Output(stderr, stderr).error(told)
    return os.EX_IOERR


def refuse(error: PerdureError, argv: Sequence[str]) -> int:
    """Tell why a command line cannot even begin (a wrong setting), and return its exit code."""
    _, as_json = without_json(argv)
    try:
        Output(sys.stdout, sys.stderr, as_json=as_json).error(error)
    except OSError as unwritten:
        return _unwritten(unwritten, sys.stdout, sys.stderr)
    return error.exit_code


def leave(code: int) -> NoReturn:
    """End the process at once; a normal exit can crash in the threads of the Temporal client."""
    # `os._exit` writes out no buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(session: Session, words: Sequence[str]) -> int:
    context = session.context
    called = words[0] if words else None
    consoles = console_on(context.stdout), console_on(context.stderr)
    app = build(context.version, *consoles, called=called)
    command, bound, ignored = bound_to(app, words)
    # `--help` and `--version` are commands of the library, which take none.
    if "session" not in ignored:
        _ = command(*bound.args, **bound.kwargs)
        return 0
    return asyncio.run(_interruptible(command(*bound.args, **bound.kwargs, session=session)))


async def _interruptible(work: Coroutine[object, object, int | None]) -> int:
    """Let the first Ctrl-C or SIGTERM cancel the command; a second cuts no cleanup short."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    interrupt = _Interrupt(task)
    with suppress(ValueError, RuntimeError):  # not the main thread: signals belong to somebody else
        # SIGTERM too: containers and schedulers send it, and what is open must be closed.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt, number)
    try:
        return await work or 0
    except asyncio.CancelledError:
        # An error of its own: `asyncio.run` would let a bare cancellation through as a traceback.
        raise _Interrupted(interrupt.code) from None


class _Interrupted(Exception):
    """A signal ended the command; the exit code says which."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class _Interrupt:
    """Cancels the task at the first call; a call more than a second later ends the process."""

    def __init__(self, task: "asyncio.Task[object] | None") -> None:
        self.code = INTERRUPTED
        self._task = task
        self._first: float | None = None

    def __call__(self, number: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self.code = SIGNALLED + number
            self._first = now
            if self._task is not None:
                self._task.cancel()
        # A second press in haste must not tear what is being closed.
        elif now - self._first > INSIST_S:
            leave(self.code)


def _tell_it_goes_on(session: Session) -> None:
    if session.following is not None:
        run = session.following
        session.output.note(f"The run goes on. Watch it: perdure watch {run}")
        session.output.note(f"Stop it: perdure stop {run}")
