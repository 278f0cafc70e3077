"""Ties a command to its parent: when the parent dies for any reason, the command gets SIGTERM.

It runs as a script, `python -I -S die_with_parent.py PID COMMAND…`, without importing anything of
Perdure. It asks the kernel for the signal and then becomes the command, with the same process id.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        # Not SIGKILL: a worker still reports what its steps have done.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # the parent died before the request was made
        sys.exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
