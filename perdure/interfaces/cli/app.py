"""The application: all commands, how they are called, and what exit code they end with."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import NoReturn

from cyclopts import App, Group, Parameter
from rich.console import Console

from perdure.domain.foundation.errors import PerdureError
from perdure.interfaces.app_context import AppContext
from perdure.interfaces.cli.commands import (
    audit,
    config,
    definitions,
    demo,
    files,
    fork,
    inspect,
    installation,
    loops,
    mcp_server,
    memory,
    outputs,
    patterns,
    projects,
    repl,
    replay_chaos,
    serve,
    steer,
    tools,
)
from perdure.interfaces.cli.commands import run as commands_run
from perdure.interfaces.cli.console import console_on
from perdure.interfaces.cli.invoke import bound_to, without_json
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.session import Session

INTERRUPTED = 130
INSIST_S = 1.0
HELP = (
    "Language-model work in loops that stop when the result is good enough, and survive anything."
)
EPILOGUE = (
    "Every command takes --json. Runs are named by id, by a unique beginning of one, or by @last. "
    "Exit codes: 0 done, 1 ended badly, 2 wrong input, 3 a service is away, 4 not found, "
    "5 not allowed now, 130 interrupted."
)

START = Group("Start", sort_key=1)
LOOK = Group("Look", sort_key=2)
STEER = Group("Steer", sort_key=3)
WRITE = Group("Task files", sort_key=4)
KNOW = Group("Memory", sort_key=5)
SERVE = Group("Installation", sort_key=6)


def build(version: str, console: Console, error_console: Console) -> App:
    """The application with every command registered."""
    app = App(
        name="perdure",
        help=HELP,
        help_epilogue=EPILOGUE,
        version=version,
        console=console,
        error_console=error_console,
        help_format="plaintext",
        default_parameter=Parameter(negative=()),
    )
    for command in (commands_run.run, commands_run.watch, fork.fork, demo.demo):
        app.command(command, group=START)
    app.command(loops.loops_commands(START))
    app.command(repl.repl, group=START)
    for command in (
        inspect.status,
        inspect.history,
        inspect.costs,
        inspect.result,
        inspect.gates,
        inspect.explain,
    ):
        app.command(command, group=LOOK)
    app.command(inspect.list_runs, name="list", group=LOOK)
    for command in (
        outputs.transcript,
        projects.artifacts,
        outputs.artifact,
        outputs.diff,
        outputs.apply,
    ):
        app.command(command, group=LOOK)
    app.command(projects.projects_commands(LOOK))
    app.command(projects.sessions_commands(LOOK))
    for command in (steer.pause, steer.resume, steer.stop, steer.escalate, steer.amend):
        app.command(command, group=STEER)
    for command in (steer.answer, steer.add, steer.retry, steer.repair):
        app.command(command, group=STEER)
    for command in (files.new, definitions.validate, files.schema, definitions.definitions):
        app.command(command, group=WRITE)
    app.command(memory.memory_commands(KNOW))
    app.command(memory.skills_commands(KNOW))
    app.command(patterns.patterns_commands(KNOW))
    app.command(tools.tools_commands(KNOW))
    for command in (installation.up, installation.down, installation.logs, installation.worker):
        app.command(command, group=SERVE)
    app.command(serve.api_commands(SERVE))
    app.command(audit.audit, group=SERVE)
    app.command(mcp_server.mcp, group=SERVE)
    app.command(config.config, group=SERVE)
    for command in (installation.codec, installation.setup, installation.doctor, installation.gc):
        app.command(command, group=SERVE)
    for command in (replay_chaos.replay, replay_chaos.chaos):
        app.command(command, group=SERVE)
    return app


def main(context: AppContext, argv: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    words, as_json = without_json(argv)
    session = Session(context, Output(context.stdout, context.stderr, as_json=as_json))
    try:
        return _run(session, words)
    except PerdureError as error:
        session.output.error(error)
        _tell_it_goes_on(session)
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        _tell_it_goes_on(session)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough (`| head`); what is left to flush has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def leave(code: int) -> NoReturn:
    """End the process at once; an ordinary end can crash in the Temporal client's threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(session: Session, words: Sequence[str]) -> int:
    context = session.context
    app = build(context.version, console_on(context.stdout), console_on(context.stderr))
    command, bound, ignored = bound_to(app, words)
    if "session" not in ignored:
        _ = command(*bound.args, **bound.kwargs)
        return 0
    return asyncio.run(_interruptible(command(*bound.args, **bound.kwargs, session=session)))


async def _interruptible(work: Coroutine[object, object, int | None]) -> int:
    """Let Ctrl-C end the command once: a second one must not tear what is being closed."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    with suppress(ValueError, RuntimeError):  # not the main thread: somebody else has the signals
        loop.add_signal_handler(signal.SIGINT, _Interrupt(task))
    return await work or 0


class _Interrupt:
    """Cancels a task at the first call; another one after a second ends the process."""

    def __init__(self, task: "asyncio.Task[object] | None") -> None:
        self._task = task
        self._first: float | None = None

    def __call__(self) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            if self._task is not None:
                self._task.cancel()
        elif now - self._first > INSIST_S:
            leave(INTERRUPTED)


def _tell_it_goes_on(session: Session) -> None:
    if session.following is not None:
        run = session.following
        session.output.note(f"The run goes on. Watch it: perdure watch {run}")
        session.output.note(f"Stop it: perdure stop {run}")
