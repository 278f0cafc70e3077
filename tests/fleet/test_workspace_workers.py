"""A worker serves the folders that are used: their queues are polled, and given up in time."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from holding import HELD, Holding
from installation import Installation
from temporalio.worker import Worker
from waiting import eventually

from perdure.domain.installation import workspace_use
from perdure.fleet import fleet
from perdure.fleet.workspace_workers import WorkspaceWorkers

ANSWERS = {"replies": [{"text": "done"}]}
HOLDS = {"replies": [{"text": "done", "delay_s": HELD}]}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[WorkspaceWorkers]:
    """The workspace workers of each worker that the test starts."""
    made: list[WorkspaceWorkers] = []

    class Kept(WorkspaceWorkers):
        def __init__(self, make: Callable[[str, str], Worker]) -> None:
            super().__init__(make)
            made.append(self)

    monkeypatch.setattr(fleet, "WorkspaceWorkers", Kept)
    monkeypatch.setattr(fleet, "REGISTRY_POLL_S", 0.05)
    return made


async def test_a_folder_is_served_for_its_runs_retired_and_served_again(
    bare: Installation,
    tmp_path: Path,
    kept: list[WorkspaceWorkers],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holding = Holding()
    holding.install(monkeypatch)
    folder = tmp_path / "work"
    folder.mkdir()
    spec = {"kind": "agent", "goal": "look", "workspace": str(folder), "learn": False}
    async with bare.worker():
        run = await bare.start(spec, HOLDS)
        await holding.begun()
        (folders,) = kept
        assert len(folders.served) == 1
        with monkeypatch.context() as unused:
            unused.setattr(workspace_use, "UNUSED_AFTER", timedelta(0))
            polls = _polls(unused)
            await eventually(lambda: polls() > 2)
            assert len(folders.served) == 1, "an open run keeps its folder served"
            holding.release()
            assert (await bare.gateway.result(run)).output == "done"
            await eventually(lambda: not folders.served)
        assert (await bare.run(spec, ANSWERS)).output == "done", "it is served again"


async def test_a_folder_that_is_gone_is_not_served(
    bare: Installation, tmp_path: Path, kept: list[WorkspaceWorkers]
) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"
    for folder in (there, gone):
        folder.mkdir()
        await bare.parts.stores.records.workspace(str(folder))
    async with bare.worker():
        (folders,) = kept
        assert len(folders.served) == 2
        shutil.rmtree(gone)
        await eventually(lambda: len(folders.served) == 1)
        gone.mkdir()
        await eventually(lambda: len(folders.served) == 2)


def _polls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count how often the worker looks at what is used."""
    looks = 0
    real = fleet.served

    def counted(*uses: object, **facts: object) -> dict[str, str]:
        nonlocal looks
        looks += 1
        return real(*uses, **facts)  # type: ignore[arg-type]

    monkeypatch.setattr(fleet, "served", counted)
    return lambda: looks
