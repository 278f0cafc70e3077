"""B4: what replaying a history costs, and how long a long run takes to resume on a cold worker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from temporalio.client import WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from benchmarks.baselines import WORKFLOWS as HAND_WRITTEN
from benchmarks.baselines import Order
from benchmarks.pairing import Ratio, ratio
from benchmarks.sides import DELTA, PERDURE, Side, SideName
from benchmarks.site import Site
from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.foundation.base import FrozenModel
from perdure.workflows.registry import WORKFLOWS, workflow_runner

MS = 1_000
EVENTS = 1_000


class ReplayCost(FrozenModel):
    """One side: its longest history, which is what a cold worker may have to replay at most."""

    side: SideName
    turns: int
    executions: int
    events: int
    resume_ms: float
    per_thousand_ms: float


class Replays(FrozenModel):
    """The result of B4."""

    costs: tuple[ReplayCost, ...]
    per_event: Ratio


@dataclass(frozen=True, slots=True)
class _Replayed:
    side: Side
    turns: int
    histories: Sequence[WorkflowHistory]
    replayer: Replayer

    @property
    def longest(self) -> WorkflowHistory:
        return max(self.histories, key=lambda history: len(history.events))

    async def seconds(self) -> float:
        began = perf_counter()
        await self.replayer.replay_workflow(self.longest)
        return perf_counter() - began


async def measure_replay(
    site: Site, *, turns: int, pairs: int, on_run: Callable[[str], None]
) -> Replays:
    """Play one long run of the product and of the delta loop, and replay both in turn.

    The product continues as new before its history is long; the hand-written loop keeps one.
    """
    on_run(f"B4: a run of {turns} turns of perdure and delta, each replayed {pairs} times")
    product = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=workflow_runner(),
        data_converter=data_converter(site.stores.blobs),
    )
    restrictions = SandboxRestrictions.default.with_passthrough_modules("benchmarks")
    written = Replayer(
        workflows=HAND_WRITTEN, workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions)
    )
    ours = await _played(site, PERDURE, Order(turns=turns), product)
    theirs = await _played(site, DELTA, Order(turns=turns), written)
    found: dict[SideName, list[float]] = {PERDURE.name: [], DELTA.name: []}
    for round_number in range(pairs + 1):
        for one in (ours, theirs):
            seconds = await one.seconds()
            if round_number:  # the first one imports what the sandbox does not pass through
                found[one.side.name].append(seconds)
    each = [
        [seconds / len(one.longest.events) for seconds in found[one.side.name]]
        for one in (ours, theirs)
    ]
    return Replays(
        costs=tuple(_cost(one, found[one.side.name]) for one in (ours, theirs)),
        per_event=ratio(*each),
    )


def _cost(one: _Replayed, seconds: Sequence[float]) -> ReplayCost:
    events = len(one.longest.events)
    return ReplayCost(
        side=one.side.name,
        turns=one.turns,
        executions=len(one.histories),
        events=events,
        resume_ms=MS * median(seconds),
        per_thousand_ms=MS * median(seconds) * EVENTS / events,
    )


async def _played(site: Site, side: Side, order: Order, replayer: Replayer) -> _Replayed:
    run = f"b4-{side.name}"
    await side.play(site, run, order)
    handle: WorkflowHandle[object, object] = site.client.get_workflow_handle(run)
    described = await handle.describe()
    following = described.raw_description.workflow_execution_info.first_run_id
    histories: list[WorkflowHistory] = []
    while following:
        history = await site.client.get_workflow_handle(run, run_id=following).fetch_history()
        histories.append(history)
        last = history.events[-1]
        following = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return _Replayed(side, order.turns, histories, replayer)
