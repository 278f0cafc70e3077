"""Patterns on a real server: a schedule proposes, a person approves, and runs get a skill."""

from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation
from refining import draft, spec
from waiting import eventually

from perdure.domain.foundation.errors import InvalidInput, NoReadyWorker, NotAllowed
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.memory.entries import Event, Origin, Pattern
from perdure.interfaces.patterns import approve, patterns, reject

DAY = timedelta(hours=24)
NOW = datetime(2026, 3, 2, tzinfo=UTC)


async def asked_for(site: Installation, *goals: str) -> None:
    """Accepted runs of one category, each learned from."""
    for goal in goals:
        given = {**spec(), "goal": goal, "category": "trees", "learn": True}
        result = await site.run(given, {"replies": [{"text": draft(1.0)}]})
        await site.gateway.result(learn_run_id(result.id))


async def habit(site: Installation) -> Pattern:
    """The pattern of the category, as a scheduled look that was just triggered finds it."""
    stands = await site.gateway.upkeep("mining").schedule_every(DAY)
    await site.client.get_schedule_handle(stands.id).trigger()

    async def proposed() -> bool:
        return bool(await patterns(site.parts.stores.memory, state="proposed"))

    await eventually(proposed)
    found = await patterns(site.parts.stores.memory)
    return next(item for item in found if item.sort == "category")


@pytest.mark.long
async def test_what_three_runs_asked_for_becomes_a_skill_of_the_next(site: Installation) -> None:
    await asked_for(site, "Name ten trees.", "Name trees again.", "Trees, please.")
    found = await habit(site)
    assert (found.subject, found.seen, found.confidence) == (("trees",), 3, 0.75)
    memory = site.parts.stores.memory
    assert await memory.skill("trees") is None

    done = await approve(memory, found.id[:8], by="ann", now=NOW)
    assert done.skill.source == f"pattern {found.id}, approved by ann"
    assert "Name trees again. (1.00): The first version was the best" in done.skill.text
    given = {**spec(), "recall": True, "category": "trees"}
    result = await site.run(given, {"replies": [{"text": draft(1.0)}]})
    assert result.skills == ("trees",)

    again = await approve(memory, found.id, by="ann", now=NOW)
    assert (again.skill.id, again.skill.version) == (done.skill.id, done.skill.version)
    report = await site.gateway.mine()
    assert report.proposed == 0
    assert [item.state for item in await patterns(memory) if item.id == found.id] == ["approved"]


@pytest.mark.long
async def test_a_rejected_pattern_stays_rejected(site: Installation) -> None:
    await asked_for(site, "Name ten trees.", "Name trees again.", "Trees, please.")
    await site.gateway.mine()
    memory = site.parts.stores.memory
    for item in await patterns(memory):
        await reject(memory, item.id)
    assert (await site.gateway.mine()).proposed == 0
    assert await patterns(memory, state="proposed") == []


async def test_nothing_is_made_of_runs_that_left_nothing(site: Installation) -> None:
    memory = site.parts.stores.memory
    for number in range(3):
        origin = Origin(run=f"run-{number}", outcome="accepted")
        at = NOW + timedelta(hours=31 * number)
        event = Event(kind="event", id=f"e{number}", category="a", created=at, origins=(origin,))
        await memory.put(event)
    report = await site.gateway.mine()
    assert (report.events, report.found, report.proposed) == (3, 1, 1)
    (found,) = await patterns(memory)
    with pytest.raises(NotAllowed, match="No accepted run of a says what worked"):
        await approve(memory, found.id, by="ann", now=NOW)
    with pytest.raises(InvalidInput, match="is not a pattern but of the kind event"):
        await reject(memory, "e1")


async def test_the_schedule_is_set_changed_and_ended(bare: Installation) -> None:
    gateway = bare.gateway
    assert await gateway.upkeep("mining").state() is None
    assert not await gateway.upkeep("mining").delete_schedule()
    assert (await gateway.upkeep("mining").schedule_every(DAY)).every_s == 86_400
    changed = await gateway.upkeep("mining").schedule_every(timedelta(hours=1))
    stands = await gateway.upkeep("mining").state()
    assert stands is not None
    assert (changed.every_s, stands.every_s, stands.looks) == (3_600, 3_600, 0)
    assert await gateway.upkeep("mining").delete_schedule()
    assert await gateway.upkeep("mining").state() is None


@pytest.mark.parametrize("seconds", [0, 59, 367 * 86_400], ids=str)
async def test_an_interval_out_of_bounds_is_refused(bare: Installation, seconds: int) -> None:
    with pytest.raises(InvalidInput, match="Patterns cannot be mined every"):
        await bare.gateway.upkeep("mining").schedule_every(timedelta(seconds=seconds))
    assert await bare.gateway.upkeep("mining").state() is None


@pytest.mark.long
async def test_without_a_worker_nobody_looks(unmanned: Installation) -> None:
    with pytest.raises(NoReadyWorker, match="Nobody works on the queue"):
        await unmanned.gateway.mine()
