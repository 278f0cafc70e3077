"""A tool that must not be done twice has run, and the store is away when its result is there."""

import pytest
from ground import Ground
from provider import Play
from waiting import eventually

from perdure.adapters.stores.blobs import VerifiedBlobStore
from perdure.domain.foundation.errors import StoreError
from perdure.domain.foundation.refs import BlobRef

WORD = "a" * 400_000  # more than the database file has room for


def turns() -> list[Play]:
    return [
        Play(text="", calls=[("effect.once", {"word": WORD, "seconds": 60})]),
        Play(text="done"),
    ]


async def waits(ground: Ground, run: str) -> bool:
    """Whether a step of the run says that it waits for its store."""
    described = await ground.site.handle(run).describe()
    return any(
        b"waits" in payload.data
        for step in described.raw_description.pending_activities
        for payload in step.heartbeat_details.payloads
    )


@pytest.mark.long
async def test_a_result_in_hand_is_stored_once_the_store_is_back(chaos: Ground) -> None:
    chaos.provider.plays = turns()
    disk_full = chaos.site.settings.home / "full"
    environment = {
        **chaos.environment(),
        "PERDURE_PLUGINS": "ledger_tools,full_disk",
        "FULL_DISK": str(disk_full),
    }
    async with chaos.site.worker_process(**environment):
        run = await chaos.start()
        await chaos.effected(1)
        disk_full.touch()
        chaos.go()
        await eventually(lambda: waits(chaos, run))
        disk_full.unlink()
        result = await chaos.check(run)
    assert [call.outcome for call in result.iterations[0].calls] == ["ok"]
    assert len(chaos.effects.read_text().splitlines()) == 1, "it was done once"
    assert "is uncertain" not in str(chaos.provider.bodies[-1]["messages"])


@pytest.mark.long
async def test_a_result_that_goes_with_its_worker_leaves_the_effect_uncertain(
    chaos: Ground,
) -> None:
    """The store does not come back before the worker's grace is over."""
    chaos.provider.plays = turns()
    disk_full = chaos.site.settings.home / "full"
    environment = {
        **chaos.environment(),
        "PERDURE_PLUGINS": "ledger_tools,full_disk",
        "PERDURE_SHUTDOWN_GRACE_S": "0",
        "FULL_DISK": str(disk_full),
    }
    async with chaos.site.worker_process(**environment) as process:
        run = await chaos.start()
        await chaos.effected(1)
        disk_full.touch()
        chaos.go()
        await eventually(lambda: waits(chaos, run))
        await process.terminate()
        disk_full.unlink()
        await process.start()
        result = await chaos.check(run, kills=1)
    told_as_uncertain(chaos, [call.outcome for call in result.iterations[0].calls])


async def test_a_result_that_the_store_refuses_leaves_the_effect_uncertain(
    chaos: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos.provider.plays = turns()
    put = VerifiedBlobStore.put_text

    async def refuses(self: VerifiedBlobStore, text: str) -> BlobRef:
        if text == f"did {WORD}":
            raise StoreError("the database is damaged")
        return await put(self, text)

    monkeypatch.setattr(VerifiedBlobStore, "put_text", refuses)
    chaos.go()
    async with chaos.site.worker():
        run = await chaos.start()
        result = await chaos.check(run)
    told_as_uncertain(chaos, [call.outcome for call in result.iterations[0].calls])


def told_as_uncertain(chaos: Ground, outcomes: list[str | None]) -> None:
    """Done once, and the model is told to look before it does it again; never of an error."""
    assert outcomes == ["effect_uncertain"]
    assert len(chaos.effects.read_text().splitlines()) == 1
    assert "Its effect is uncertain" in str(chaos.provider.bodies[-1]["messages"])
