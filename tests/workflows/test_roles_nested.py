"""Stages that run a loop of their own, as child runs within depth and budget."""

from delegating import completes, delegates, works
from installation import Installation
from teams import APPROVED, PAIR, asks, says, script, stage, task, team

from perdure.domain.roles.definition import LoopSnapshot


def nesting(*inner: dict[str, object], **fields: object) -> dict[str, object]:
    """A team whose first stage is a team."""
    below = LoopSnapshot.model_validate(team(*inner))
    loop = {"name": "build", "prompt": "Build the parser.", "loop": "team", **fields}
    return team(loop, stage("reviewer", role="critic"), nested={"build": below})


async def test_a_stage_may_be_a_loop_and_its_spend_is_counted_once(site: Installation) -> None:
    replies = [
        says("coder", "the parser"),
        says("reviewer", APPROVED),
    ]
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


async def test_a_loop_deeper_than_the_budget_allows_fails_its_stage(site: Installation) -> None:
    result = await site.run(task(nesting(*PAIR), budget={"depth": 0}), script([says("coder", "x")]))
    assert (result.outcome, result.reason) == ("failed", "stage_failed")
    assert "depth" in (result.error or "")
    assert result.spend.model_calls == 0


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
