"""The worker process of the hand-written loops, with the limits of the product's own worker.

Arguments: the server's address, and the file to write when it polls. It ends on SIGTERM.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from benchmarks.baselines import ACTIVITIES, WORKFLOWS
from perdure.adapters.settings.variables import Settings

QUEUE = "baseline"
MODELS_QUEUE = "baseline-models"
TOOLS_QUEUE = "baseline-tools"


def _worker(client: Client, queue: str, workflows: Sequence[type]) -> Worker:
    settings = Settings.load()
    restrictions = SandboxRestrictions.default.with_passthrough_modules("benchmarks")
    return Worker(
        client,
        task_queue=queue,
        activities=ACTIVITIES,
        workflows=workflows,
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        max_concurrent_activities=settings.max_concurrent_activities,
        max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks if workflows else None,
        max_cached_workflows=settings.max_cached_workflows,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.sticky_s),
    )


async def _serve(address: str, ready: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await Client.connect(address)
    async with AsyncExitStack() as stack:
        for queue, workflows in ((QUEUE, WORKFLOWS), (MODELS_QUEUE, ()), (TOOLS_QUEUE, ())):
            await stack.enter_async_context(_worker(client, queue, workflows))
        ready.write_text(str(os.getpid()), encoding="utf-8")
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], Path(sys.argv[2])))
