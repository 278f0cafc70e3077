"""The check of `doctor` on worker versions."""

from collections.abc import AsyncIterator, Iterator, Mapping

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotFound, ServiceUnavailable
from perdure.interfaces.app_context import Connect
from perdure.interfaces.deployments import advice
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
    stands = None
    try:
        async with connect(start=False, on_progress=lambda _: None) as services:
            for check in _elsewhere(await services.deployments().elsewhere(), name):
                yield check
            if name is not None:
                stands = await services.deployments().status()
    except (ServiceUnavailable, NotFound) as error:
        # Without a deployment nothing depends on the answer, and other checks tell of the server.
        if name is not None:
            yield Check(name=DEPLOYMENT, state="warning", found=error.message, cure=error.cure)
            return
    if stands is None:
        yield Check(name=DEPLOYMENT, state="ok", found=UNNAMED)
        return
    for told in advice(stands):
        yield Check(name=DEPLOYMENT, state="warning", found=told, cure=LOOK)
    if stands.current is not None:
        found = f"{stands.name}: {stands.current.id} is current, {len(stands.builds)} builds"
        yield Check(name=DEPLOYMENT, state="ok", found=found)


def _elsewhere(runs: Mapping[str, int], name: str | None) -> Iterator[Check]:
    """A warning for each deployment that has runs and is not the one that is set here."""
    own = "PERDURE_DEPLOYMENT is not set" if name is None else f"PERDURE_DEPLOYMENT is {name}"
    for other, count in runs.items():
        pinned = "1 open run is" if count == 1 else f"{count} open runs are"
        yield Check(
            name=DEPLOYMENT,
            state="warning",
            found=f"{pinned} pinned to builds of the deployment {other}, and here {own}",
            cure=f"Start workers with PERDURE_DEPLOYMENT={other}; `PERDURE_DEPLOYMENT={other} "
            "perdure deploy status` shows what waits.",
        )
