"""B7: how soon a running loop pauses when it is told to, and goes on again."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from temporalio.client import WorkflowHandle

from benchmarks.baselines import Order
from benchmarks.pairing import Ratio, ratio
from benchmarks.scene import booked
from benchmarks.sides import PAUSABLE, PERDURE, Side, SideName
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel

TURNS = 1_000
BEGUN = 6
FLAT_S = 1.5
LOOK_S = 0.005
MS = 1_000
LIMIT_S = 120.0


class Answering(FrozenModel):
    """One side, medians: from the pause to the last call that began, from resuming to the next."""

    side: SideName
    pause_ms: float
    resume_ms: float


class Control(FrozenModel):
    """The product and the hand-written loop that takes the same two signals."""

    sides: tuple[Answering, ...]
    resume: Ratio


async def measure_control(site: Site, *, pairs: int, on_run: Callable[[str], None]) -> Control:
    """Pause and resume a run of each side in turn."""
    found: dict[SideName, list[tuple[float, float]]] = {PERDURE.name: [], PAUSABLE.name: []}
    for round_number in range(pairs):
        for side in (PERDURE, PAUSABLE):
            on_run(f"B7: pause and resume, {side.name}, {round_number + 1} of {pairs}")
            run = f"b7-control-{side.name.replace(' ', '-')}-{round_number}"
            found[side.name].append(await _told(site, side, run))
    resumed = [[resume for _, resume in times] for times in found.values()]
    return Control(
        sides=tuple(
            Answering(
                side=name,
                pause_ms=MS * median(pause for pause, _ in times),
                resume_ms=MS * median(resume for _, resume in times),
            )
            for name, times in found.items()
        ),
        resume=ratio(*resumed),
    )


async def _told(site: Site, side: Side, run: str) -> tuple[float, float]:
    await side.start(site, run, Order(turns=TURNS))
    handle: WorkflowHandle[object, object] = site.client.get_workflow_handle(run)
    async with asyncio.timeout(LIMIT_S):
        while len(booked(site.ledgers, run)) < BEGUN:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        told = time.time()
        await handle.signal("pause")
        ledger = site.ledgers / f"{run}.txt"
        while time.time() - max(told, _written(ledger)) < FLAT_S:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        paused = max(0.0, _written(ledger) - told)
        known, told = len(booked(site.ledgers, run)), time.time()
        await handle.signal("resume")
        while len(booked(site.ledgers, run)) == known:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        resumed = time.time() - told
    await handle.terminate()
    return paused, resumed


def _written(path: Path) -> float:
    return path.stat().st_mtime
