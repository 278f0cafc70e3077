"""Start a run, watch it, answer what it asks, and read the result.

Run it as it is: `python docs/examples/steer.py`. The replies are played from steer.yaml, so that it
needs no key; leave `models` out to have your own model write the notes.
"""

import asyncio
import os
from pathlib import Path

from pydantic import JsonValue

from perdure import Client, RunResult

TASK: dict[str, JsonValue] = {
    "kind": "agent",
    "goal": "Write the release notes to notes.md.",
    "models": {"executor": "scripted:steer.yaml"},
    "tools": {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]},
    "budget": {"cost_usd": "0.20"},
}


async def steer(client: Client, task: dict[str, JsonValue] = TASK) -> RunResult:
    """Approve every call that the run asks about, and raise its budget on the way."""
    run = await client.start(task)
    async for event in run.events():
        if event.type != "gate_opened":
            continue
        for gate in (await run.status()).gates:
            await run.amend(budget={"cost_usd": "0.40"})
            await run.answer(gate, "approve")
    return await run.result()


async def main() -> None:
    os.chdir(Path(__file__).parent)  # files that a task names are read in the current folder
    async with await Client.connect(by="docs") as client:
        result = await steer(client)
        print(result.outcome, result.explanation, result.output, sep="\n")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
