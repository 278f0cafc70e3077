"""The check of `doctor` on worker versions."""

from collections.abc import AsyncIterator, Iterator, Mapping

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotFound, PerdureError, ServiceUnavailable
from perdure.domain.installation.deployment import Deployment
from perdure.interfaces.app_context import Connect
from perdure.interfaces.deployments import DeploymentGateway, advice
from perdure.interfaces.services import Check

DEPLOYMENT = "deployment"
UNNAMED = "PERDURE_DEPLOYMENT is not set: workers take all runs that are pinned to no version"
EMBEDDED = "embedded services serve one version at a time"
LOOK = "`perdure deploy status` shows all builds."


async def deployment(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether a build begins new runs, and whether every open run has workers of its build."""
    name = settings.deployment
    if settings.temporal.address is None:
        found = UNNAMED if name is None else f"{name} is set, and {EMBEDDED}"
        yield Check(name=DEPLOYMENT, state="ok", found=found)
        return
    try:
        async with connect(start=False, on_progress=lambda _: None) as services:
            checks = await _stands(services.deployments(), name)
    except PerdureError as error:
        checks = _unseen(error, name)
    for check in checks:
        yield check


async def _stands(deployments: DeploymentGateway, name: str | None) -> list[Check]:
    """What the server says of the deployment that is set, and of others with runs of ours."""
    checks = list[Check]()
    serving = await deployments.serving()
    if serving is not None and serving != name:
        checks.append(_served_by(serving, name))
    elif name is None:
        checks.append(Check(name=DEPLOYMENT, state="ok", found=UNNAMED))
    checks += _elsewhere(await deployments.elsewhere(), name)
    if name is None:
        return checks
    try:
        return [*checks, *_builds(await deployments.status())]
    except NotFound as error:
        return [*checks, *_unseen(error, name)]


def _builds(stands: Deployment) -> Iterator[Check]:
    """What is to be done with builds of the deployment, and which one is current."""
    for told in advice(stands):
        yield Check(name=DEPLOYMENT, state="warning", found=told, cure=LOOK)
    if stands.current is not None:
        found = f"{stands.name}: {stands.current.id} is current, {len(stands.builds)} builds"
        yield Check(name=DEPLOYMENT, state="ok", found=found)


def _unseen(error: PerdureError, name: str | None) -> list[Check]:
    """What is said where the server cannot be asked; raises what other checks do not tell."""
    if name is None:
        # Nothing depends on the answer, and other checks tell of the cause.
        return [Check(name=DEPLOYMENT, state="ok", found=UNNAMED)]
    if not isinstance(error, ServiceUnavailable | NotFound):
        raise error
    return [Check(name=DEPLOYMENT, state="warning", found=error.message, cure=error.cure)]


def _here(name: str | None) -> str:
    return "PERDURE_DEPLOYMENT is not set" if name is None else f"PERDURE_DEPLOYMENT is {name}"


def _served_by(other: str, name: str | None) -> Check:
    """A warning that the server gives runs to the workers of another deployment alone."""
    if name is None:
        cure = (
            f"Set PERDURE_DEPLOYMENT={other}, also for workers. To go on without versions: "
            "`temporal worker deployment set-current-version --unversioned "
            f"--deployment-name {other}`."
        )
    else:
        cure = f"Set PERDURE_DEPLOYMENT={other}, or `perdure deploy promote` a build of {name}."
    return Check(
        name=DEPLOYMENT,
        state="warning",
        found=f"the server gives new work to the deployment {other} alone, and here {_here(name)}",
        cure=cure,
    )


def _elsewhere(runs: Mapping[str, int], name: str | None) -> Iterator[Check]:
    """A warning for each deployment that has runs and is not the one that is set here."""
    for other, count in runs.items():
        pinned = "1 open run is" if count == 1 else f"{count} open runs are"
        yield Check(
            name=DEPLOYMENT,
            state="warning",
            found=f"{pinned} pinned to builds of the deployment {other}, and here {_here(name)}",
            cure=f"Start workers with PERDURE_DEPLOYMENT={other}; `PERDURE_DEPLOYMENT={other} "
            "perdure deploy status` shows what waits.",
        )
