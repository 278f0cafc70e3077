"""Versions of the workers side by side: the builds of a deployment, and what may end."""

from datetime import datetime
from typing import Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import fitting

BuildStatus = Literal["inactive", "current", "ramping", "draining", "drained", "deleted"]

Standing = Literal["alike", "older", "newer", "apart"]


class Build(FrozenModel):
    """One version of the workers, as the server knows it.

    Args:
        id: package version and digest of the workflow code.
        status: `current` begins new runs; `ramping` a part of them; `draining` still has runs
            that are pinned to it; `inactive` was never used; `deleted` is no longer kept by the
            server, and runs that are pinned to it wait.
        since: when it got that status.
        workers: how many fetch tasks of runs now.
        runs: open runs that are pinned to it.
        percent: the part of new runs that a ramping build begins.
    """

    id: str
    status: BuildStatus
    since: datetime | None = None
    workers: int = 0
    runs: int = 0
    percent: float = 0.0

    @property
    def stranded(self) -> bool:
        """Whether runs wait for workers that are not there."""
        return self.runs > 0 and self.workers == 0

    @property
    def idle(self) -> bool:
        """Whether its workers may end: nothing new comes, and no run is left."""
        return self.status in {"drained", "inactive"} and self.runs == 0 and self.workers > 0


class Deployment(FrozenModel):
    """A deployment with its builds, the newest first; `own` is the build of this code."""

    name: str
    own: str
    builds: tuple[Build, ...] = ()

    def build(self, id: str) -> Build | None:
        """The build of an id, or of a unique beginning of one."""
        ids = fitting(id, [build.id for build in self.builds])
        found = [build for build in self.builds if build.id in ids]
        return found[0] if len(found) == 1 else None

    @property
    def current(self) -> Build | None:
        """The build that begins new runs."""
        return next((build for build in self.builds if build.status == "current"), None)

    @property
    def stranded(self) -> tuple[Build, ...]:
        """Builds whose runs have no workers."""
        return tuple(build for build in self.builds if build.stranded)


class Drained(FrozenModel):
    """What became of a build that is to end.

    Args:
        build: as it stands now.
        moved: runs that go on in the current build from their next task on.
        stays: runs that the current code does not replay, each with why.
    """

    build: Build
    moved: tuple[str, ...] = ()
    stays: dict[str, str] = {}


def standing(worker: str, client: str) -> Standing:
    """How a worker's version stands to that of the client that starts a run.

    Within one minor version either side leaves out what it does not know of the other. Versions
    that cannot be read count as alike.
    """
    theirs, ours = _minor(worker), _minor(client)
    if theirs is None or ours is None or theirs == ours:
        return "alike"
    if theirs[0] != ours[0] or abs(theirs[1] - ours[1]) > 1:
        return "apart"
    return "older" if theirs < ours else "newer"


def _minor(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])
