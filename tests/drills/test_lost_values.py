"""The procedure "A lost value" of docs/backup.md: a value of a history whose blob is gone.

Large values of Temporal's histories are kept in the store; an older backup of it lacks them. The
run waits and says which blob it lacks; it goes on when the blob is back, or from before it.
"""

import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import agent_runs
import pytest
from holding import HELD, Holding
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.temporal import data_converter
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.run.messages import Pause

LARGE = 200  # bytes, in place of 256 KiB
LOOK = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
REPLIES = [LOOK, {**LOOK, "delay_s": HELD}, {"text": "Nothing is there."}]


@pytest.fixture
async def site(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    """An installation in which each value above a few hundred bytes counts as large."""
    monkeypatch.setattr(data_converter, "EXTERNAL_THRESHOLD_BYTES", LARGE)
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address) as made:
        yield made


async def _paused(site: Installation, holding: Holding) -> str:
    """A run in the middle of its work that no worker holds in memory."""
    async with site.worker():
        run = await site.start(agent_runs.task(), {"replies": REPLIES})
        await holding.begun()
        await site.gateway.verb(run, Pause(by="drill"))
        holding.release()
        await eventually(lambda: _is(site, run, "paused"))
    return run


async def _is(site: Installation, run: str, lifecycle: str) -> bool:
    return (await site.status(run)).lifecycle == lifecycle


async def _kept(site: Installation, run: str, attributes: str, part: str) -> list[str]:
    """The blobs in which large values of such events are kept, oldest first."""
    found: list[str] = []
    for event in await site.history(run):
        values = event.get(attributes, {}).get(part, {}).get("payloads", ())  # type: ignore[attr-defined]
        for value in values:
            if "externalPayloads" in value:
                found += addresses_in(base64.b64decode(value["data"]))
    return found


async def _lose(site: Installation, blob: str) -> bytes:
    blobs = site.parts.stores.blobs
    content = await blobs.get(blob)
    assert await blobs.delete([blob], written_before=utc_now() + timedelta(days=1))
    return content


async def _told(site: Installation, run: str, blob: str) -> bool:
    failing = {one.run: one for one in (await site.gateway.failing(limit=50)).runs}
    return run in failing and blob in failing[run].found and "perdure repair" in failing[run].cure


@pytest.mark.long
@pytest.mark.parametrize(
    ("attributes", "part"),
    [
        pytest.param("activityTaskCompletedEventAttributes", "result", id="of a step"),
        pytest.param(
            "workflowExecutionStartedEventAttributes",
            "input",
            id="of the start",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_a_lost_value_is_told_and_the_run_goes_on_from_before_it_or_with_it(
    site: Installation, holding: Holding, attributes: str, part: str
) -> None:
    run = await _paused(site, holding)
    blob = (await _kept(site, run, attributes, part))[0]
    content = await _lose(site, blob)
    async with site.worker():
        await site.handle(run).signal("resume")
        await eventually(lambda: _told(site, run, blob))
        if part == "input":
            before = len(await site.history(run))
            with pytest.raises(NotAllowed) as refused:
                await site.gateway.repair(run)
            assert blob in refused.value.message
            assert f"perdure fork {run}" in refused.value.cure
            assert len(await site.history(run)) >= before, "nothing was taken back"
            await site.parts.stores.blobs.put(content)
        else:
            repaired = await site.gateway.repair(run)
            assert repaired.sent_again == 1
        result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "Nothing is there.")


@pytest.mark.long
async def test_a_step_whose_own_input_is_lost_ends_and_names_it(
    site: Installation, holding: Holding
) -> None:
    """Its next attempt would not find it either: the run ends with a word on what is missing."""
    async with site.worker():
        run = await site.start(agent_runs.task(), {"replies": REPLIES})
        await holding.begun()
        kept = await _kept(site, run, "activityTaskScheduledEventAttributes", "input")
    content = await _lose(site, kept[-1])
    holding.release()
    async with site.worker():
        result = await site.gateway.result(run)
        assert result.outcome == "failed"
        assert kept[-1] in (result.error or ""), result
        await site.parts.stores.blobs.put(content)
        assert (await site.run(agent_runs.task(), {"replies": REPLIES[2:]})).outcome == "accepted"
