"""Who a sandboxed program is: the worker's own user, or where that is root, a user without rights.

A worker that is root is said so (`doctor`, and the worker's log); its programs never are.
"""

import os
import shutil
from pathlib import Path

from perdure.domain.foundation.errors import NotAllowed

# In a range that neither distributions nor systemd give to anybody, and below 65,536, so that
# containers have it.
STRANGER = 65_533
TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin"
LAUNCHER = str(Path(__file__).with_name("launcher.py"))


def is_root() -> bool:
    """Whether the worker runs as root."""
    return os.geteuid() == 0


def separate_user() -> int | None:
    """The user that programs get in place of the worker's; None where they keep the worker's."""
    return STRANGER if is_root() else None


def becoming(*, processes: int | None) -> tuple[str, ...]:
    """Words before a program, inside: they give up root, and bound how many processes there are.

    The bound is set inside, where the kernel counts the processes of this sandbox alone. It is
    twice what is allowed: who looks at the tree can then say what was too much.

    Raises:
        NotAllowed: the worker is root, and nothing here can give that up.
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
    """Give a working copy to the user that programs get; files with further links stay as is."""
    user = separate_user()
    if user is None:
        return
    for _, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        if os.fstat(descriptor).st_uid != user:
            os.fchown(descriptor, user, user)
        for name in (*files, *folders):
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except FileNotFoundError:
                continue
            is_folder = name in folders
            if status.st_uid != user and (is_folder or status.st_nlink == 1):
                os.chown(name, user, user, dir_fd=descriptor, follow_symlinks=False)
