"""Becomes the program that the worker starts: sets its limits, and as root leaves root behind.

Run as a script of its own (`python -I -S launcher.py WISHES PROGRAM …`), because nothing may run
between fork and exec in the worker. It imports nothing of this package.

Where the worker is root, "root" inside a namespace of users would be root for the kernel too, and
own what root owns: files of `/proc/sys` among them. So the namespace is made here, with a second
user in it, and what becomes the program inside gives root up for that one (see `identity`).
"""

import ctypes
import os
import resource
import sys

NEW_USERS = 0x1000_0000
READY = b"."


def main(wishes: str, program: list[str]) -> None:
    """Set limits (`RLIMIT_CPU=9,…`), with `user=N` make the namespace, and become the program."""
    given = dict(word.split("=") for word in wishes.split(",") if word)
    if stranger := int(given.pop("user", "0")):
        # Reopening /dev/stdout and the like asks who owns the pipe.
        for descriptor in range(3):
            os.fchown(descriptor, stranger, stranger)
    for name, value in given.items():
        _limit(getattr(resource, name), int(value))
    if stranger:
        _separate(stranger)
    os.environ.pop("LC_CTYPE", None)  # Python's own addition where no language is set
    os.execv(program[0], program)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):
        # macOS has the names of all and takes some; the worker watches what the program uses too.
        if sys.platform == "linux":
            raise


def _separate(stranger: int) -> None:
    """Enter a namespace of users that knows root and one other, and allows no further ones."""
    asked, ask = os.pipe()
    told, tell = os.pipe()
    user, group = os.geteuid(), os.getegid()
    helper = os.fork()
    if not helper:
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
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as most:
        most.write("0")


def _map(process: int, name: str, lines: str) -> None:
    with open(f"/proc/{process}/{name}", "w", encoding="ascii") as ids:
        ids.write(lines)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
