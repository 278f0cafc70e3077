"""Random verbs of several clients to runs of all kinds, with kills and stalls: invariants hold."""

from pathlib import Path

import pytest
from ground import FAST, ground
from random_steering import Steering
from temporalio.testing import WorkflowEnvironment

ALWAYS, OFTEN = 1, 40
SEEDED = [(1, OFTEN, False), (2, OFTEN, True), (3, ALWAYS, False), (4, ALWAYS, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "roll_events", "faults"), SEEDED)
async def test_runs_survive_random_steering(
    server: WorkflowEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    roll_events: int,
    faults: bool,
) -> None:
    """With `faults` the worker is killed and the store stands still, again and again."""
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    timing = FAST.model_copy(update={"roll_events": roll_events})
    address = server.client.service_client.config.target_host
    async with ground(tmp_path, address, timing=timing) as made, made.process() as worker:
        steering = Steering(made, worker, seed=seed)
        await steering.start(12)
        await steering.steer(20.0, faults=faults)
        await steering.calm(90.0)
        wrong = await steering.verify()
    assert not wrong, f"seed {seed}: " + "\n".join(wrong)
