"""Stages that run a loop of their own, as child runs within depth and budget."""

from collections import Counter

import pytest
from delegating import completes, delegates, works
from installation import Installation
from teams import APPROVED, PAIR, asks, says, script, stage, task, team
from temporalio.client import WorkflowExecutionStatus
from waiting import eventually

from perdure.domain.llm.usage import Usage
from perdure.domain.roles.definition import LoopSnapshot


def nesting(*inner: dict[str, object], **fields: object) -> dict[str, object]:
    """A team whose first stage is a team."""
    below = LoopSnapshot.model_validate(team(*inner))
    loop = {"name": "build", "prompt": "Build the parser.", "loop": "team", **fields}
    return team(loop, stage("reviewer", role="critic"), nested={"build": below})


@pytest.mark.long
async def test_a_stage_may_be_a_loop_and_its_spend_is_counted_once(site: Installation) -> None:
    replies = [says("coder", "the parser"), says("reviewer", APPROVED)]
    critic = says("critic", APPROVED)
    content = script([*replies, critic])
    result = await site.run(task(nesting(*PAIR)), content)
    assert (result.outcome, result.reason, result.output) == ("accepted", "approved", "the parser")
    stages = result.iterations[0].stages
    assert [one.status for one in stages] == ["completed", "completed"]
    child = stages[0].child
    assert child is not None
    assert stages[0].line == "the parser"
    inner = await site.gateway.result(child)
    assert (inner.outcome, inner.kind) == ("accepted", "roles")
    rows = [
        *await site.parts.stores.journal.rows(result.id),
        *await site.parts.stores.journal.rows(child),
    ]
    assert result.spend.model_calls == len(rows) == 3
    assert result.spend.tokens == 3 * 120
    assert sum(one.tokens for one in stages) == 3 * 120
    assert [one.model_calls for one in stages] == [2, 1]
    assert stages[0].cost_usd == inner.spend.cost_usd
    assert stages[0].duration_s == inner.spend.active_time_s


async def test_a_loop_deeper_than_the_budget_allows_fails_its_stage(site: Installation) -> None:
    result = await site.run(task(nesting(*PAIR), budget={"depth": 0}), script([says("coder", "x")]))
    assert (result.outcome, result.reason) == ("failed", "stage_failed")
    assert "depth" in (result.error or "")
    assert result.spend.model_calls == 0


@pytest.mark.long
async def test_files_of_a_loop_below_are_those_of_the_run(site: Installation) -> None:
    writes = {"path": "one.txt", "content": "made below", "expected_hash": "absent"}
    replies = [
        asks("coder", "fs.write", writes),
        says("coder", "written"),
        says("reviewer", APPROVED),
        asks("critic", "fs.read", {"path": "one.txt"}),
        says("critic", APPROVED),
    ]
    below = LoopSnapshot.model_validate(team(stage("coder", access="full"), stage("reviewer")))
    loop = {"name": "build", "prompt": "Build it.", "loop": "team"}
    critic = stage("reviewer", role="critic", access="readonly")
    above = team(loop, critic, nested={"build": below})
    result = await site.run(task(above), script(replies))
    assert (result.outcome, result.reason) == ("accepted", "approved"), result.error
    messages = await site.parts.stores.transcripts.load(
        result.iterations[0].stages[1].transcript or ""
    )
    assert any("made below" in str(message.blocks) for message in messages)
    assert {artifact.kind for artifact in result.artifacts} == {"tree", "patch"}


@pytest.mark.long
async def test_a_stage_may_be_a_delegation(site: Installation) -> None:
    loop = {"name": "build", "prompt": "Build the parser.", "loop": {"kind": "delegation"}}
    above = team(loop, stage("reviewer", role="critic"))
    replies = [
        *(dict(reply) for reply in (delegates("w1"), works("w1"), completes())),
        says("critic", APPROVED),
    ]
    result = await site.run(task(above), script(replies))
    assert (result.outcome, result.reason) == ("accepted", "approved"), result.error
    assert result.output == "A bottle of steel."
    child = result.iterations[0].stages[0].child
    assert child is not None
    assert (await site.gateway.result(child)).kind == "delegation"
    assert result.spend.workers == 2
    assert result.spend.model_calls == 4


@pytest.mark.long
async def test_a_worker_lost_in_a_loop_below_costs_one_lost_attempt(bare: Installation) -> None:
    replies = [
        says("coder", "the parser"),
        says("reviewer", APPROVED, delay_s=8),
        says("critic", APPROVED),
    ]
    async with bare.worker_process() as worker:
        run = await bare.start(task(nesting(*PAIR)), script(replies))

        async def reviewing_below() -> bool:
            rows = await bare.parts.stores.journal.tree(root=run, run=run)
            below = [row.run for row in rows if row.role == "reviewer" and row.run != run]
            return bool(below) and await bare.replies_taken(below[0]) == 2

        await eventually(reviewing_below)
        await worker.kill()
        await worker.start()
        result = await bare.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == ("accepted", "approved", "the parser")
    assert [one.attempt for one in result.iterations[0].stages] == [1, 1]
    rows = await bare.parts.stores.journal.tree(root=run, run=run)
    assert Counter(row.state for row in rows) == {"answered": 3, "lost": 1}
    confirmed = sum((row.usage for row in rows if row.state == "answered"), Usage())
    assert result.spend.usage == confirmed
    assert (result.spend.model_calls, result.spend.workers) == (len(rows), 1)
    assert (await bare.status(run)).budget.reserved_tokens == 0

    async def both_closed() -> bool:
        listed = [one async for one in bare.client.list_workflows(f"RootWorkflowId = '{run}'")]
        found = Counter(one.status for one in listed)
        return found == {WorkflowExecutionStatus.COMPLETED: 2}

    await eventually(both_closed)
