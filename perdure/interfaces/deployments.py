"""Versions of the workers as interfaces reach them, and advice on them."""

from collections.abc import Mapping
from typing import Protocol

from perdure.domain.installation.deployment import Build, Deployment, Drained


class DeploymentGateway(Protocol):
    """The worker deployment; see `gateway.deployments.Deployments`."""

    async def status(self) -> Deployment: ...
    async def elsewhere(self) -> Mapping[str, int]: ...
    async def serving(self) -> str | None: ...
    async def promote(self, build: str | None = None) -> Deployment: ...
    async def ramp(self, build: str, percent: float) -> Deployment: ...
    async def drain(self, build: str, *, move: bool = False) -> Drained: ...


def advice(deployment: Deployment) -> tuple[str, ...]:
    """What should be done, each with its command; empty if all is well."""
    told: list[str] = []
    if deployment.current is None:
        told.append(
            "No build is current: nothing new begins. `perdure deploy promote BUILD` chooses one."
        )
    elif deployment.current.workers == 0:
        told.append(
            f"The current build {deployment.current.id} has no workers: start one of that version, "
            "or `perdure deploy promote` another."
        )
    for build in deployment.stranded:
        if build.status != "current":
            gone = "it was deleted at the server" if build.status == "deleted" else "there are none"
            told.append(
                f"{runs(build)} of {build.id} wait for its workers, and {gone}: start one, "
                f"or `perdure deploy drain {build.id} --move`."
            )
    told += [f"The workers of {build.id} may end: no run needs it." for build in ended(deployment)]
    return tuple(told)


def ended(deployment: Deployment) -> tuple[Build, ...]:
    """Replaced builds whose workers nothing needs any more."""
    return tuple(one for one in deployment.builds if one.status == "drained" and one.idle)


def runs(build: Build) -> str:
    """How many runs are pinned to a build, in words."""
    return "1 run" if build.runs == 1 else f"{build.runs} runs"
