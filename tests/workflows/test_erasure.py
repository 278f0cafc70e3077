"""Erasing runs on a real server: content goes, what others need stays, sums stay right."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pytest
from installation import Installation
from remembering import episode
from waiting import eventually

from perdure.domain.budget.ledger import Period
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.memory.entries import Learning, Origin
from perdure.domain.retention.rules import read_rules
from perdure.operations.erase import Eraser
from perdure.operations.gc import collect

SECRET = "Ada Lovelace-Byron"
SCRIPT = {"replies": [{"text": f"A letter to {SECRET}.", "usage": {"output_tokens": 50}}]}
OTHER = {"replies": [{"text": "A letter to nobody."}]}
NONE = timedelta(0)


def eraser(site: Installation) -> Eraser:
    return Eraser(site.parts.stores, site.gateway)


async def letter(site: Installation, goal: str, script: Mapping[str, object] = SCRIPT) -> str:
    task = {"kind": "agent", "goal": goal, "learn": False, "metadata": {"label": "letters"}}
    run = await site.start(task, script)
    await site.gateway.result(run)
    return run


async def contents(site: Installation) -> str:
    found: list[str] = []
    async for address, _, _ in site.parts.stores.blobs.addresses():
        found.append((await site.parts.stores.blobs.get(address)).decode(errors="replace"))
    return "\n".join(found)


async def closed(site: Installation, run: str) -> None:
    """A result is in the store a moment before the server has closed and listed the execution.

    A server that is to delete an execution before that tries again much later.
    """

    async def is_closed() -> bool:
        listed = site.client.list_workflows(f"WorkflowId = '{run}' AND CloseTime IS NOT NULL")
        return any([True async for _ in listed])

    await eventually(is_closed)


async def test_a_run_is_erased_and_the_books_stay(site: Installation) -> None:
    stores = site.parts.stores
    run, other = await letter(site, "Write a letter."), await letter(site, "Write one.", OTHER)
    await closed(site, run)
    origin, another = (Origin(run=one, outcome="accepted") for one in (run, other))
    await stores.memory.put(episode("mine", "goal").model_copy(update={"origins": (origin,)}))
    both = Learning(
        kind="learning", id="both", sort="fact", text="Letters begin with a name.",
        created=datetime.now(UTC), origins=(origin, another),
    )  # fmt: skip
    await stores.memory.put(both)
    today = datetime.now(UTC).date()
    days = Period(since=date(2026, 1, 1), until=today + timedelta(days=1))
    before = await stores.ledger().spending("kind", days)

    planned = await eraser(site).erase(run, now=datetime.now(UTC), dry_run=True)
    assert (planned.dry_run, planned.runs, planned.memory.episodes) == (True, (run,), 1)
    assert SECRET in await contents(site)
    found = await eraser(site).erase(run, now=datetime.now(UTC), young=NONE)
    assert found.memory.episodes == 1
    assert found.memory.shared == ("both",)
    assert found.executions == 1
    # The script of the model is no content of the run alone: the test stored it.
    assert f"A letter to {SECRET}." not in (await contents(site)).replace("- text: ", "")
    with pytest.raises(NotFound):
        await stores.memory.get("mine")
    kept = await stores.memory.get("both")
    assert [one.run for one in kept.origins] == [other]
    assert await stores.records.run(run) is None
    assert (await site.gateway.result(other)).output == "A letter to nobody."
    assert await stores.ledger().spending("kind", days) == before

    async def gone() -> bool:
        try:
            await site.handle(run).describe()
        except Exception as error:
            return "not found" in str(error)
        return False

    await eventually(gone)
    again = await eraser(site).erase(run, now=datetime.now(UTC), young=NONE)
    assert (again.runs, again.later) == ((run,), 0)


async def test_what_is_too_young_goes_with_a_later_collection(site: Installation) -> None:
    run = await letter(site, "Write a letter.")
    await closed(site, run)
    found = await eraser(site).erase(run, now=datetime.now(UTC))
    assert (found.blobs, found.later_at is not None) == (0, True)
    assert found.later > 0
    stores = site.parts.stores
    assert await stores.erasure().marked(run)
    later = datetime.now(UTC) + timedelta(hours=2)

    async def went() -> bool:
        # The server deletes an execution a moment later; until then its history names them.
        await collect(stores, site.gateway, site.parts.workspaces, now=later, dry_run=False)
        return SECRET not in await contents(site) and not await stores.erasure().marked(run)

    await eventually(went)


async def test_runs_are_found_by_what_they_mention(site: Installation) -> None:
    run, other = await letter(site, "Write a letter."), await letter(site, "Write one.", OTHER)
    assert await eraser(site).find(subject=SECRET.lower()) == [run]
    assert set(await eraser(site).find(label="letters")) == {run, other}
    assert await eraser(site).find(subject="nobody here") == []


async def test_only_ended_runs_that_are_known_are_erased(site: Installation) -> None:
    with pytest.raises(NotFound, match="There is no run nothing"):
        await eraser(site).erase("nothing", now=datetime.now(UTC))
    gate = {"replies": [{"text": "x", "delay_s": 600}]}
    run = await site.start({"kind": "agent", "goal": "Wait."}, gate)
    with pytest.raises(NotAllowed, match="has not ended"):
        await eraser(site).erase(run, now=datetime.now(UTC))


async def test_rules_of_retention_drop_what_is_old(site: Installation) -> None:
    stores = site.parts.stores
    run = await letter(site, "Write a letter.")
    await closed(site, run)
    later = datetime.now(UTC) + timedelta(days=31)

    async def collected(rules: str, *, dry_run: bool = False) -> int:
        found = await collect(
            stores, site.gateway, site.parts.workspaces,
            now=later, dry_run=dry_run, rules=read_rules(rules),
        )  # fmt: skip
        return found.runs

    assert await collected("7d outcome=failed; keep label=lett*; 30d") == 0
    assert await collected("30d label=letters", dry_run=True) == 1
    assert await stores.records.run(run) is not None
    assert await collected("30d label=letters") == 1
    assert await stores.records.run(run) is None
    (stone,) = await stores.erasure().tombstones(run)
    assert (stone.kind, stone.label, stone.why) == ("agent", "letters", "expired")


async def test_collections_run_on_a_schedule(site: Installation) -> None:
    stray = await site.parts.stores.blobs.put(b"nobody names me")
    assert await site.gateway.upkeep("collection").state() is None
    stands = await site.gateway.upkeep("collection").every(timedelta(hours=24))
    assert stands.every_s == 86_400
    await site.client.get_schedule_handle(stands.id).trigger()

    async def ran() -> bool:
        found = await site.client.get_schedule_handle(stands.id).describe()
        return bool(found.info.recent_actions) and not found.info.running_actions

    await eventually(ran)
    assert await site.parts.stores.blobs.exists(stray), "it is younger than an hour"
    assert await site.gateway.upkeep("collection").off()
    assert not await site.gateway.upkeep("collection").off()
