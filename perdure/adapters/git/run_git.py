"""Runs git: a fixed binary and environment, a process group, limits of time and output."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.adapters.sandbox.bubblewrap import enclosure
from perdure.domain.foundation.errors import ToolFailure

# Not PATH: a folder of it may be one that a model writes to.
SEARCH_PATH = "/usr/bin:/bin:/usr/local/bin"
OUTPUT_CAP = 5 * 1024 * 1024
CPU_SECONDS = 30
END_TIMEOUT_S = 5.0
# Git could wait for ever on a named pipe in a repository, without using the processor.
WALL_S = 120.0

# No configuration of machine or user, no prompt, no pager, no transport.
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    # Some of what git says is searched for English words.
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # or `git status` would write the index
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "none",
    # A partial clone fetches what it lacks, by a program that its configuration may name.
    "GIT_NO_LAZY_FETCH": "1",
}
# The command line overrides all files, so these hold even if a configuration is read.
OVERRIDES: tuple[str, ...] = tuple(
    argument
    for setting in (
        "core.fsmonitor=false",
        "core.pager=cat",
        "core.hooksPath=/dev/null",
        "core.untrackedCache=false",
        "core.sshCommand=/bin/false",
        "core.askPass=/bin/false",
        "core.editor=/bin/false",
        "core.attributesFile=/dev/null",
        "core.excludesFile=/dev/null",
        "credential.helper=",
        "diff.external=",
        "interactive.diffFilter=",
        "log.showSignature=false",
        "gpg.program=/bin/false",
        "gpg.openpgp.program=/bin/false",
        "gpg.x509.program=/bin/false",
        "gpg.ssh.program=/bin/false",
        # For a submodule git starts another git, which reads the configuration in there.
        "diff.ignoreSubmodules=all",
        "diff.submodule=short",
        "status.submoduleSummary=false",
        "submodule.recurse=false",
        "protocol.allow=never",
        "maintenance.auto=false",
        "gc.auto=0",
        "color.ui=never",
    )
    for argument in ("-c", setting)
)


@dataclass(frozen=True, slots=True)
class GitOutput:
    """What git printed; `cut` if the output limit was reached and git was killed."""

    code: int
    stdout: bytes
    stderr: str
    cut: bool = False


def binary() -> str:
    """The path of git, searched in fixed folders; raises `ToolFailure` if it is missing."""
    found = shutil.which("git", path=SEARCH_PATH)
    if found is None:
        raise ToolFailure(
            f"git is not installed on this worker (looked in {SEARCH_PATH}). "
            "Continue without version control, or ask the operator to install git.",
            reason="unavailable",
        )
    return found


async def run_git(
    arguments: Sequence[str],
    *,
    cwd: str,
    extra: Mapping[str, str] | None = None,
    cap: int = OUTPUT_CAP,
    may_write: bool = False,
    view: Sequence[str] | None = None,
) -> GitOutput:
    """Run git and collect its output.

    Args:
        arguments: everything after the global options.
        cwd: the folder to run in.
        extra: further environment, such as GIT_DIR.
        cap: bytes of output after which git is killed.
        may_write: without it the process cannot write a byte to any file.
        view: files and folders that git may see besides the system's; everything if this is None
            or there is no sandbox.

    Raises:
        ToolFailure: git is not installed, or took too long.
        ServiceUnavailable: the sandbox gave no answer, so git was not started.
    """
    environment = {**ENVIRONMENT, **(extra or {})}
    before = await enclosure(view, cwd=cwd, environment=environment) if view is not None else ()
    limited = (*before, *_limits(may_write=may_write))
    process = await _start(arguments, cwd=cwd, environment=environment, before=limited)
    try:
        async with asyncio.timeout(WALL_S):
            return await _collect(process, cap)
    except TimeoutError as error:
        raise ToolFailure(
            f"git did not end within {WALL_S:g} s and was stopped. Ask for less: name a path "
            "or fewer commits.",
            reason="timeout",
        ) from error
    # Also after a good end, since git may have left children.
    finally:
        await _end_group(process)


async def _start(
    arguments: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    before: Sequence[str] = (),
) -> asyncio.subprocess.Process:
    """Start git. A cancellation in between waits for the start and then kills the whole group.

    By itself asyncio would kill only the process, and wait for children that hold its pipes.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *before,
            binary(),
            "--no-pager",
            *OVERRIDES,
            *arguments,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Also if a second cancellation ends this wait.
        starting.add_done_callback(_end_when_started)
        await asyncio.wait({starting})
        if starting.exception() is None:
            await _end_group(starting.result())
        raise


def _end_when_started(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        _signal_group(starting.result())


def _limits(*, may_write: bool) -> tuple[str, ...]:
    """A command that sets limits and then becomes git; git's children inherit them.

    Set from outside after the start, they came too late on a busy machine: git had already written.
    """
    # With `&&`, since git must not start without this one; the limit of time may be lower already.
    writing = "" if may_write else "ulimit -f 0 && "
    script = f'ulimit -t {CPU_SECONDS} 2>/dev/null; ulimit -c 0; {writing}exec "$@"'
    return ("/bin/sh", "-c", script, "sh")


async def _collect(process: asyncio.subprocess.Process, cap: int) -> GitOutput:
    if process.stdout is None or process.stderr is None:
        raise ToolFailure("git gave no output channel.", reason="io_error")
    # Both are read at the same time, since a full pipe would block git for ever.
    (stdout, cut), (stderr, _) = await asyncio.gather(
        _read(process.stdout, cap, process), _read(process.stderr, 64 * 1024, None)
    )
    code = -1 if cut else await process.wait()
    return GitOutput(code=code, stdout=stdout, stderr=stderr.decode(errors="replace"), cut=cut)


async def _read(
    stream: asyncio.StreamReader, cap: int, process: asyncio.subprocess.Process | None
) -> tuple[bytes, bool]:
    """Up to `cap` bytes; then the process is killed, or without one the rest is dropped."""
    kept = bytearray()
    while chunk := await stream.read(1 << 16):
        kept += chunk[: max(0, cap - len(kept))]
        if len(kept) >= cap and process is not None:
            _signal_group(process)
            return bytes(kept), True
    return bytes(kept), False


async def _end_group(process: asyncio.subprocess.Process) -> None:
    _signal_group(process)
    # Not longer: a process that waits for a disk or a network folder ends only after that.
    await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=END_TIMEOUT_S)


def _signal_group(process: asyncio.subprocess.Process) -> None:
    # macOS says that it is not permitted where only zombies are left in a group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
