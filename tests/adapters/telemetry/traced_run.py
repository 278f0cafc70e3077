"""A process of its own that runs the tiny loop with telemetry as the environment asks for it.

Usage: python -m tests.adapters.telemetry.traced_run ADDRESS [METRICS_ADDRESS]

With a second address, it ends by printing what Prometheus would read there.
"""

import asyncio
import os
import sys
from uuid import uuid4

import httpx2
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from perdure.adapters.logging.setup import configure_logging
from perdure.adapters.telemetry import start_telemetry
from perdure.domain.run.metrics import DECISIONS
from tests.adapters.telemetry.tiny import ACTIVITIES, TinyTraced


async def main(address: str, metrics_address: str | None = None) -> None:
    telemetry = start_telemetry(service="tiny-service", metrics_address=metrics_address)
    client = await Client.connect(
        address,
        data_converter=pydantic_data_converter,
        plugins=list(telemetry.plugins),
        runtime=telemetry.runtime,
    )
    queue = f"traced-{uuid4().hex}"
    async with Worker(client, task_queue=queue, workflows=[TinyTraced], activities=ACTIVITIES):
        await client.execute_workflow(TinyTraced.run, args=["m", 1], id=queue, task_queue=queue)
    if metrics_address is None:
        print("ran", "opentelemetry.sdk" in sys.modules, len(telemetry.plugins), flush=True)
    else:
        print(await asyncio.to_thread(read_when_counted, telemetry.metrics_url))
    telemetry.close()


def read_when_counted(url: str | None) -> str:
    """What is served once the counter of workflow code has come over from Temporal's core."""
    assert url is not None
    while True:
        text = httpx2.get(url, trust_env=False).text
        if DECISIONS.name in text:
            return text


if __name__ == "__main__":
    configure_logging(level="warning")
    asyncio.run(main(*sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)
