"""A worker of a drained build stays while an open run is pinned to it."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from perdure.fleet import worker_deployment
from perdure.fleet.worker_deployment import OwnBuild


class Server:
    """Tells one status of the build after another, and how many open runs are pinned to it."""

    def __init__(self, build: str, statuses: Sequence[str], runs: Sequence[int]) -> None:
        self.identity = "w1"
        self.queries: list[str] = []
        self._build = build
        self._statuses = list(statuses)
        self._runs = list(runs)

    async def describe(self, _client: object, _name: str) -> object:
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        return SimpleNamespace(builds=(SimpleNamespace(id=self._build, status=status),))

    async def count_workflows(self, query: str) -> object:
        self.queries.append(query)
        return SimpleNamespace(count=self._runs.pop(0))


@pytest.mark.parametrize(
    ("statuses", "runs", "asked"),
    [
        (("current", "draining", "drained"), (0,), 1),
        (("current", "drained"), (1, 1, 0), 3),
        (("drained", "current", "drained"), (0,), 1),
    ],
    ids=["no run", "a run that is paused at the server", "started for a rollback"],
)
async def test_a_build_ends_once_it_is_drained_and_no_open_run_is_pinned_to_it(
    monkeypatch: pytest.MonkeyPatch, statuses: Sequence[str], runs: Sequence[int], asked: int
) -> None:
    monkeypatch.setattr(worker_deployment, "LOOK_S", 0)
    build = OwnBuild(SimpleNamespace(), "ours")  # type: ignore[arg-type]
    server = Server(build.id, statuses, runs)
    monkeypatch.setattr(worker_deployment.deployment_calls, "describe", server.describe)
    build._client = server  # type: ignore[assignment]
    await asyncio.wait_for(build.wait_until_drained(), 30)
    assert len(server.queries) == asked
    assert all("'Paused'" in query and f"'ours:{build.id}'" in query for query in server.queries)
