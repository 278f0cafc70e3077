"""Two namespaces of a server over one store: a run is at work in one, whoever asks in the other."""

import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from ground import Ground
from installation import Installation, installation
from listed import listed
from namespaces import registered
from provider import MODEL, Play
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Answer, Pause, Retry
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.types import RunFilter
from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.operations.gc import collect

WORK = {"kind": "agent", "goal": "look", "models": {"executor": MODEL}, "learn": False}
ASKS = {**WORK, "tools": {"access": "full", "allow": ["human.ask"]}}
LONG = timedelta(days=60)


@pytest.fixture
async def abroad(drill: Ground, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    """The same store in a namespace of its own."""
    name = await registered(drill.site.client)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", name)
    settings = drill.site.settings
    async with installation(
        drill.site.home,
        drill.site.address,
        heartbeat_s=settings.heartbeat_s,
        anthropic_base_url=drill.provider.url,
        anthropic_api_key="loopback",
        plugins=("ledger_tools",),
    ) as other:
        await register_search_attributes(other.client)
        yield other


async def test_a_run_of_another_namespace_is_at_work_there_and_is_not_begun_again(
    drill: Ground, abroad: Installation
) -> None:
    here = drill.site.client.namespace
    drill.provider.plays = [Play(text="done", gate="held")]
    spec = RUN_SPEC.validate_python(WORK)
    async with drill.site.worker(), abroad.worker():
        run = await drill.site.gateway.start(spec, run_id="order-17")
        await drill.billed(1)
        status = await abroad.status(run)
        assert (status.lifecycle, status.outcome) == ("running", None)
        assert status.trouble is not None
        assert here in status.trouble
        row = (await listed(abroad.gateway))[run]
        assert (row.lifecycle, row.trouble) == ("running", f"in the namespace {here}")
        assert run not in {
            one.id for one in (await abroad.gateway.list(RunFilter(status="failed"))).runs
        }
        for asked in (
            abroad.gateway.result(run),
            abroad.gateway.verb(run, Retry()),
            abroad.gateway.verb(run, Pause()),
        ):
            with pytest.raises(NotAllowed, match=f"works in the namespace {here}") as refused:
                await asked
            assert f"TEMPORAL_NAMESPACE={here}" in (refused.value.cure or "")
        assert await abroad.gateway.start(spec, run_id=run) == run, "the same order is this run"
        drill.provider.open("held")
        assert (await drill.site.gateway.result(run)).outcome == "accepted"
        assert len(drill.provider.lines()) == 1, "nobody paid for it a second time"
        assert (await abroad.gateway.result(run)).output == "done", "its end is in the store"


async def test_a_run_that_its_namespace_has_lost_goes_on_in_another(
    drill: Ground, abroad: Installation
) -> None:
    drill.provider.plays = [Play(text="done", gate="held")]
    async with drill.site.worker(), abroad.worker():
        run = await drill.start()
        await drill.billed(1)
        look = await drill.site.gateway._parts.server.look(run)
        assert look is not None
        await drill.site.gateway._parts.server.delete(run, look.execution)

        async def forgotten() -> bool:
            return await drill.site.gateway._parts.server.look(run) is None

        await eventually(forgotten)
        drill.provider.open("held")
        await abroad.gateway.verb(run, Retry())
        assert (await abroad.gateway.result(run)).outcome == "accepted"


async def asks(site: Installation, run: str) -> None:
    """Wait until a run asks somebody."""

    async def asked() -> bool:
        return bool((await site.status(run)).gates)

    await eventually(asked)


async def test_a_collection_spares_what_runs_of_another_namespace_need(
    drill: Ground, abroad: Installation
) -> None:
    ask = Play(calls=[("human_ask", {"question": "Which colour?"})])
    drill.provider.choose = lambda body: [
        Play(text="blue, then") if "tool_result" in json.dumps(body["messages"]) else ask
    ]
    async with drill.site.worker(), abroad.worker():
        # With a run of its own, a collection could believe that this is the only namespace.
        own = await abroad.gateway.start(RUN_SPEC.validate_python({**ASKS, "goal": "look again"}))
        run = await drill.site.gateway.start(RUN_SPEC.validate_python(ASKS))
        for site, one in ((abroad, own), (drill.site, run)):
            await asks(site, one)
        stray = await abroad.parts.stores.blobs.put(random.randbytes(40))
        await collect(
            abroad.parts.stores, abroad.gateway, abroad.parts.workspaces,
            now=datetime.now(UTC) + LONG, dry_run=False,
        )  # fmt: skip
        assert not await abroad.parts.stores.blobs.exists(stray)
    # Another worker: nothing is left in a cache.
    async with drill.site.worker():
        gate = (await drill.site.status(run)).gates[0]
        await drill.site.gateway.verb(run, Answer(gate=gate.name, text="blue"))
        result = await drill.site.gateway.result(run)
        assert (result.outcome, result.output) == ("accepted", "blue, then"), result.explanation
