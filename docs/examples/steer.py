"""Start a run, watch it, answer what it asks, and read the result."""

import asyncio

from perdure import Client, RunResult

TASK = {
    "kind": "agent",
    "goal": "Write the release notes to notes.md.",
    "tools": {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]},
    "budget": {"cost_usd": "0.20"},
}


async def steer(client: Client, task: dict[str, object] = TASK) -> RunResult:
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
    async with await Client.connect(by="docs") as client:
        result = await steer(client)
        print(result.outcome, result.explanation, result.output, sep="\n")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
