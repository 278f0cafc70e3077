"""Sets limits, makes a user namespace if the worker is root, and becomes the program to start.

It runs as a script of its own (`python -I -S launcher.py WISHES PROGRAM …`), because the worker has
threads, so no Python of it may run between fork and exec. It imports nothing of this package.

If the worker is root, root inside a user namespace is also root for the kernel, and owns what root
owns, such as files of `/proc/sys`. So the namespace is made here, with a second user in it, and the
program switches to that user inside (see `identity`).
"""

import ctypes
import os
import resource
import sys

NEW_USERS = 0x1000_0000
READY = b"."


def main(wishes: str, program: list[str]) -> None:
    """Set limits (`RLIMIT_CPU=9,…`), with `user=N` make the namespace, and exec the program."""
    given = dict(word.split("=") for word in wishes.split(",") if word)
    if stranger := int(given.pop("user", "0")):
        # A program that reopens /dev/stdout must own the pipe.
        for descriptor in range(3):
            os.fchown(descriptor, stranger, stranger)
    for name, value in given.items():
        _limit(getattr(resource, name), int(value))
    if stranger:
        _separate(stranger)
    os.environ.pop("LC_CTYPE", None)  # Python sets it when no locale is set
    os.execv(program[0], program)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):
        # macOS knows all names but refuses some values; the worker also watches the program's use.
        if sys.platform == "linux":
            raise


def _separate(stranger: int) -> None:
    """Enter a user namespace that maps root and one other user, and allows no more namespaces."""
    asked, ask = os.pipe()
    told, tell = os.pipe()
    user, group = os.geteuid(), os.getegid()
    helper = os.fork()
    if not helper:
        # Only a process outside the namespace may map more than one user.
        os.read(asked, 1)
        _map(os.getppid(), "uid_map", f"0 {user} 1\n{stranger} {stranger} 1\n")
        _map(os.getppid(), "gid_map", f"0 {group} 1\n{stranger} {stranger} 1\n")
        os.write(tell, READY)
        os._exit(0)
    os.close(tell)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_USERS):
        os.kill(helper, 9)
        sys.exit(f"no namespace of users can be made: {os.strerror(ctypes.get_errno())}")
    os.write(ask, READY)
    ready = os.read(told, 1)
    os.waitpid(helper, 0)
    if not ready:
        sys.exit("the users of the namespace cannot be set, so root cannot be left behind")
    for descriptor in (asked, ask, told):
        os.close(descriptor)
    # As bubblewrap's `--disable-userns`, which it refuses in a namespace that it did not make.
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as most:
        most.write("0")


def _map(process: int, name: str, lines: str) -> None:
    with open(f"/proc/{process}/{name}", "w", encoding="ascii") as ids:
        ids.write(lines)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
