"""B6: the memory of a loop that waits in the worker's cache, early and late in its life.

A loop keeps its newest events and records in memory. So it grows for its first twenty turns or so,
and is measured after that.
"""

import asyncio
from collections.abc import Callable

from benchmarks.baselines import Order
from benchmarks.scene import booked, hold_file
from benchmarks.sides import DELTA, PERDURE, RUN_S, Side, SideName
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel

SIDES = (PERDURE, DELTA)
WARM_LOOPS = 20
STEPS_BESIDE = 3
KIB = 1024
LOOK_S = 0.1


class Kept(FrozenModel):
    """KiB that each loop adds to its worker, waiting after so many turns."""

    side: SideName
    early_kib: float
    late_kib: float


class Memory(FrozenModel):
    """The result of B6."""

    loops: int
    early_turns: int
    late_turns: int
    kept: tuple[Kept, ...]

    @property
    def to_delta(self) -> float:
        """Memory of our loop over that of a hand-written one, late."""
        ours, theirs = self.kept
        return ours.late_kib / theirs.late_kib


async def measure_memory(
    site: Site, *, loops: int, early: int, late: int, on_run: Callable[[str], None]
) -> Memory:
    """Let many loops wait for an answer, and see by how much the worker has grown.

    Memory that a process once had is seldom given back, so some loops wait first, and none ends
    before all were measured: what follows is growth.

    Args:
        site: with activity slots for all of them, for a waiting call holds one.
        loops: of each measured group.
        early: turns after which the loops of the first group wait.
        late: the same of the second.
        on_run: told before each side.
    """
    found: list[Kept] = []
    for side in SIDES:
        on_run(f"B6: {loops} waiting loops of {side.name}, after {early} and {late} turns")
        await _grown(site, side, "warm", loops=WARM_LOOPS, turns=early)
        after_few = await _grown(site, side, "early", loops=loops, turns=early)
        after_many = await _grown(site, side, "late", loops=loops, turns=late)
        found.append(Kept(side=side.name, early_kib=after_few, late_kib=after_many))
    return Memory(loops=loops, early_turns=early, late_turns=late, kept=tuple(found))


async def _grown(site: Site, side: Side, group: str, *, loops: int, turns: int) -> float:
    """By how many KiB the worker grows with each loop that waits for its answer in a turn."""
    runs = [f"b6-{side.name}-{group}-{number}" for number in range(loops)]
    for run in runs:
        hold_file(site.ledgers, run, turns).touch()
    worker = side.worker(site)
    before = worker.resident_bytes()
    order = Order(turns=turns, beside=STEPS_BESIDE)
    for run in runs:
        await side.start(site, run, order)
    asked = f"model {turns}"
    async with asyncio.timeout(RUN_S):
        while not all(asked in booked(site.ledgers, run) for run in runs):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
    return (worker.resident_bytes() - before) / loops / KIB


async def release(site: Site) -> None:
    """Let all waiting calls be answered."""
    for hold in site.ledgers.glob("*.hold-*"):
        hold.unlink()
