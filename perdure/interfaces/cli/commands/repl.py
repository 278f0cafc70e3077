"""`perdure repl`: all commands with a slash, with completion, history and a status line."""

import sys

from cyclopts import App

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.interfaces.cli.background import beside
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.console import console_on
from perdure.interfaces.cli.session import Session


async def repl(*, session: Given) -> int:
    """Open a prompt that takes every command with a slash before it.

    In a pipe it reads one command per line and exits with the code of the last failure.
    """
    try:
        # The prompt library is an optional extra; imported here, so that other commands work
        # without it.
        from perdure.interfaces.cli.repl.completion import Menu, Standing
        from perdure.interfaces.cli.repl.lines import piped_lines, typed_lines
        from perdure.interfaces.cli.repl.shell import GREETING, Shell
    except ImportError as error:
        raise RuntimeUnavailable(
            f"The prompt is not installed ({error}).",
            cure="Install it with `pip install 'perdure[repl]'`.",
        ) from error

    shell = Shell(session, _app(session))
    if not (sys.stdin.isatty() and session.context.stdout.isatty()):
        return await shell.run(piped_lines())
    session.output.note(f"perdure {session.context.version}. {GREETING}")
    standing = Standing()
    menu = Menu(shell.branch, lambda: standing.names)
    async with beside(standing.watch(session.context)):
        lines = typed_lines(menu, status=lambda: standing.line, home=session.context.home)
        return await shell.run(lines)


def _app(session: Session) -> App:
    # Imported here, as the application in turn registers this command.
    from perdure.interfaces.cli.app import build

    context = session.context
    return build(context.version, console_on(context.stdout), console_on(context.stderr))
