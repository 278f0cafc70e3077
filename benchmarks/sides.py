"""The sides of a comparison: the product, the hand-written loops in three forms, and the peers.

Each plays the same scene and is read in the same way; a side differs in nothing but its loop.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from temporalio.client import WorkflowHandle

from benchmarks.baseline_worker import MODELS_QUEUE, QUEUE, TOOLS_QUEUE
from benchmarks.baselines import DeltaLoop, FullLoop, Order, PausableLoop
from benchmarks.histories import Recorded, recorded
from benchmarks.peer import Peer
from benchmarks.peers.conversation import QUEUE as PEER_QUEUE
from benchmarks.peers.conversation import WORKFLOW, PeerOrder
from benchmarks.plugin import model_name
from benchmarks.processes import WorkerProcess
from benchmarks.scene import INSTRUCTIONS, TOOL, booked, processor_seconds
from benchmarks.site import Site
from perdure.domain.specs import RUN_SPEC

PLENTY_TOKENS = 1_000_000_000
PLENTY_USD = 1_000_000
PLENTY_S = 86_400
RUN_S = 900.0

SideName = str


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One run of one side."""

    side: SideName
    run: str
    cpu_s: float
    recorded: Recorded
    ledger: tuple[str, ...]
    steps: tuple[int, int, int]
    cpu_at: tuple[float, ...] = ()

    @property
    def beside(self) -> int:
        """Steps that are neither a model call nor a tool call."""
        return self.steps[2]


@dataclass(frozen=True, slots=True)
class Side:
    """A loop that can be played: its name, and how a run of it is started."""

    name: SideName
    start: Callable[[Site, str, Order], Awaitable[None]]
    worker: Callable[[Site], WorkerProcess]
    model_step: str
    tool_step: str

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
        found = await recorded(
            site.client,
            run,
            first=described.raw_description.workflow_execution_info.first_run_id,
            model_step=self.model_step,
        )
        counts = (found.steps.get(self.model_step, 0), found.steps.get(self.tool_step, 0))
        return Played(
            side=self.name,
            run=run,
            cpu_s=used,
            recorded=found,
            ledger=booked(site.ledgers, run),
            cpu_at=processor_seconds(site.ledgers, run),
            steps=(*counts, sum(found.steps.values()) - sum(counts)),
        )


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
    spread = replace(order, models=MODELS_QUEUE, tools=TOOLS_QUEUE)
    await site.client.start_workflow(DeltaLoop.run, spread, id=run, task_queue=QUEUE)


async def _start_full(site: Site, run: str, order: Order) -> None:
    await site.client.start_workflow(FullLoop.run, order, id=run, task_queue=QUEUE)


async def _start_pausable(site: Site, run: str, order: Order) -> None:
    await site.client.start_workflow(PausableLoop.run, order, id=run, task_queue=QUEUE)


def _baseline(name: str, start: Callable[[Site, str, Order], Awaitable[None]]) -> Side:
    return Side(name, start, lambda site: site.baseline, "ask_model", "read_page")


PERDURE = Side("perdure", _start_perdure, lambda site: site.product, "call_model", "call_tool")
DELTA = _baseline("delta", _start_delta)
SPREAD = _baseline("delta on three queues", _start_spread)
FULL = _baseline("full", _start_full)
PAUSABLE = _baseline("delta with pause", _start_pausable)


def peer_side(peer: Peer) -> Side:
    """A peer's loop."""

    async def start(site: Site, run: str, order: Order) -> None:
        await site.client.start_workflow(
            WORKFLOW,
            PeerOrder(turns=order.turns, beside=order.beside),
            id=run,
            task_queue=PEER_QUEUE.format(name=peer.name),
        )

    return Side(
        peer.title, start, lambda site: site.peers[peer.name], peer.model_step, peer.tool_step
    )
