"""Processes by id *and* start time, so that a reused id is not taken for the old process."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import RuntimeUnavailable

POLL_S = 0.05
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Raised when a process ends during a query; psutil translates most of these errors, but not all.
ENDED = (psutil.Error, ProcessLookupError, FileNotFoundError, PermissionError)
ENDING = (signal.SIGTERM, signal.SIGINT)
M_ARENA_MAX = -8  # a parameter of mallopt(3)


class ProcessRef(FrozenModel):
    """A process that cannot be confused with a later one of the same id."""

    pid: int
    started: str


def process_ref(pid: int) -> ProcessRef | None:
    """The reference of a running process; None if it has ended or is a zombie."""
    try:
        process = psutil.Process(pid)
        # It has ended, but keeps its id until its parent reaps it, which may be never.
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return ProcessRef(pid=pid, started=_started(pid, process))
    except ENDED:
        return None


def is_alive(ref: ProcessRef) -> bool:
    return process_ref(ref.pid) == ref


def listens(pid: int, port: int) -> bool:
    """Whether this process itself listens on the port, and not another one."""
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except ENDED:
        return False
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in connections
    )


async def end(ref: ProcessRef, *, grace_s: float) -> bool:
    """Ask a process to end, wait, then kill it and its group; False if it had already ended."""
    if not is_alive(ref):
        return False
    # To the process alone, which ends its children in order. After SIGKILL it no longer can.
    if _signal(ref, signal.SIGTERM) and not await wait_for_end(ref, within_s=grace_s):
        _signal(ref, signal.SIGKILL, group=True)
        await wait_for_end(ref, within_s=5)
    return True


def end_rest_of_group(leader: int) -> None:
    """Kill what a process leaves in the group that it led; call it as soon as that has ended.

    While one process of a group runs, no other process gets the id of the group.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


async def end_surely(ref: ProcessRef, *, grace_s: float) -> bool:
    """`end`, for a process that somebody else may have started.

    Raises:
        RuntimeUnavailable: it still runs.
    """
    ended = await end(ref, grace_s=grace_s)
    if ended and is_alive(ref):
        raise RuntimeUnavailable(
            f"The process {ref.pid} of the user {_user(ref.pid)} cannot be ended.",
            cure=f"End it as that user (`kill {ref.pid}`), then try again.",
        )
    return ended


async def wait_for_end(ref: ProcessRef, *, within_s: float) -> bool:
    """Wait until a process has ended; False if it still runs after that time."""
    deadline = time.monotonic() + within_s
    while is_alive(ref):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _user(pid: int) -> str:
    try:
        return psutil.Process(pid).username()
    except ENDED:
        return "unknown"


def _signal(ref: ProcessRef, number: signal.Signals, *, group: bool = False) -> bool:
    """Send a signal; False if this user may not."""
    # Again, right before the signal: the id may have gone to another process meanwhile.
    if not is_alive(ref):
        return True
    try:
        # Our children lead a group of their own. If this one does not, its group may be ours.
        if group and os.getpgid(ref.pid) == ref.pid:
            os.killpg(ref.pid, number)
        else:
            os.kill(ref.pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _started(pid: int, process: psutil.Process) -> str:
    """The start of a process, in ticks since boot if /proc has them: the clock may be changed.

    Raises one of `ENDED` if it has ended.
    """
    if not BOOT_ID.exists():
        return f"{process.create_time():.2f}"
    # Ticks count from the boot: after another one, an old reference could match by chance.
    boot = BOOT_ID.read_text(encoding="utf-8")[:8]
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    # Counted from the last bracket: the name in front of it may hold spaces and brackets.
    return f"{boot}:{stat.rpartition(')')[2].split()[19]}"


@contextmanager
def try_lock(path: Path) -> Generator[bool]:
    """Hold the lock in the block; yields False at once if another process holds it.

    Children do not inherit the descriptor, so no child keeps the lock of a dead parent.

    Raises:
        RuntimeUnavailable: nobody can lock there, such as in another user's or a read-only folder.
    """
    # The file is never removed: the next process would lock a new one beside the holder of the old.
    with usable(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with usable(path):
            mine = _is_locked(descriptor)
        yield mine
    finally:
        os.close(descriptor)


@contextmanager
def usable(path: Path) -> Generator[None]:
    """Explain what the system says against a file or folder of the home.

    Raises:
        RuntimeUnavailable: the block ended with an error of the system.
    """
    try:
        yield
    except OSError as error:
        raise RuntimeUnavailable(
            f"{path} cannot be used: {error.strerror}.",
            cure="Make it writable, or set PERDURE_HOME to another folder.",
        ) from error


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def signals_set() -> Generator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; outside the main thread no signal can be caught."""
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    try:
        for number in ENDING:
            loop.add_signal_handler(number, told_to_stop.set)
            caught.append(number)
    except (RuntimeError, ValueError):
        pass
    try:
        yield told_to_stop
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


def share_heaps() -> None:
    """Let threads share two heaps: with one per thread, glibc keeps much freed memory."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
