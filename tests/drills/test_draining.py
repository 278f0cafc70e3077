"""A deploy while calls are in flight: the worker finishes them, and nothing is paid for twice."""

from pathlib import Path

import pytest
from ground import Ground
from provider import Play
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.domain.ports import Endpoints
from perdure.local_services.service_commands import worker_environment


@pytest.mark.parametrize(
    ("given", "grace", "embedded"),
    [({}, 120, "10"), ({"shutdown_grace_s": 60}, 60, "60"), ({"shutdown_grace_s": 3}, 3, "3")],
    ids=["default", "longer", "shorter"],
)
def test_a_worker_drains_for_longer_than_a_call_takes(
    tmp_path: Path, given: dict[str, object], grace: float, embedded: str
) -> None:
    settings = Settings.load(home=tmp_path, **given)
    here = Endpoints(temporal_address="127.0.0.1:1", namespace="default", home=str(tmp_path))
    assert settings.shutdown_grace_s == grace
    assert worker_environment(settings, here)["PERDURE_SHUTDOWN_GRACE_S"] == embedded


@pytest.mark.slow
async def test_calls_in_flight_at_a_deploy_are_paid_for_once(drill: Ground) -> None:
    drill.provider.plays = [Play(text="done", delay_s=12)]
    longer = {**drill.environment(), "PERDURE_SHUTDOWN_GRACE_S": "120"}
    async with (
        drill.site.worker_process(**longer) as old,
        drill.site.worker_process(**drill.environment()),
    ):
        runs = [await drill.start(goal=f"look {n}") for n in range(6)]
        await drill.billed(6)
        await old.terminate()
        for run in runs:
            await drill.site.gateway.result(run)
    # The new worker answered its share; what the old one had taken was finished there.
    assert len(drill.provider.lines()) == 6


@pytest.mark.long
async def test_a_second_signal_ends_a_worker_at_once(drill: Ground) -> None:
    drill.provider.plays = [[Play(text="first", gate="never"), Play(text="second")]]
    longer = {**drill.environment(), "PERDURE_SHUTDOWN_GRACE_S": "3600"}
    async with drill.site.worker_process(**longer) as process:
        run = await drill.start()
        await drill.billed(1)
        process.ask_to_end()
        log = drill.site.home / "worker.log"
        await eventually(lambda: "worker_drains" in log.read_text())
        process.ask_to_end()
        await process.gone()
        await process.start()
        assert (await drill.check(run, kills=1)).output == "second"
