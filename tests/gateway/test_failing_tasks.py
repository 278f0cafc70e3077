"""Open runs whose code keeps failing are found, wherever they are and whoever started them."""

import pytest
from waiting import eventually

from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.gateway.diagnostics import REPORTED
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import FailingRun, FailingRuns
from tests.gateway.tiny import Site, spec

UNKNOWN = "AgentLop"


async def _found(site: Site, *, limit: int = 100) -> dict[str, FailingRun]:
    return {one.run: one for one in (await site.gateway.failing(limit=limit)).runs}


async def _of_unknown_type(site: Site) -> str:
    """A run as somebody starts it with Temporal's own client, its type misspelt."""
    handle = await site.client.start_workflow(
        UNKNOWN, id=f"typo-{site.records.name}", task_queue=f"perdure-{site.records.name}-loops"
    )
    return handle.id


@pytest.mark.long
async def test_a_run_of_a_type_that_no_worker_knows_is_found_and_told_in_words(site: Site) -> None:
    await site.work()
    run = await _of_unknown_type(site)

    async def there() -> bool:
        return run in await _found(site)

    await eventually(there)
    told = (await _found(site))[run]
    assert f"no worker on its queue knows the workflow type `{UNKNOWN}`" in told.found
    assert "Its workers know" in told.found
    assert f"temporal workflow terminate --workflow-id {run}" in told.cure
    trouble = (await site.impatient.status(run)).trouble
    assert trouble is not None and UNKNOWN in trouble and "terminate" in trouble
    with pytest.raises(NotAllowed, match="knows the workflow type"):
        await site.gateway.repair(run)
    await site.client.get_workflow_handle(run).terminate()
    assert run not in await _found(site)


async def test_how_far_was_looked_is_told(site: Site) -> None:
    await site.work()
    broken = await site.gateway.start(spec("broken"))
    later = [await site.gateway.start(spec(f"haiku {number}")) for number in range(3)]

    async def there() -> bool:
        return broken in await _found(site)

    await eventually(there)
    near: FailingRuns = await site.gateway.failing(limit=2)
    assert near.looked_at < near.open
    assert near.open >= 4
    for run in (broken, *later):
        await site.client.get_workflow_handle(run).terminate()


async def test_what_the_server_names_is_found_among_any_number(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server names a run after a minute of failures; here its answer is played."""
    await site.work()
    broken = await site.gateway.start(spec("broken"))
    later = [await site.gateway.start(spec(f"haiku {number}")) for number in range(2)]

    async def there() -> bool:
        return broken in await _found(site)

    await eventually(there)
    real = TemporalGateway.page

    async def page(
        self: TemporalGateway, query: str, *, limit: int, cursor: bytes | None = None
    ) -> tuple[list[ExecutionInfo], bytes | None]:
        found, following = await real(
            self, query.replace(f" AND {REPORTED} IS NOT NULL", ""), limit=1_000, cursor=cursor
        )
        named = REPORTED in query
        return [one for one in found if (one.id == broken) == named][:limit], following

    monkeypatch.setattr(TemporalGateway, "page", page)
    assert broken in await _found(site, limit=1)
    for run in (broken, *later):
        await site.client.get_workflow_handle(run).terminate()


async def test_a_server_without_the_attribute_is_no_obstacle(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.work()
    broken = await site.gateway.start(spec("broken"))
    real = TemporalGateway.page

    async def page(
        self: TemporalGateway, query: str, *, limit: int, cursor: bytes | None = None
    ) -> tuple[list[ExecutionInfo], bytes | None]:
        if REPORTED in query:
            raise InvalidInput(f"invalid query: unknown search attribute {REPORTED}")
        return await real(self, query, limit=limit, cursor=cursor)

    monkeypatch.setattr(TemporalGateway, "page", page)

    async def there() -> bool:
        return broken in await _found(site)

    await eventually(there)
    assert not (await site.gateway.failing(limit=100)).server_names_them
    await site.client.get_workflow_handle(broken).terminate()
