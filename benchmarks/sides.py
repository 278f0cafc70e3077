"""The two sides of a comparison: the product, and the hand-written loops in three forms.

Each plays the same scene and is read in the same way; a side differs in nothing but its loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from temporalio.client import WorkflowHandle

from benchmarks.baseline_worker import MODELS_QUEUE, QUEUE, TOOLS_QUEUE
from benchmarks.baselines import DeltaLoop, FullLoop, Order
from benchmarks.histories import Recorded, recorded
from benchmarks.plugin import model_name
from benchmarks.processes import WorkerProcess
from benchmarks.scene import INSTRUCTIONS, TOOL, booked
from benchmarks.site import Site
from perdure.domain.specs import RUN_SPEC

MODEL, READ = "model", "tool"
PLENTY_TOKENS = 1_000_000_000
PLENTY_USD = 1_000_000
PLENTY_S = 86_400
RUN_S = 900.0

SideName = Literal["perdure", "delta", "delta on three queues", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One run of one side."""

    side: SideName
    run: str
    cpu_s: float
    recorded: Recorded
    ledger: tuple[str, ...]
    steps: tuple[int, int, int]

    @property
    def beside(self) -> int:
        """Steps that are neither a model call nor a tool call."""
        return self.steps[2]


@dataclass(frozen=True, slots=True)
class Side:
    """A loop that can be played: its name, and how a run of it is started."""

    name: SideName
    start: Callable[[Site, str, Order], Awaitable[None]]

    async def play(self, site: Site, run: str, order: Order) -> Played:
        """Play one run to its end, and read what it left.

        The CPU time is that of the whole worker process, the gateway's look at the queues included.

        Raises:
            TimeoutError: it did not end in time.
        """
        worker = self.worker(site)
        before = worker.cpu_seconds()
        await self.start(site, run, order)
        handle: WorkflowHandle[object, object] = site.client.get_workflow_handle(run)
        async with asyncio.timeout(RUN_S):
            await handle.result()
        used = worker.cpu_seconds() - before
        described = await handle.describe()
        ours = self.name == "perdure"
        model, tool = ("call_model", "call_tool") if ours else ("ask_model", "read_page")
        found = await recorded(
            site.client,
            run,
            first=described.raw_description.workflow_execution_info.first_run_id,
            model_step=model,
        )
        counts = (found.steps.get(model, 0), found.steps.get(tool, 0))
        return Played(
            side=self.name,
            run=run,
            cpu_s=used,
            recorded=found,
            ledger=booked(site.ledgers, run),
            steps=(*counts, sum(found.steps.values()) - sum(counts)),
        )

    def worker(self, site: Site) -> WorkerProcess:
        """The process that does this side's work."""
        return site.product if self.name == "perdure" else site.baseline


async def _start_perdure(site: Site, run: str, order: Order) -> None:
    spec = RUN_SPEC.validate_python(
        {
            "kind": "agent",
            "goal": INSTRUCTIONS,
            "models": {"executor": model_name(order.turns)},
            "tools": {"access": "readonly", "allow": [TOOL]},
            "agent": {"max_iterations": order.turns + 2},
            # Limited in every way, so that each is accounted for, and never reached.
            "budget": {
                "tokens": PLENTY_TOKENS,
                "cost_usd": PLENTY_USD,
                "active_time": PLENTY_S,
                "wall_time": PLENTY_S,
            },
            "recall": False,
            "learn": False,
        }
    )
    await site.gateway.start(spec, run_id=run)


async def _start_delta(site: Site, run: str, order: Order) -> None:
    await site.client.start_workflow(DeltaLoop.run, order, id=run, task_queue=QUEUE)


async def _start_spread(site: Site, run: str, order: Order) -> None:
    spread = Order(turns=order.turns, beside=order.beside, models=MODELS_QUEUE, tools=TOOLS_QUEUE)
    await site.client.start_workflow(DeltaLoop.run, spread, id=run, task_queue=QUEUE)


async def _start_full(site: Site, run: str, order: Order) -> None:
    await site.client.start_workflow(FullLoop.run, order, id=run, task_queue=QUEUE)


PERDURE = Side("perdure", _start_perdure)
DELTA = Side("delta", _start_delta)
SPREAD = Side("delta on three queues", _start_spread)
FULL = Side("full", _start_full)
