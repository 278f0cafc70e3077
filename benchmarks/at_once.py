"""B5: many loops at once, against as many hand-written ones."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median, quantiles

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from benchmarks.baselines import Order
from benchmarks.pairing import Ratio, ratio
from benchmarks.sides import DELTA, PERDURE, RUN_S, SPREAD, Side, SideName
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel

SIDES = (PERDURE, DELTA, SPREAD)
STEPS_BESIDE = 3


class Throughput(FrozenModel):
    """One side, medians over the rounds; `tail` is a turn's 99th percentile over its median."""

    side: SideName
    loops: int
    per_second: float
    tail: float
    timeouts: int


class AtOnce(FrozenModel):
    """So many loops at once: the sides, and the product's turns a second over each baseline's."""

    loops: int
    turns: int
    sides: tuple[Throughput, ...]
    to_delta: Ratio
    to_spread: Ratio


async def measure_at_once(
    site: Site, *, loops: int, turns: int, pairs: int, on_run: Callable[[str], None]
) -> AtOnce:
    """Start that many runs of each side in turn, and wait until all have ended."""
    found: dict[SideName, list[Throughput]] = {side.name: [] for side in SIDES}
    for round_number in range(pairs):
        for side in SIDES:
            on_run(f"B5: {loops} loops of {side.name}, {round_number + 1} of {pairs}")
            prefix = f"b5-{loops}-{side.name.replace(' ', '-')}-{round_number}"
            found[side.name].append(await _play(site, side, prefix, loops=loops, turns=turns))
    rates = {name: [one.per_second for one in runs] for name, runs in found.items()}
    return AtOnce(
        loops=loops,
        turns=turns,
        sides=tuple(
            Throughput(
                side=name,
                loops=loops,
                per_second=median(one.per_second for one in runs),
                tail=median(one.tail for one in runs),
                timeouts=sum(one.timeouts for one in runs),
            )
            for name, runs in found.items()
        ),
        to_delta=ratio(rates[PERDURE.name], rates[DELTA.name]),
        to_spread=ratio(rates[PERDURE.name], rates[SPREAD.name]),
    )


async def _play(site: Site, side: Side, prefix: str, *, loops: int, turns: int) -> Throughput:
    runs = [f"{prefix}-{number}" for number in range(loops)]
    order = Order(turns=turns, beside=STEPS_BESIDE)
    clock = asyncio.get_running_loop().time
    began = clock()
    await asyncio.gather(*(side.start(site, run, order) for run in runs))
    handles: list[WorkflowHandle[object, object]] = [
        site.client.get_workflow_handle(run) for run in runs
    ]
    async with asyncio.timeout(RUN_S):
        await asyncio.gather(*(handle.result() for handle in handles))
    took = clock() - began
    spans: list[float] = []
    timeouts = 0
    for handle in handles:
        history = await handle.fetch_history()
        asked = [
            event.event_time.ToDatetime()
            for event in history.events
            if event.activity_task_scheduled_event_attributes.activity_type.name == side.model_step
        ]
        spans += [(after - before).total_seconds() for before, after in pairwise(asked)]
        timeouts += sum(
            event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT
            for event in history.events
        )
    return Throughput(
        side=side.name,
        loops=loops,
        per_second=loops * turns / took,
        tail=tail(spans),
        timeouts=timeouts,
    )


def tail(spans: Sequence[float]) -> float:
    """The 99th percentile over the median."""
    return quantiles(spans, n=100)[98] / median(spans)
