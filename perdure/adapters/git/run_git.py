"""Running git: absolute binary, fixed environment, own process group, limited time and output."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.adapters.sandbox.bubblewrap import enclosure
from perdure.domain.foundation.errors import ToolFailure

SEARCH_PATH = "/usr/bin:/bin:/usr/local/bin"
OUTPUT_CAP = 5 * 1024 * 1024
CPU_SECONDS = 30
END_TIMEOUT_S = 5.0
# A pipe in a repository would be waited for without any use of the processor.
WALL_S = 120.0

# Nothing of the machine's or the user's configuration, no prompt, no pager, no transport.
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_EDITOR": "/bin/false",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
}
# The command line wins over every file, so these hold even where a configuration is read.
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
    """What git said; `cut` when the output cap was reached and git was ended."""

    code: int
    stdout: bytes
    stderr: str
    cut: bool = False


def binary() -> str:
    """The absolute path of git, from fixed places; raises `ToolFailure` where it is missing."""
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
    """Run git and collect what it says.

    Args:
        arguments: everything after the global options.
        cwd: the folder to run in.
        extra: further environment, such as GIT_DIR.
        cap: bytes of output after which git is ended.
        may_write: without it the process cannot write a single byte to any file.
        view: files and folders that git may see beside the system; all where this is None, or
            where there is no sandbox.
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
    finally:
        await _end_group(process)


async def _start(
    arguments: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    before: Sequence[str] = (),
) -> asyncio.subprocess.Process:
    """Start git. A cancellation on the way waits for the start, so that the group can be ended.

    Left to itself, asyncio would end the process alone and wait for children that hold its pipes.
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
        starting.add_done_callback(_end_when_started)
        await asyncio.wait({starting})
        if starting.exception() is None:
            await _end_group(starting.result())
        raise


def _end_when_started(starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        _signal_group(starting.result())


def _limits(*, may_write: bool) -> tuple[str, ...]:
    """What becomes git once its limits are set, which its children inherit.

    Set from outside, after the start, they came too late on a busy machine: git had written.
    """
    writing = "" if may_write else "ulimit -f 0 && "
    script = f'ulimit -t {CPU_SECONDS} 2>/dev/null; ulimit -c 0; {writing}exec "$@"'
    return ("/bin/sh", "-c", script, "sh")


async def _collect(process: asyncio.subprocess.Process, cap: int) -> GitOutput:
    if process.stdout is None or process.stderr is None:
        raise ToolFailure("git gave no output channel.", reason="io_error")
    # Both channels are drained: a full one would block git for ever.
    (stdout, cut), (stderr, _) = await asyncio.gather(
        _read(process.stdout, cap, process), _read(process.stderr, 64 * 1024, None)
    )
    code = -1 if cut else await process.wait()
    return GitOutput(code=code, stdout=stdout, stderr=stderr.decode(errors="replace"), cut=cut)


async def _read(
    stream: asyncio.StreamReader, cap: int, process: asyncio.subprocess.Process | None
) -> tuple[bytes, bool]:
    """Up to `cap` bytes; at the cap the process is ended, or the rest thrown away."""
    kept = bytearray()
    while chunk := await stream.read(1 << 16):
        kept += chunk[: max(0, cap - len(kept))]
        if len(kept) >= cap and process is not None:
            _signal_group(process)
            return bytes(kept), True
    return bytes(kept), False


async def _end_group(process: asyncio.subprocess.Process) -> None:
    _signal_group(process)
    await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=END_TIMEOUT_S)


def _signal_group(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
