"""How many runs wait for a build that nobody serves, as monitoring asks it."""

from typing import cast

import pytest

from perdure.domain.foundation.errors import NotFound, PerdureError, ServiceUnavailable
from perdure.domain.installation.deployment import Build, Deployment
from perdure.domain.ports import RecordStore
from perdure.gateway.deployments import Deployments
from perdure.gateway.server_load import LoadReader
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.worker_probe import Backlog

NEW = Build(id="2", status="current", workers=1, runs=5)
OLD = Build(id="1", status="draining", runs=3)
OLDER = Build(id="0", status="drained")


class Server:
    """A server on which nothing waits."""

    async def count(self, query: str) -> int:
        assert "TaskQueue" in query
        return 0

    async def backlog(self, queue: str, *, workflows: bool = False) -> Backlog:
        del queue, workflows
        return Backlog(tasks=0, age_s=0.0, pollers=frozenset())


class Records:
    """An installation without folders."""

    async def installation(self) -> str:
        return "i"

    async def workspace_uses(self) -> list[object]:
        return []


class Versions:
    """What `perdure deploy status` would say."""

    def __init__(self, found: tuple[Build, ...] | PerdureError) -> None:
        self._found = found

    async def status(self) -> Deployment:
        if isinstance(self._found, PerdureError):
            raise self._found
        return Deployment(name="d", own="2", builds=self._found)


@pytest.mark.parametrize(
    ("found", "stranded"),
    [
        ((NEW, OLD, OLDER), 3),
        ((NEW, OLDER), 0),
        (NotFound("No worker has registered.", cure="Start one."), None),
        (ServiceUnavailable("The server keeps no versions.", cure="Upgrade."), None),
        (None, None),
    ],
    ids=["stranded", "served", "no worker ever", "no versions", "no deployment"],
)
async def test_runs_without_a_worker_of_their_build_are_counted(
    found: tuple[Build, ...] | PerdureError | None, stranded: int | None
) -> None:
    reader = LoadReader(
        server=cast("TemporalGateway", Server()),
        records=cast("RecordStore", Records()),
        deployments=None if found is None else cast("Deployments", Versions(found)),
    )
    assert (await reader.read()).stranded == stranded
