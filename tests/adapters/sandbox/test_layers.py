"""Attacks against the sandbox with each of its layers off in turn.

Each attack names the layers that hold it. With all layers it fails; with one off it fails as long
as another one is left; with all of its layers off it succeeds, which shows that it is an attack.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from enclosure import needs_bubblewrap

from perdure.adapters.sandbox import commands, process
from perdure.adapters.sandbox.bubblewrap import FILTER, wrapped
from perdure.adapters.sandbox.commands import Allowance, LocalCommands
from perdure.adapters.sandbox.identity import LAUNCHER
from perdure.adapters.sandbox.process import Caps
from perdure.domain.evaluation.program_checks import Command
from tests.adapters.sandbox.test_syscalls import PYTHON

pytestmark = [needs_bubblewrap, pytest.mark.long]

CAPS = Caps(processes=20)
FILE_BYTES = 1 << 20
ESCAPED = "ESCAPED"
CALL = (
    "import ctypes, os, signal, socket, subprocess, sys, time\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "x86 = os.uname().machine == 'x86_64'\n"
)


@dataclass(frozen=True, slots=True)
class Attack:
    """A Python program that prints ESCAPED where it gets through, and what holds it."""

    code: str
    held_by: frozenset[str]


def attack(code: str, *held_by: str) -> Attack:
    return Attack(CALL + code, frozenset(held_by))


ATTACKS = {
    "trace a process": attack(
        "child = os.fork()\n"
        "if not child: time.sleep(60)\n"
        "if libc.ptrace(16, child, 0, 0) == 0: print('ESCAPED')\n"
        "os.kill(child, 9)",
        "system calls",
    ),
    "keep keys in the kernel": attack(
        "number = 248 if x86 else 217\n"
        "if libc.syscall(number, b'user', b'a', b'b', 1, -2) > 0: print('ESCAPED')",
        "system calls",
    ),
    "hide memory in no file system": attack(
        "if libc.syscall(319 if x86 else 279, b'a', 0) >= 0: print('ESCAPED')", "system calls"
    ),
    "ask the kernel's rings": attack(
        "if libc.syscall(425, 1, ctypes.create_string_buffer(512)) >= 0: print('ESCAPED')",
        "system calls",
    ),
    "make a namespace of users": attack(
        "if libc.unshare(0x10000000) == 0: print('ESCAPED')", "system calls", "namespaces"
    ),
    "reach a service of the host": attack(
        "socket.create_connection(('127.0.0.1', {port}), 5)\nprint('ESCAPED')", "network"
    ),
    "reach a service of the host by an abstract name": attack(
        "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0{name}')\nprint('ESCAPED')", "network"
    ),
    "read what it was not shown": attack(
        "print('ESCAPED' if open('{secret}').read() == 'secret' else '')", "view"
    ),
    "see what runs on the host": attack(
        "seen = [open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()]\n"
        "print('ESCAPED' if any('pytest' in words for words in seen) else '')".replace(
            "{p}", "{{p}}"
        ),
        "processes",
    ),
    "change what it may read": attack(
        "open('{readable}/planted', 'w').write('x')\nprint('ESCAPED')", "read-only"
    ),
    "write an endless file": attack(
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "open('big', 'wb').write(bytes(2 << 20))\nprint('ESCAPED')",
        "limits",
    ),
    "start processes without end": attack(
        "made = []\n"
        "for n in range(60):\n"
        "    made.append(subprocess.Popen(['sleep', '60']))\n"
        "time.sleep(2)\n"
        "print('ESCAPED', flush=True)",
        "number of processes",
        "watch",
    ),
}


@dataclass(frozen=True, slots=True)
class Host:
    """What there is to reach: a service, a secret, a folder that may be read."""

    folder: Path
    readable: Path
    secret: Path
    port: int
    name: str


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    for name in ("copy", "readable"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    for parent in [tmp_path, *tmp_path.parents][:-2]:
        parent.chmod(parent.stat().st_mode | 0o111)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    name = f"perdure-{tmp_path.name}-{id(tmp_path)}"
    with socket.create_server(("127.0.0.1", 0)) as inet, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0{name}")
        unix.listen()
        threads = [threading.Thread(target=_accept, args=(one,)) for one in (inet, unix)]
        for thread in threads:
            thread.start()
        try:
            yield Host(
                tmp_path / "copy", tmp_path / "readable", secret, inet.getsockname()[1], name
            )
        finally:
            for one in (inet, unix):
                one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def _accept(server: socket.socket) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return


Change = Callable[[list[str]], list[str]]


def _without(words: Sequence[str], argv: list[str]) -> list[str]:
    """The command line without a run of words, wherever it stands."""
    size, kept, at = len(words), list[str](), 0
    while at < len(argv):
        if argv[at : at + size] == list(words):
            at += size
        else:
            kept.append(argv[at])
            at += 1
    return kept


def _host_processes(argv: list[str]) -> list[str]:
    fewer = _without(["--unshare-pid"], argv)
    fewer = _without(["--tmpfs", "/proc/1", "--remount-ro", "/proc/1"], fewer)
    at = fewer.index("--proc")
    return [*fewer[:at], "--ro-bind", *fewer[at + 1 : at + 2], *fewer[at + 1 :]]


def _host_files(secret: Path, argv: list[str]) -> list[str]:
    at = next(at for at in range(len(argv)) if argv[at : at + 2] == ["--remount-ro", "/"])
    return [*argv[:at], "--ro-bind", str(secret), str(secret), *argv[at:]]


def _writable(argv: list[str]) -> list[str]:
    return ["--bind" if word == "--ro-bind" else word for word in argv]


def _unbounded_number(argv: list[str]) -> list[str]:
    at = next((at for at, word in enumerate(argv) if word.startswith("--nproc=")), None)
    return argv if at is None else [*argv[: at - 1], *argv[at + 2 :]]


def _changes(host: Host) -> dict[str, Change]:
    """How a command line looks without a layer."""
    return {
        "system calls": partial(_without, ["--seccomp", FILTER]),
        "namespaces": partial(_without, ["--disable-userns"]),
        "network": partial(_without, ["--unshare-net"]),
        "view": partial(_host_files, host.secret),
        "processes": _host_processes,
        "read-only": _writable,
        "number of processes": _unbounded_number,
    }


LAYERS = (
    "system calls", "namespaces", "network", "view", "processes", "read-only",
    "number of processes", "limits", "watch",
)  # fmt: skip


@contextmanager
def without(layers: frozenset[str], host: Host, scratch: Path) -> Generator[None]:
    """The sandbox of production, minus some layers."""

    def fewer(*given: object, **more: object) -> tuple[str, ...]:
        argv = list(wrapped(*given, **more))  # type: ignore[arg-type]
        for name, change in _changes(host).items():
            argv = change(argv) if name in layers else argv
        return tuple(argv)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "wrapped", fewer)
        patch.setattr(process, "FILE_BYTES", (256 << 20) if "limits" in layers else FILE_BYTES)
        if "watch" in layers:
            patch.setattr(process, "_overrun", _nobody_watches)
        if "namespaces" in layers:
            # As root the launcher makes the namespace, and says that there are no further ones.
            text = (
                Path(LAUNCHER)
                .read_text(encoding="utf-8")
                .replace('most.write("0")', 'most.write("9")')
            )
            (scratch / "launcher.py").write_text(text)
            patch.setattr(process, "LAUNCHER", str(scratch / "launcher.py"))
        yield


async def _nobody_watches(_pid: int, _launch: process.Launch) -> str:
    return await asyncio.get_running_loop().create_future()


async def escapes(name: str, host: Host) -> bool:
    """Whether an attack gets through."""
    code = ATTACKS[name].code.format(
        port=host.port, name=host.name, secret=host.secret, readable=host.readable
    )
    allowed = Allowance(
        commands=("python3",),
        readable=(str(host.readable),),
        timeout_s=60.0,
        search=PYTHON,
        caps=CAPS,
    )
    ran = await LocalCommands(allowed).run(
        Command(argv=("python3", "-c", code), folder=str(host.folder))
    )
    return ESCAPED in ran.out


async def test_all_layers_hold_every_attack(host: Host, tmp_path: Path) -> None:
    with without(frozenset(), host, tmp_path):
        assert [name for name in ATTACKS if await escapes(name, host)] == []


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
async def test_with_one_layer_off_the_others_hold(layer: str, host: Host, tmp_path: Path) -> None:
    alone = [name for name, one in ATTACKS.items() if one.held_by == {layer}]
    with without(frozenset({layer}), host, tmp_path):
        assert [name for name in ATTACKS if await escapes(name, host)] == alone


@pytest.mark.parametrize("name", [name for name, one in ATTACKS.items() if len(one.held_by) > 1])
async def test_what_two_layers_hold_gets_through_without_both(
    name: str, host: Host, tmp_path: Path
) -> None:
    with without(ATTACKS[name].held_by, host, tmp_path):
        assert await escapes(name, host)


def test_every_layer_matters() -> None:
    assert set().union(*(one.held_by for one in ATTACKS.values())) == set(LAYERS)
