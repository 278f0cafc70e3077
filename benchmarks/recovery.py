"""B7: a worker is killed in a model call: how soon the loop goes on, and what is paid twice."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from temporalio.client import WorkflowHandle

from benchmarks.baselines import Order
from benchmarks.peer import Peer
from benchmarks.scene import booked, hold_file
from benchmarks.sides import DELTA, PERDURE, RUN_S, Side, SideName, peer_side
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel

TURNS, KILLED_IN = 4, 3
STEPS_BESIDE = 3
LOOK_S = 0.02
SETTLE_S = 1.0

# When the worker dies: the provider has not answered, or its answer is not yet at the server.
Moment = Literal["asked", "answered"]
MOMENTS: tuple[Moment, ...] = ("asked", "answered")


class Recovery(FrozenModel):
    """One kill: seconds to the next call of any kind, and calls that the provider bills again.

    `boot_s` is the part in which the new worker was not yet polling. `on_its_books` is how many
    calls the side itself knows to have been lost; None: it keeps no books.
    """

    side: SideName
    moment: Moment
    seconds: float
    boot_s: float
    paid_twice: int
    on_its_books: int | None


class Recoveries(FrozenModel):
    """All kills, with the timeouts that the server saw."""

    heartbeat_s: float
    sticky_s: float
    found: tuple[Recovery, ...]


async def measure_recovery(
    site: Site, *, peers: Sequence[Peer], on_run: Callable[[str], None]
) -> Recoveries:
    """Kill each side's worker at both moments, and start it again at once."""
    found: list[Recovery] = []
    for moment in MOMENTS:
        for side in (PERDURE, DELTA, *map(peer_side, peers)):
            on_run(f"B7: {side.name}, its worker killed when the provider has {moment}")
            found.append(await _killed(site, side, moment))
    return Recoveries(heartbeat_s=site.heartbeat_s, sticky_s=site.sticky_s, found=tuple(found))


async def _killed(site: Site, side: Side, moment: Moment) -> Recovery:
    run = f"b7-{side.name.replace(' ', '-')}-{moment}"
    hold = hold_file(site.ledgers, run, KILLED_IN)
    hold.touch()
    order = Order(turns=TURNS, beside=STEPS_BESIDE, heartbeat_s=site.heartbeat_s)
    await side.start(site, run, order)
    call = f"model {KILLED_IN}"
    async with asyncio.timeout(RUN_S):
        while call not in booked(site.ledgers, run):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        if moment == "answered":
            site.wire.cut()
            hold.unlink()
            await _answered(site, side, run)
        worker = side.worker(site)
        known = len(booked(site.ledgers, run))
        await worker.kill()
        killed = time.monotonic()
        await site.wire.renew()
        await worker.start()
        boot_s = time.monotonic() - killed
        while len(booked(site.ledgers, run)) == known:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        seconds = time.monotonic() - killed
        hold.unlink(missing_ok=True)
        handle: WorkflowHandle[object, object] = site.client.get_workflow_handle(run)
        await handle.result()
    calls = Counter(line for line in booked(site.ledgers, run) if line.startswith("model"))
    return Recovery(
        side=side.name,
        moment=moment,
        seconds=seconds,
        boot_s=boot_s,
        paid_twice=calls.total() - len(calls),
        on_its_books=await _lost_on_books(site, run) if side is PERDURE else None,
    )


async def _answered(site: Site, side: Side, run: str) -> None:
    """Until the worker has the answer, and has written down what it writes down."""
    await asyncio.sleep(SETTLE_S)
    if side is PERDURE:
        while any(row.state == "started" for row in await site.stores.journal.rows(run)):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


async def _lost_on_books(site: Site, run: str) -> int:
    return sum(row.state == "lost" for row in await site.stores.journal.rows(run))
