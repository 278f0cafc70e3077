"""Start a loop with the plain Temporal SDK, approve what it asks for, and read the result.

python start.py task.json
"""

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path

from temporalio.client import Client


async def main(task: dict[str, object]) -> None:
    client = await Client.connect(
        os.environ.get("TEMPORAL_ADDRESS", "localhost:7233"),
        namespace=os.environ.get("TEMPORAL_NAMESPACE", "default"),
    )
    run = await client.start_workflow(
        "AgentLoop",
        task,
        id=f"notes-{uuid.uuid4()}",
        task_queue=os.environ.get("PERDURE_TASK_QUEUE", "perdure"),
    )
    status = await run.query("status")
    while status["phase"] != "ended":
        for gate in status["gates"]:
            print("approve:", gate["prompt"])
            await run.signal("approve", gate["name"])  # binds to exactly these arguments
        await asyncio.sleep(1)
        status = await run.query("status")
    result = await run.result()
    print(result["outcome"], result["output"], sep="\n")


asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
