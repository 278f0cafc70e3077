"""`shell.full`: a real shell on the run's working copy, inside bubblewrap or not at all.

A model's commands run without network, without the worker's environment and without the user's
files. They can change the run's working copy, except `.git`. They cannot read dotenv files, nor
folders of such a name, like the file tools.
"""

import asyncio
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from perdure.adapters.files.paths import is_secret, shown, why_protected
from perdure.adapters.files.rooted_files import (
    MOST_LEVELS,
    FolderEntry,
    Parts,
    RootedDirectory,
)
from perdure.adapters.sandbox.commands import LocalCommands, Script
from perdure.adapters.tools.host import AnyTool
from perdure.domain.evaluation.program_checks import Ran
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.tools.selection import SHELL_FULL
from perdure.extending.tool_decorator import ToolContext, tool

COMMAND_CHARACTERS = 20_000
# The sandbox ends a command first and reports its output; the host's own timeout comes later.
GRACE_S = 10.0
VERSION_CONTROL = ".git"
HIDDEN_PATHS = 200


def shell_full(commands: LocalCommands, *, timeout_s: float) -> AnyTool:
    """`shell.full` in the worker's sandbox; a command takes at most `timeout_s`."""

    @tool(name=SHELL_FULL, access="execute", timeout_s=timeout_s + GRACE_S, exclusive=True)
    async def run(
        context: ToolContext,
        command: Annotated[str, Field(min_length=1, max_length=COMMAND_CHARACTERS)],
        limit_s: Annotated[float, Field(gt=0)] | None = None,
    ) -> str:
        """Run a command line with sh in a sandbox over the workspace: no network, nothing else to
        read or write. Each call starts anew in the workspace's top folder; files stay.

        Args:
            command: the command line; several lines are a script.
            limit_s: end it after so many seconds, before the worker's own limit does.
        """
        root = context.grant.root
        # Looked up before each command, since the one before may have made such files.
        fixed, hidden = await asyncio.to_thread(_withheld, root)
        script = Script(text=command, folder=root, timeout_s=limit_s, fixed=fixed, hidden=hidden)
        return _told(await commands.run_shell(script))

    return run


def _withheld(root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths of the workspace that the shell may not change, and those it may not read."""
    with RootedDirectory(root) as files:
        hidden = tuple("/".join(parts) for parts in _secrets(files))
        marker = files.entry((VERSION_CONTROL,))
    if len(hidden) > HIDDEN_PATHS:
        raise ToolFailure(
            f"The workspace holds {len(hidden)} dotenv files, too many to withhold from a shell.",
            reason="refused",
        )
    kept = marker is not None and marker.kind in {"file", "folder"}
    return (VERSION_CONTROL,) if kept else (), hidden


def _secrets(files: RootedDirectory) -> Iterator[Parts]:
    """The files and folders that may not be read; of such a folder, only the folder itself.

    In all folders, since the shell can read them: in those of packages and virtual environments,
    and in those named `.git`, which a command could have renamed.
    """
    waiting: list[Parts] = [()]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(files, folder):
            parts = (*folder, entry.name)
            if entry.kind == "folder" and not is_secret(entry.name):
                _require_depth(parts)
                waiting.append(parts)
            elif entry.kind != "link" and _is_withheld(entry.name):
                yield parts


def _entries(files: RootedDirectory, folder: Parts) -> list[FolderEntry]:
    # Not passed over as `walk` does: a command may close a folder, and the next one open it again.
    try:
        return files.entries(folder)
    except ToolFailure as failure:
        raise ToolFailure(
            f"The folder {shown('/'.join(folder))} cannot be listed, so its dotenv files cannot be "
            f"withheld from a shell: {failure.message} A person can make it readable or remove it.",
            reason="refused",
        ) from failure


def _require_depth(folder: Parts) -> None:
    if len(folder) >= MOST_LEVELS:
        raise ToolFailure(
            f"The folder {shown('/'.join(folder))} is {MOST_LEVELS} levels deep, and below "
            "it dotenv files cannot be withheld from a shell. Remove it.",
            reason="refused",
        )


def _is_withheld(name: str) -> bool:
    return name != VERSION_CONTROL and why_protected((name,), use="read") is not None


def _told(ran: Ran) -> str:
    """The result, with how it ended on the first line, where no output can be taken for it."""
    if ran.overran:
        end = f"stopped: it used {ran.overran}"
    elif ran.code is None:
        end = f"stopped: it did not end within {ran.timeout_s:g} s"
    else:
        end = f"exit code {ran.code}"
    parts = [f"[{end}; {ran.seconds:.1f} s]"]
    parts += [f"[output]\n{ran.out.rstrip()}"] if ran.out.strip() else []
    parts += [f"[errors]\n{ran.err.rstrip()}"] if ran.err.strip() else []
    return "\n".join(parts)
