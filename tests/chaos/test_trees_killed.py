"""A tree of runs under fire: workers killed at random, a child terminated, and the books agree."""

import asyncio
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from ground import FAST, Ground, ground
from provider import MODEL, Line, Play
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.llm.usage import Usage

LEVELS = 4
LEAVES = 33
RUNS = 40
KILLS = 3
VICTIM = "leaf32"  # its call is held, so that it is there when it is terminated
CONFIRMED = frozenset({"answered", "duplicate"})


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
    if not is_manager and f"Do {VICTIM}." in asked:
        return [Play(gate="never")]
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
                await eventually(lambda wanted=wanted: len(made.provider.lines()) >= wanted)
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
    """The worker that is in the middle of a call."""
    found: list[str] = []

    async def calling() -> bool:
        rows = await made.site.parts.stores.journal.tree(root=run, run=run)
        found[:] = [row.run for row in rows if row.state == "started" and VICTIM in row.run]
        return bool(found)

    await eventually(calling)
    return found[0]


async def _nobody_runs(made: Ground, run: str) -> None:
    async def none() -> bool:
        listed = made.site.client.list_workflows(f"RootWorkflowId = '{run}'")
        return all([item.status != WorkflowExecutionStatus.RUNNING async for item in listed])

    await eventually(none)


def _ledger_differs_by_lost_attempts(made: Ground, rows: Sequence[AttemptRow]) -> None:
    """Token by token: a line of the ledger is a confirmed attempt, or one that is marked lost."""
    ledger = made.provider.lines()
    lines = {(line.input_tokens, line.output_tokens): line for line in ledger}
    assert len(lines) == len(ledger), "the provider tells its lines apart"
    askers: dict[str, str] = {}
    for row in (row for row in rows if row.state in CONFIRMED):
        line = lines.pop((row.usage.input_tokens, row.usage.output_tokens))
        assert askers.setdefault(line.hash, row.run) == row.run, "no two runs ask the same"
    unsent = [row for row in rows if row.state == "failed"]
    assert not any(row.sent or row.usage.counted_tokens() for row in unsent)
    lost = [row for row in rows if row.state not in CONFIRMED and row not in unsent]
    assert {row.state for row in lost} == {"lost"}
    # A lost attempt without a line died between its entry in the journal and the wire.
    owners = [_taken(line, lost, askers) for line in lines.values()]
    assert owners
    for owner, line in zip(owners, lines.values(), strict=True):
        assert owner is not None, f"nobody in the journal answers for {line}"
        assert owner.usage.counted_tokens() >= line.tokens, "what is lost counts at its most"


def _taken(line: Line, lost: list[AttemptRow], askers: dict[str, str]) -> AttemptRow | None:
    """Take the lost attempt that sent a request out of the list.

    A question that was never confirmed belongs to a run that nobody heard: the terminated one.
    """
    asker, heard = askers.get(line.hash), set(askers.values())
    sent = (row for row in lost if (row.run == asker if asker else row.run not in heard))
    owner = next(sent, None)
    if owner is not None:
        lost.remove(owner)
        askers[line.hash] = owner.run
    return owner
