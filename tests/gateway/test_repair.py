"""A run whose tasks keep failing is found, and goes on from where it was sound."""

import pytest
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.run.messages import AddInput, Stop
from perdure.gateway.types import RunFilter
from tests.gateway.tiny import Site, spec


async def _poisoned(site: Site) -> str:
    """A run that took one message, then got one that its code cannot take, and two more."""
    run = await site.gateway.start(spec())
    await site.gateway.verb(run, AddInput(text="first"))
    handle = site.client.get_workflow_handle(run)
    for word in ("poison", "second", "third"):
        await handle.signal("narrow", word)
    await eventually(lambda: _is_failing(site, run))
    return run


async def _is_failing(site: Site, run: str) -> bool:
    return run in [one.run for one in (await site.gateway.failing(limit=100)).runs]


@pytest.mark.long
async def test_a_run_whose_tasks_fail_is_found_told_and_repaired(site: Site) -> None:
    await site.work()
    run = await _poisoned(site)
    told = {one.run: one for one in (await site.gateway.failing(limit=100)).runs}
    assert "the handler cannot take this" in told[run].found
    assert f"`perdure repair {run}`" in told[run].cure
    trouble = (await site.impatient.status(run)).trouble
    assert trouble is not None and "the handler cannot take this" in trouble

    repaired = await site.gateway.repair(run)
    assert repaired.left_out == ('narrow "poison"',)
    assert repaired.sent_again == 2
    assert not await _is_failing(site, run)
    await site.gateway.verb(run, Stop())
    assert (await site.gateway.result(run)).unread_input == ("first", "second", "third")


@pytest.mark.parametrize(
    ("goal", "stopped", "why"),
    [
        pytest.param("write a haiku", False, "nothing to repair", id="sound"),
        pytest.param("write a haiku", True, "has ended", id="ended"),
        pytest.param("broken", False, "No task of the run", id="never sound"),
    ],
)
async def test_what_cannot_be_repaired_is_refused_with_the_way_out(
    site: Site, goal: str, stopped: bool, why: str
) -> None:
    await site.work()
    run = await site.gateway.start(spec(goal))
    if stopped:
        await site.gateway.verb(run, Stop())
        await site.gateway.result(run)
    if goal == "broken":
        await eventually(lambda: _is_failing(site, run))
    with pytest.raises(NotAllowed, match=why) as caught:
        await site.gateway.repair(run)
    assert caught.value.cure
    if not stopped:
        await site.client.get_workflow_handle(run).terminate()


async def test_an_unknown_run_is_not_repaired(site: Site) -> None:
    with pytest.raises(NotFound):
        await site.gateway.repair("agent-no-such")


async def test_a_list_tells_rows_without_trouble(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())

    async def listed() -> bool:
        rows = (await site.gateway.list(RunFilter(limit=500))).runs
        return any(row.id == run and row.trouble is None for row in rows)

    await eventually(listed)
    await site.gateway.verb(run, Stop())
