"""The command line of bubblewrap, for programs that write (`wrapped`) or only read (`enclosure`).

bubblewrap itself is started with an empty environment: its process 1 inside keeps the environment
that it was given, and the program could read it there.

Programs that only read stay the worker's user, since they may read what the worker may. They see
the system's own folders and what they are shown, all of it read-only, without `/proc` or network.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.adapters.sandbox.identity import becoming, is_root
from perdure.adapters.sandbox.syscalls import filter_for
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.event_log import get_logger

WORK = "/perdure/copy"
OUTPUT = "/perdure/output.txt"
# A placeholder for the descriptor of the system-call filter, which is known when a process starts.
FILTER = "{filter}"
# Sizes of `/tmp` and `/dev/shm`, which live in memory.
TEMPORARY_BYTES = 256 << 20
SHARED_BYTES = 64 << 20
MOST_OF_A_LINE = 512
SEARCH = "/usr/local/bin:/usr/bin:/bin"
PROBE_S = 20.0
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
# What programs need of `/etc`, without its secrets: names of users, locale, the dynamic linker.
_CONFIGURATION = (
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
)
# What programs that were granted the network need of it: names of hosts, and whom TLS trusts.
_NETWORKING = (
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/hosts",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_NO_NETWORK = "--unshare-net"
# A session of its own keeps a program from typing into the worker's terminal (TIOCSTI).
_ALONE = (
    "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
)  # fmt: skip
_OWN_USERS = ("--unshare-user", "--disable-userns")
# If the worker is root, the launcher made the user namespace, and the program gives up root in it.
# bubblewrap itself needs the third capability to enter a folder that is closed to others.
_LEAVING_ROOT = (
    "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_DAC_READ_SEARCH",
)  # fmt: skip
# Root reads files of others by a capability that a user namespace would take away.
_READING = ("--cap-add", "CAP_DAC_READ_SEARCH")
# bubblewrap makes read-only what looks writable in `/proc`. These folders do not, but hold writable
# files.
_KERNEL = ("acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi", "sys", "tty")

_probed: dict[int, bool] = {}
_log = get_logger(__name__)


def find_bubblewrap(search: str) -> str | None:
    """The absolute path of `bwrap`, or None."""
    return shutil.which("bwrap", path=search)


def wrapped(
    bwrap: str,
    argv: Sequence[str],
    *,
    folder: str | None = None,
    output: str | None = None,
    readable: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    fixed: Sequence[str] = (),
    hidden: Sequence[str] = (),
    processes: int | None = None,
    network: bool = False,
) -> tuple[str, ...]:
    """The command that runs `argv` inside.

    Args:
        bwrap: absolute path of bubblewrap.
        argv: the program, by its path inside the sandbox, and its arguments.
        folder: the writable folder, which appears as `/perdure/copy`.
        output: a file that appears as `/perdure/output.txt`, read-only.
        readable: further folders and files that can be read, at their own paths.
        environment: every variable that the program gets.
        fixed: paths below the writable folder that stay read-only.
        hidden: files and folders below the writable folder that cannot be read either.
        processes: how many processes there may be at a time.
        network: share the host's network, its loopback device included.

    Raises:
        NotAllowed: the worker is root, and this host has no program that gives up root.
    """
    inner = becoming(processes=processes)
    words: list[str] = [bwrap, *_ALONE, "--hostname", "sandbox"]
    words += [] if network else [_NO_NETWORK]
    words += _LEAVING_ROOT if is_root() else _OWN_USERS
    words += ["--seccomp", FILTER] if filter_for() else []
    words += _system()
    configuration = (*_CONFIGURATION, *(_NETWORKING if network else ()))
    words += _ways((OUTPUT, *configuration))
    for path in configuration:
        words += ["--ro-bind-try", path, path]
    words += [*_processes(), "--dev", "/dev"]
    # Without sizes, a program could fill the host's memory through these two.
    words += ["--perms", "1777", "--size", str(TEMPORARY_BYTES), "--tmpfs", "/tmp"]
    words += ["--perms", "1777", "--size", str(SHARED_BYTES), "--tmpfs", "/dev/shm"]
    words += ["--remount-ro", "/dev"]
    words += _ways(readable)
    for path in readable:
        words += ["--ro-bind", path, path]
    if output is not None:
        words += ["--ro-bind", output, OUTPUT]
    if folder is not None:
        words += _workplace(folder, fixed, hidden)
    # Last, since bubblewrap makes the places of all mounts before it in `/`.
    words += ["--remount-ro", "/", "--chdir", WORK if folder is not None else "/"]
    for name, value in (environment or {}).items():
        words += ["--setenv", name, value]
    return (*words, "--", *inner, *argv)


def _system() -> list[str]:
    """The system's own folders; on most distributions `/bin` and the like are links into `/usr`."""
    words: list[str] = []
    for path in SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    return words


def _ways(paths: Sequence[str]) -> list[str]:
    """The parent folders of what is bound, open to all: those that bubblewrap makes are root's."""
    above = {str(parent) for path in paths for parent in Path(path).parents if parent.name}
    ways = sorted(way for way in above if not _in_system(way))
    return [word for way in ways for word in ("--perms", "0755", "--dir", way)]


def _processes() -> list[str]:
    """A `/proc` of the sandbox's own processes: kernel settings are read-only, process 1 hidden."""
    words = ["--proc", "/proc"]
    for name in _KERNEL:
        if os.path.isdir(f"/proc/{name}"):
            words += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    return [*words, "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]


def _workplace(folder: str, fixed: Sequence[str], hidden: Sequence[str]) -> list[str]:
    words = ["--bind", folder, WORK]
    for path in fixed:
        words += ["--ro-bind", os.path.join(folder, path), os.path.join(WORK, path)]
    for path in hidden:
        place = os.path.join(WORK, path)
        if os.path.isdir(os.path.join(folder, path)):
            words += ["--tmpfs", place, "--remount-ro", place]
        else:
            words += ["--ro-bind", os.devnull, place]
    return words


def homes_of(program: str) -> tuple[str, ...]:
    """What a program outside the system's folders needs: its file, or its whole installation.

    A virtual environment, and a Python or Node in a folder of its own, are installations. A folder
    that programs of all kinds share with other files, such as `~/.local`, is not.
    """
    found: dict[str, None] = {}
    for path in (program, os.path.realpath(program), _interpreter(program)):
        for place in _installation(Path(path)) if path else ():
            found[str(place)] = None
    system = [place for place in found if not _in_system(place)]
    return tuple(sorted(system, key=len))


def programs_of(homes: Sequence[str]) -> tuple[str, ...]:
    """The folders to search for the programs of these installations."""
    folders = (f"{home}/bin" if os.path.isdir(home) else os.path.dirname(home) for home in homes)
    return tuple(dict.fromkeys(folders))


def _installation(program: Path) -> list[Path]:
    prefix = program.parent.parent
    if program.parent.name not in {"bin", "sbin"} or not (prefix / "lib").is_dir():
        return [program]
    configuration = prefix / "pyvenv.cfg"
    if not configuration.is_file():
        libraries = [path for path in _libraries(prefix) if path.exists()]
        own = bool(libraries) and not _is_shared(prefix)
        return [prefix] if own else [program, *libraries]
    # A virtual environment also needs the Python that it was made from.
    places = [prefix]
    for line in configuration.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            places.append(Path(os.path.realpath(value.strip())).parent)
    python = prefix / "bin" / "python3"
    if python.exists():
        places.append(Path(os.path.realpath(python)).parent.parent)
    return places


def _libraries(prefix: Path) -> list[Path]:
    """Where Python and Node keep their libraries below a prefix."""
    standard = [path.parent for path in sorted((prefix / "lib").glob("python3.*/os.py"))]
    return [*standard, *sorted((prefix / "lib").glob("libpython3*")), prefix / "lib/node_modules"]


def _is_shared(prefix: Path) -> bool:
    """Whether a prefix holds more than one installation: a home folder, or `~/.local`."""
    home = Path.home()
    return prefix.name in {".local", "local", "opt"} or prefix == home or prefix in home.parents


def _interpreter(program: str) -> str:
    """The interpreter that the first line of a script names, if it is outside the system."""
    try:
        with open(program, "rb") as file:
            first = file.readline(MOST_OF_A_LINE)
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode(errors="replace").split()
    return words[0] if words and os.path.isabs(words[0]) else ""


def _in_system(place: str) -> bool:
    return any(place == one or place.startswith(f"{one}/") for one in SYSTEM)


async def enclosure(
    view: Sequence[str], *, cwd: str, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The words to put before a read-only command; none if this host has no sandbox.

    Args:
        view: absolute paths that can be read, at their own paths.
        cwd: the folder to run in, which must be part of the view.
        environment: every variable that the program gets.

    Raises:
        ServiceUnavailable: it is not known whether bubblewrap works; a later call asks again.
    """
    bwrap = find_bubblewrap(SEARCH)
    if bwrap is None or not await _works(bwrap):
        return ()
    words = _words(bwrap)
    for path in view:
        words += ["--ro-bind", path, path]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    # Only now, since a view may lie below it: /dev/shm is where homes in memory are.
    return (*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", cwd, "--")


def _words(bwrap: str) -> list[str]:
    words = [bwrap, *_ALONE, _NO_NETWORK, *(_READING if is_root() else _OWN_USERS), *_system()]
    return [*words, "--dev", "/dev", "--tmpfs", "/tmp"]


def gave_no_answer(code: int | None) -> bool:
    """Whether a probe ended without telling anything: a busy host cut it off, or killed it."""
    return code is None or code == -signal.SIGKILL


async def _works(bwrap: str) -> bool:
    """Whether bubblewrap works on this host; asked until each user of the process has an answer."""
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
        code = None
        try:
            async with asyncio.timeout(PROBE_S):
                code = await trying.wait()
        except TimeoutError:
            trying.kill()
        if gave_no_answer(code):
            _log.warning("sandbox_gave_no_answer", within_s=PROBE_S)
            # Without an answer the program must not run in the open.
            raise ServiceUnavailable(
                f"bubblewrap gave no answer within {PROBE_S:g} s, so nothing was run.",
                cure="Try again: the host may be busy.",
            )
        _probed[user] = code == 0
    return _probed[user]
