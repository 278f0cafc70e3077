"""The sandbox for programs of the system that only look at foreign files, such as git.

They stay the worker's user, as they read what the worker may read, and see nothing but the system's
own folders and what they are shown, all of it read-only: no `/proc`, no network, no way to write.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence

from perdure.adapters.sandbox.bubblewrap import SYSTEM, find_bubblewrap
from perdure.adapters.sandbox.identity import is_root

SEARCH = "/usr/local/bin:/usr/bin:/bin"
PROBE_S = 20.0
_ALONE = (
    "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
)  # fmt: skip
# Root reads what is others' by a right that a namespace of users would take away.
_READING = ("--cap-add", "CAP_DAC_READ_SEARCH")
_OWN_USERS = ("--unshare-user", "--disable-userns")
_probed: dict[int, bool] = {}


async def enclosure(
    view: Sequence[str], *, cwd: str, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Words before a command that run it inside; none where this machine has no sandbox.

    Args:
        view: absolute paths that can be read, at their own places.
        cwd: the folder to run in, part of the view.
        environment: every variable that the program gets.
    """
    bwrap = find_bubblewrap(SEARCH)
    if bwrap is None or not await _works(bwrap):
        return ()
    words = _words(bwrap)
    for path in view:
        words += ["--ro-bind", path, path]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    return (*words, "--remount-ro", "/", "--chdir", cwd, "--")


def _words(bwrap: str) -> list[str]:
    words = [bwrap, *_ALONE, *(_READING if is_root() else _OWN_USERS)]
    for path in SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return [*words, "--dev", "/dev", "--remount-ro", "/dev", "--tmpfs", "/tmp"]


async def _works(bwrap: str) -> bool:
    """Whether this machine lets it; tried once for each user that the process was."""
    user = os.geteuid()
    if user not in _probed:
        trying = await asyncio.create_subprocess_exec(
            *_words(bwrap),
            "--",
            "/bin/true",
            env={},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(PROBE_S):
                _probed[user] = await trying.wait() == 0
        except TimeoutError:
            trying.kill()
            _probed[user] = False
    return _probed[user]
