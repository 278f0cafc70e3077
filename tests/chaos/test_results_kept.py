"""A tool that must not be done twice has run, and the store is away when its result is there."""

from ground import Ground
from provider import Play
from waiting import eventually

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
