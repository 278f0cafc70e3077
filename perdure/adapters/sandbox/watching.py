"""Caps on what a program and all it started use together: processes, memory, room on the disk.

The kernel's own limits count for one process, or (of processes) for a user other than root; a
control group would do it, but seldom may a worker make one. So the tree is looked at, often.
"""

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass

import psutil

EVERY_S = 0.2
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
        tree = _tree(pid)
        if len(tree) > caps.processes:
            return f"more than {caps.processes} processes"
        if sum(map(_memory, tree)) > caps.memory_bytes:
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


def _memory(process: psutil.Process) -> int:
    """What a process has for itself; pages that it shares with others count for nobody."""
    with contextlib.suppress(psutil.Error):
        info = process.memory_info()
        return max(0, info.rss - info.shared)
    return 0


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
