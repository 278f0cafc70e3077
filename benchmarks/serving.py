"""A worker process of one side: hand-written loops and peers alike poll as the product does.

It imports nothing but Temporal and the scene, for peers run in environments without the product.
Arguments of the process: the server's address, and the file to write when it polls.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import PollerBehaviorAutoscaling, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

LIMITS_VARIABLE = "BENCHMARK_LIMITS"
BEATS_PER_SILENCE = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the product's own worker, which all sides get."""

    activities: int
    workflow_tasks: int
    cached_workflows: int
    sticky_s: float
    heartbeat_s: float

    @classmethod
    def given(cls) -> "Limits":
        """Those that the measurement handed to this process."""
        return cls(**json.loads(os.environ[LIMITS_VARIABLE]))

    def environment(self) -> Mapping[str, str]:
        """How they are handed to a process."""
        return {LIMITS_VARIABLE: json.dumps(asdict(self))}


@dataclass(frozen=True, slots=True)
class Served:
    """What one queue serves."""

    queue: str
    workflows: Sequence[type]
    activities: Sequence[Callable[..., object]]


async def _serve(served: Sequence[Served], plugins: Sequence[SimplePlugin]) -> None:
    address, ready = sys.argv[1], Path(sys.argv[2])
    limits = Limits.given()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await Client.connect(address, plugins=plugins)
    restrictions = SandboxRestrictions.default.with_passthrough_modules("benchmarks")
    async with AsyncExitStack() as stack:
        for one in served:
            worker = Worker(
                client,
                task_queue=one.queue,
                activities=one.activities,
                workflows=one.workflows,
                workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
                max_concurrent_activities=limits.activities,
                max_concurrent_workflow_tasks=limits.workflow_tasks if one.workflows else None,
                max_cached_workflows=limits.cached_workflows,
                workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=limits.sticky_s),
            )
            await stack.enter_async_context(worker)
        ready.write_text(str(os.getpid()), encoding="utf-8")
        await stop.wait()


def serve(*served: Served, plugins: Sequence[SimplePlugin] = ()) -> None:
    """Poll until SIGTERM."""
    asyncio.run(_serve(served, plugins))


@asynccontextmanager
async def beating(beat: Callable[[], None], silence_s: float | None) -> AsyncGenerator[None]:
    """Send heartbeats during the block; None: the step has no heartbeats."""
    if silence_s is None:
        yield
        return
    task = asyncio.ensure_future(_beat(beat, silence_s / BEATS_PER_SILENCE))
    try:
        yield
    finally:
        task.cancel()


async def _beat(beat: Callable[[], None], every: float) -> None:
    while True:
        beat()
        await asyncio.sleep(every)
