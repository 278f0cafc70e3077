"""Runs one process: its input, capped output, limits, and the end of everything that it started.

The kernel's limits hold for one process each. A control group would hold for all of them, but a
worker may rarely make one. So the tree of processes is looked at every tenth of a second, in a
thread, because that takes long on a busy machine.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.adapters.sandbox.bubblewrap import FILTER
from perdure.adapters.sandbox.identity import LAUNCHER, hand_over, separate_user
from perdure.adapters.sandbox.syscalls import filter_for
from perdure.domain.evaluation.program_checks import Ran
from perdure.domain.foundation.errors import ToolFailure

EVERY_S = 0.1
_COUNTED = ("Pss_Anon", "Pss_Shmem")
# After this time the files of a folder counted so far are its size.
COUNTING_S = 5.0
CHUNK_BYTES = 65_536
FILE_BYTES = 256 << 20
# Interpreters and runtimes reserve far more addresses than they use (WebAssembly: 10 GB for one
# memory), so this limit is the larger of a constant and a multiple of the memory.
ADDRESS_BYTES = 32 << 30
ADDRESS_SHARE = 8
OPEN_FILES = 4_096
# What is written after the program has ended comes from children that outlived it.
DRAIN_S = 2.0
KILL_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that a tree of processes may use."""

    processes: int = 256
    memory_bytes: int = 4 << 30
    disk_bytes: int = 2 << 30


USUAL_CAPS = Caps()


async def wait_for_overrun(pid: int, *, folder: str, caps: Caps) -> str:
    """Wait until the tree below `pid` exceeds a cap, and return which; it may never return."""
    room, before = _room(folder), await asyncio.to_thread(_size, folder)
    while True:
        await asyncio.sleep(EVERY_S)
        count, memory = await asyncio.to_thread(_used, pid)
        if count > caps.processes:
            return f"more than {caps.processes} processes"
        if memory > caps.memory_bytes:
            return f"more than {caps.memory_bytes >> 20:,} MB of memory"
        # Counting files is slow, so it waits until the free space has shrunk by as much. Others may
        # have used that space.
        if room - _room(folder) > caps.disk_bytes:
            grown = await asyncio.to_thread(_size, folder) - before
            if grown > caps.disk_bytes:
                return f"more than {caps.disk_bytes >> 20:,} MB of new files"


def _tree(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _used(pid: int) -> tuple[int, int]:
    """The number of processes below `pid`, and the memory that they use together."""
    tree = _tree(pid)
    return len(tree), sum(map(_memory, tree))


def _memory(process: psutil.Process) -> int:
    """The memory of a process: its own pages, and its share of those that it shares with others.

    The kernel's proportional figure (PSS) counts each shared page once over the tree. Mapped files
    do not count, because the system can drop them.
    """
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        with contextlib.suppress(psutil.Error):
            info = process.memory_info()
            return max(0, info.rss - getattr(info, "shared", 0))  # macOS has no `shared`
        return 0
    fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(fields.get(name, "0 kB").split()[0]) for name in _COUNTED) << 10


def _room(folder: str) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _size(folder: str) -> int:
    size, late = 0, time.monotonic() + COUNTING_S
    with contextlib.suppress(ToolFailure), RootedDirectory(folder) as files:
        for _, entry in files.walk(levels=sys.maxsize):
            size += 0 if entry.kind == "folder" else entry.status.st_blocks * 512
            if time.monotonic() > late:
                break
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program by absolute path, and what it gets; without `caps` its use is not watched.

    `enclosed`: the program is the sandbox, inside of which a root worker becomes another user.
    """

    argv: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    stdin: bytes
    timeout_s: float
    cap: int
    caps: Caps | None = USUAL_CAPS
    enclosed: bool = False


async def run_process(launch: Launch) -> Ran:
    """Run a program; when its time is over, end it with everything that it started.

    A cancellation does the same, and is raised once no process is left.
    """
    # Never for the probe, which has no caps: its folder is `/`.
    if launch.enclosed and launch.caps is not None:
        await asyncio.to_thread(hand_over, launch.folder)
    began = time.monotonic()
    process = await _start(launch)
    out, err = Excerpt(launch.cap), Excerpt(launch.cap)
    talks = [
        asyncio.ensure_future(_feed(process.stdin, launch.stdin)),
        asyncio.ensure_future(_read(process.stdout, out)),
        asyncio.ensure_future(_read(process.stderr, err)),
    ]
    ended = asyncio.ensure_future(process.wait())
    watch = asyncio.ensure_future(_overrun(process.pid, launch))
    try:
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({ended, watch}, timeout=launch.timeout_s, return_when=first)
        # Asked before `_end` kills it, after which it has always ended.
        in_time = ended.done()
        if in_time:
            await asyncio.wait(talks, timeout=DRAIN_S)
    finally:
        watch.cancel()
        await _end(process, ended, talks)
        await asyncio.gather(watch, return_exceptions=True)
    return Ran(
        code=process.returncode if in_time else None,
        out=out.text,
        err=err.text,
        seconds=time.monotonic() - began,
        timeout_s=launch.timeout_s,
        overran="" if in_time or watch.cancelled() else watch.result(),
    )


async def _start(launch: Launch) -> asyncio.subprocess.Process:
    with contextlib.ExitStack() as filters:
        # Only the sandbox has a filter. Systems without `memfd_create` run programs without one.
        opened = filters.enter_context(_open_filter()) if FILTER in launch.argv else None
        argv = [str(opened) if word == FILTER else word for word in launch.argv]
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", LAUNCHER, _wishes(launch), *argv),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=launch.folder,
            env=dict(launch.environment),
            start_new_session=True,
            pass_fds=() if opened is None else (opened,),
        )


@contextlib.contextmanager
def _open_filter() -> Generator[int]:
    filter_at = os.memfd_create("filter")
    try:
        os.write(filter_at, filter_for())
        os.lseek(filter_at, 0, os.SEEK_SET)
        yield filter_at
    finally:
        os.close(filter_at)


class Excerpt:
    """The beginning and the end of a stream, never more than `cap` bytes."""

    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        """Append data; of what does not fit, the middle is dropped."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room < len(data) else b""
        surplus = len(self._tail) - self._half
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]

    @property
    def text(self) -> str:
        """What was kept, with a line that says what was left out."""
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        said = f"\n[… {self._left_out:,} bytes left out …]\n" if self._left_out else ""
        return head + said + tail


def _wishes(launch: Launch) -> str:
    caps = launch.caps or USUAL_CAPS
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": FILE_BYTES,
        "RLIMIT_DATA": caps.memory_bytes,
        "RLIMIT_AS": max(ADDRESS_BYTES, ADDRESS_SHARE * caps.memory_bytes),
        "RLIMIT_NOFILE": OPEN_FILES,
        # Ends a process that escaped the kill: none needs more than all processors for that long.
        "RLIMIT_CPU": int(launch.timeout_s * (os.cpu_count() or 1)) + 1,
    }
    user = separate_user() if launch.enclosed else None
    if user is not None:
        wanted["user"] = user
    return ",".join(f"{name}={value}" for name, value in wanted.items())


async def _overrun(pid: int, launch: Launch) -> str:
    if launch.caps is None:
        return await asyncio.get_running_loop().create_future()
    return await wait_for_overrun(pid, folder=launch.folder, caps=launch.caps)


async def _feed(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    if stream is None:
        return
    # The program may end, or close its input, without reading it.
    with contextlib.suppress(ConnectionError, OSError):
        stream.write(data)
        await stream.drain()
    with contextlib.suppress(ConnectionError, OSError):
        stream.close()


async def _read(stream: asyncio.StreamReader | None, into: Excerpt) -> None:
    while stream is not None and (data := await stream.read(CHUNK_BYTES)):
        into.add(data)


async def _end(
    process: asyncio.subprocess.Process,
    ended: "asyncio.Future[int]",
    talks: Sequence["asyncio.Future[None]"],
) -> None:
    """Kill the group and the descendants that left it, and reap the process."""
    # Stop the group first, or what it starts between listing and killing would survive.
    _signal_group(process.pid, signal.SIGSTOP)
    for _ in range(KILL_ROUNDS):
        alive = _descendants(process.pid)
        if not alive:
            break
        for child in alive:
            with contextlib.suppress(psutil.Error):
                child.kill()
    _signal_group(process.pid, signal.SIGKILL)
    # A second cancellation must not leave a zombie behind.
    while not ended.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({ended})
    for talk in talks:
        talk.cancel()
    await asyncio.gather(*talks, return_exceptions=True)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return [child for child in children if _runs(child)]


def _runs(process: psutil.Process) -> bool:
    # Asked of each alone: one that ends meanwhile says nothing about the others.
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
