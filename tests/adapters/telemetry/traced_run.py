"""A process of its own that runs the tiny loop with telemetry as the environment asks for it.

Usage: python -m tests.adapters.telemetry.traced_run ADDRESS
"""

import asyncio
import os
import sys
from uuid import uuid4

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from perdure.adapters.logging.setup import configure_logging
from perdure.adapters.telemetry import start_telemetry
from tests.adapters.telemetry.tiny import ACTIVITIES, TinyTraced


async def main(address: str) -> None:
    telemetry = start_telemetry(service="tiny-service")
    client = await Client.connect(
        address,
        data_converter=pydantic_data_converter,
        plugins=list(telemetry.plugins),
        runtime=telemetry.runtime,
    )
    queue = f"traced-{uuid4().hex}"
    async with Worker(client, task_queue=queue, workflows=[TinyTraced], activities=ACTIVITIES):
        await client.execute_workflow(TinyTraced.run, args=["m", 1], id=queue, task_queue=queue)
        print("ran", "opentelemetry.sdk" in sys.modules, len(telemetry.plugins), flush=True)
        if telemetry.runtime is not None:
            await asyncio.to_thread(sys.stdin.readline)  # Temporal's core sends once a second
    telemetry.close()


if __name__ == "__main__":
    configure_logging(level="warning")
    asyncio.run(main(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
