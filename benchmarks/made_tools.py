"""B8: what a call of a tool that was made at run time costs, against the same sandbox bare."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.boxes import Box, BoxName, boxes
from benchmarks.pairing import Disagreement, Ratio, ratio
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.base import FrozenModel

AT_ONCE = 8


class BoxCost(FrozenModel):
    """One side: milliseconds of a call by itself, and calls a second with some at once."""

    box: BoxName
    call_ms: float
    calls_per_s: float


class BoxRatio(FrozenModel):
    """One call of the product to one of the bare sandbox."""

    box: BoxName
    against: BoxName
    call: Ratio


class ToolCalls(FrozenModel):
    """The result of B8."""

    calls: int
    costs: tuple[BoxCost, ...]
    ratios: tuple[BoxRatio, ...]


async def measure_tool_calls(
    stores: Stores, folder: Path, *, calls: int, pairs: int, on_run: Callable[[str], None]
) -> ToolCalls:
    """Call the same tool in every box in turn: once to warm up, then `pairs` times.

    Raises:
        Disagreement: two boxes do not give the same result.
    """
    folder.mkdir()
    async with boxes(stores, folder) as all_boxes:
        alone: dict[BoxName, list[float]] = {box.name: [] for box in all_boxes}
        at_once: dict[BoxName, list[float]] = {box.name: [] for box in all_boxes}
        for round_number in range(pairs + 1):
            what = "warm-up" if round_number == 0 else f"{round_number} of {pairs}"
            on_run(f"B8: {len(all_boxes)} sides, {what}")
            for box in all_boxes:
                await require_same_result((all_boxes[0], box))
                taken = await _one_by_one(box, calls), await _together(box, calls)
                if round_number > 0:
                    alone[box.name].append(taken[0])
                    at_once[box.name].append(taken[1])
        costs = tuple(
            BoxCost(
                box=box.name,
                call_ms=1000 * median(alone[box.name]),
                calls_per_s=1 / median(at_once[box.name]),
            )
            for box in all_boxes
        )
        ratios = tuple(
            BoxRatio(
                box=box.name, against=box.against, call=ratio(alone[box.name], alone[box.against])
            )
            for box in all_boxes
            if box.against is not None
        )
        return ToolCalls(calls=calls, costs=costs, ratios=ratios)


async def require_same_result(compared: Sequence[Box]) -> None:
    """Fail unless all give the same.

    Raises:
        Disagreement: naming the two sides and what they gave.
    """
    first = compared[0]
    wanted = await first.call()
    for other in compared[1:]:
        found = await other.call()
        if found != wanted:
            raise Disagreement(
                f"Results differ: {first.name} gives {wanted[:300]}, {other.name} gives "
                f"{found[:300]}. Such a measurement is worth nothing."
            )


async def _one_by_one(box: Box, calls: int) -> float:
    """Seconds of a call."""
    began = time.perf_counter()
    for _ in range(calls):
        await box.call()
    return (time.perf_counter() - began) / calls


async def _together(box: Box, calls: int) -> float:
    """Seconds by which a further call delays the last, with some at once."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with turns:
            await box.call()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(calls)))
    return (time.perf_counter() - began) / calls
