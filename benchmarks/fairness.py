"""B9: one run of a tenant beside hundreds of loops of another one, to the same run alone.

Once on a worker with the default number of slots, with which so many loops take all that a small
machine's server can do, and all wait for the server alike. Then on one with few slots, where the
calls wait for the worker, in the queue that tenants share.
"""

import asyncio
from collections.abc import Callable
from statistics import median

from benchmarks.pairing import Ratio
from benchmarks.plugin import model_name
from benchmarks.scene import INSTRUCTIONS, TOOL
from benchmarks.site import Site
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.specs import RUN_SPEC

# As long as a provider takes for a short answer: more loops wait than a worker has slots.
MODEL_S = 2.0
TURNS = 1
FOREVER = 10_000
FEW_SLOTS = 10
AT_ONCE = 20
LIMIT_S = 600.0


class Fairness(FrozenModel):
    """Seconds from start to end of one run: alone, and while `loops` of another tenant are open.

    A worker makes as many calls at a time as it has `slots`; all others wait in its queue.
    """

    loops: int
    slots: int
    alone_s: float
    beside_s: float
    beside: Ratio


async def measure_fairness(
    site: Site, *, loops: int, runs: int, on_run: Callable[[str], None]
) -> Fairness:
    """Play some runs alone, then as many beside the loops of another tenant."""
    alone = [await _timed(site, f"b9-alone-{n}", on_run) for n in range(runs)]
    on_run(f"B9: starting {loops} loops of another tenant")
    limit = asyncio.Semaphore(AT_ONCE)

    async def begin(number: int) -> None:
        async with limit:
            await _start(site, f"b9-many-{number}", tenant="many", turns=FOREVER)

    await asyncio.gather(*(begin(number) for number in range(loops)))
    beside = [await _timed(site, f"b9-beside-{n}", on_run) for n in range(runs)]
    usual = median(alone)
    ratios = [took / usual for took in beside]
    return Fairness(
        loops=loops,
        slots=site.slots,
        alone_s=usual,
        beside_s=median(beside),
        beside=Ratio(median=median(ratios), least=min(ratios), most=max(ratios), pairs=runs),
    )


async def _timed(site: Site, run: str, on_run: Callable[[str], None]) -> float:
    """How long the server says that a run of two calls took."""
    on_run(f"B9: {run}")
    await _start(site, run, tenant="small", turns=TURNS)
    handle = site.client.get_workflow_handle(run)
    async with asyncio.timeout(LIMIT_S):
        await handle.result()
    described = await handle.describe()
    if described.close_time is None:
        raise RuntimeError(f"{run} has a result and has not ended")
    return (described.close_time - described.start_time).total_seconds()


async def _start(site: Site, run: str, *, tenant: str, turns: int) -> None:
    spec = RUN_SPEC.validate_python(
        {
            "kind": "agent",
            "goal": INSTRUCTIONS,
            "models": {"executor": model_name(turns, seconds=MODEL_S)},
            "tools": {"access": "readonly", "allow": [TOOL]},
            "agent": {"max_iterations": turns + 2},
            "metadata": {"tenant": tenant},
            "budget": {"tokens": None, "cost_usd": None, "active_time": None},
            "recall": False,
            "learn": False,
        }
    )
    await site.gateway.start(spec, run_id=run)
