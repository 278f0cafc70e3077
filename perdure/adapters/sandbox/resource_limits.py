"""Caps on what a program and all it started use together: processes, memory, room on the disk.

The kernel's own limits count for one process; a control group would count for all, but seldom may
a worker make one. So the tree is looked at, often, and in a thread, as a busy machine takes its
time for it.
"""

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

EVERY_S = 0.1
_COUNTED = ("Pss_Anon", "Pss_Shmem")
# A folder that takes longer to count is counted as far as that.
COUNTING_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that a tree of processes may use."""

    processes: int = 256
    memory_bytes: int = 4 << 30
    disk_bytes: int = 2 << 30


USUAL_CAPS = Caps()


async def overrun(pid: int, *, folder: str, caps: Caps) -> str:
    """Wait until the tree below `pid` uses too much, and say what; it may never happen."""
    room, before = _room(folder), await asyncio.to_thread(_size, folder)
    while True:
        await asyncio.sleep(EVERY_S)
        count, memory = await asyncio.to_thread(_used, pid)
        if count > caps.processes:
            return f"more than {caps.processes} processes"
        if memory > caps.memory_bytes:
            return f"more than {caps.memory_bytes >> 20:,} MB of memory"
        # The disk is others' too: only when its room shrank that much is the folder counted.
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
    """How many processes there are below `pid`, and what memory they have together."""
    tree = _tree(pid)
    return len(tree), sum(map(_memory, tree))


def _memory(process: psutil.Process) -> int:
    """What a process has: its own pages, and its part of what it shares with others.

    Memory shared between processes belongs to none of them alone; files that are mapped are the
    system's to drop, so they count for nobody.
    """
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        with contextlib.suppress(psutil.Error):
            info = process.memory_info()
            return max(0, info.rss - info.shared)
        return 0
    fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(fields.get(name, "0 kB").split()[0]) for name in _COUNTED) << 10


def _room(folder: str) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _size(folder: str) -> int:
    size, late = 0, time.monotonic() + COUNTING_S
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(path, name)).st_blocks * 512
        if time.monotonic() > late:
            break
    return size
