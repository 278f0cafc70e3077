"""A tree of runs under fire: workers killed at random, a child terminated, and the books agree."""

import asyncio
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from ground import FAST, Ground, ground
from installation import eventually
from provider import MODEL, Play
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from perdure.domain.ports import AttemptRow
from perdure.domain.usage import Usage

LEVELS = 4
LEAVES = 33
RUNS = 40
KILLS = 3


def tree() -> dict[str, list[str]]:
    """Who gives work to whom: seven managers over four levels, and 33 workers."""
    managers = {"root": ["m1", "m2"], "m1": ["m3"], "m2": ["m4"], "m3": ["m5"], "m4": ["m6"]}
    below = {
        name: list(managers.get(name, [])) for name in ("root", *(f"m{n}" for n in range(1, 7)))
    }
    for number in range(LEAVES):
        below[list(below)[number % len(below)]].append(f"leaf{number}")
    return below


BELOW = tree()


def plays(body: dict[str, object]) -> Sequence[Play]:
    """What the provider answers, told from the prompt alone: who is asked, and what was done."""
    asked = json.dumps(body["messages"])
    is_manager = "Decide now" in asked
    name = next((n for n in BELOW if n != "root" and f"Do {n}." in asked), "root")
    if not is_manager:
        return [Play(text=json.dumps({"result": "done", "confidence": 0.6}), delay_s=0.3)]
    if "Newest iterations" in asked:
        return [Play(text=json.dumps({"decision": "complete", "final_result": f"{name} is done"}))]
    work = [
        {"worker": worker, "instructions": f"Do {worker}.", "sub_manager": worker in BELOW}
        for worker in BELOW[name]
    ]
    return [Play(text=json.dumps({"decision": "delegate", "delegations": work}))]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_deep_tree_survives_kills_and_its_books_agree(
    server: WorkflowEnvironment, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    address = server.client.service_client.config.target_host
    async with ground(tmp_path, address, timing=FAST) as made:
        made.provider.choose = plays
        async with made.process() as process:
            run = await _started(made)
            for _ in range(KILLS):
                before = len(made.provider.lines())
                wanted = before + chance.randrange(2, 6)
                await eventually(
                    lambda wanted=wanted: len(made.provider.lines()) >= wanted, seconds=90
                )
                await process.kill()
                await process.start()
            victim = await _victim(made, run)
            await made.site.handle(victim).terminate("a test")
            result = await asyncio.wait_for(made.site.gateway.result(run), 240)
            await _nobody_runs(made, run)
        assert result.outcome == "accepted", result.explanation
        rows = await made.site.parts.stores.journal.tree(root=run, run=run)
        booked = sum((row.usage for row in rows), Usage())
        assert result.spend.tokens == booked.counted_tokens()
        assert result.spend.cost_usd == sum(
            (row.cost_usd or Decimal(0) for row in rows), Decimal(0)
        )
        assert result.spend.workers == RUNS - 1
        assert (
            result.spend.sub_managers,
            (await made.site.status(run)).budget.reserved_tokens,
        ) == (6, 0)
        _ledger_differs_by_lost_attempts(made, rows)


async def _started(made: Ground) -> str:
    return await made.start(
        kind="delegation",
        goal="Do all of it.",
        models={"executor": MODEL},
        tools={"access": "minimal"},
        budget={"tokens": 0, "cost_usd": 0},
        delegation={
            "workers_per_iteration": 0,
            "critique": {"enabled": False},
            "submanagers": {"per_run": 6},
        },
    )


async def _victim(made: Ground, run: str) -> str:
    """A worker that is in the middle of a call."""
    found: list[str] = []

    async def calling() -> bool:
        rows = await made.site.parts.stores.journal.tree(root=run, run=run)
        found[:] = [row.run for row in rows if row.state == "started" and "leaf" in row.run]
        return bool(found)

    await eventually(calling, seconds=60)
    return found[0]


async def _nobody_runs(made: Ground, run: str) -> None:
    async def none() -> bool:
        listed = made.site.client.list_workflows(f"RootWorkflowId = '{run}'")
        return all([item.status != WorkflowExecutionStatus.RUNNING async for item in listed])

    await eventually(none)


def _ledger_differs_by_lost_attempts(made: Ground, rows: Sequence[AttemptRow]) -> None:
    """What was billed and is not confirmed belongs to attempts that are marked lost."""
    billed = sum(line.tokens for line in made.provider.lines())
    confirmed = sum(row.usage.counted_tokens() for row in rows if row.state == "answered")
    answered = sum(row.state == "answered" for row in rows)
    lost = sum(row.state in {"lost", "duplicate"} for row in rows)
    assert lost >= 1
    assert billed >= confirmed
    assert answered <= len(made.provider.lines()) <= answered + lost
