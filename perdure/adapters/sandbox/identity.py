"""The user of a sandboxed program: the worker's own, or an unprivileged one if the worker is root.

`doctor` and the worker's log warn about a worker that is root. Its programs never are.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.domain.foundation.errors import NotAllowed, ToolFailure
from perdure.event_log import get_logger

# Neither distributions nor systemd assign this id, and it is below 65,536, so containers map it.
STRANGER = 65_533
# Only folders of the system, since the sandbox shows no others.
TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"
LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_log = get_logger(__name__)


def is_root() -> bool:
    """Whether the worker runs as root."""
    return os.geteuid() == 0


def separate_user() -> int | None:
    """The id of the user that programs run as; None if they keep the worker's."""
    return STRANGER if is_root() else None


def warn_of_root() -> None:
    """Warn in the log of a worker that is root."""
    if (user := separate_user()) is not None:
        _log.warning("worker_is_root", programs_in_the_sandbox_run_as=user)


def becoming(*, processes: int | None) -> tuple[str, ...]:
    """Words before a program, inside the sandbox: give up root, and limit the number of processes.

    The limit is set inside, where the kernel counts the processes of this sandbox alone. It is
    twice what is allowed, so that the watcher in `process` sees the excess and can report it.

    Raises:
        NotAllowed: the worker is root, and this host has no program that gives up root.
    """
    words: list[str] = []
    user = separate_user()
    if user is not None:
        setpriv = shutil.which("setpriv", path=TOOLS)
        if setpriv is None:
            raise NotAllowed(
                "This worker runs as root, and without setpriv no program can be kept from being "
                "root as well, so none is run.",
                cure="Run the worker as an ordinary user, or install util-linux.",
            )
        ids = (f"--reuid={user}", f"--regid={user}", "--clear-groups")
        words += [setpriv, *ids, "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs", "--"]
    prlimit = shutil.which("prlimit", path=TOOLS)
    if prlimit is not None and processes is not None:
        words += [prlimit, f"--nproc={2 * processes}", "--"]
    return tuple(words)


def hand_over(folder: str) -> None:
    """Make the user of sandboxed programs the owner of a working copy.

    Files with more than one hard link keep their owner: another link may lie outside the copy.
    """
    user = separate_user()
    if user is None:
        return
    with RootedDirectory(folder) as files:
        with files.folder(()) as top:
            os.fchown(top, user, user)
        for path, entry in files.walk():
            single = entry.kind == "folder" or entry.status.st_nlink == 1
            if entry.status.st_uid == user or not single:
                continue
            with suppress(FileNotFoundError, ToolFailure), files.folder(path[:-1]) as parent:
                os.chown(path[-1], user, user, dir_fd=parent, follow_symlinks=False)
