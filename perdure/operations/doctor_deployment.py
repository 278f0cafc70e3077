"""The check of `doctor` on worker versions."""

from collections.abc import AsyncIterator

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotFound, ServiceUnavailable
from perdure.interfaces.app_context import Connect
from perdure.interfaces.deployments import advice
from perdure.interfaces.services import Check

DEPLOYMENT = "deployment"
LOOK = "`perdure deploy status` shows all builds."


async def deployment(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether a build begins new runs, and whether every open run has workers of its build."""
    if settings.deployment is None:
        found = "PERDURE_DEPLOYMENT is not set: any worker takes any run"
        yield Check(name=DEPLOYMENT, state="ok", found=found)
        return
    if settings.temporal.address is None:
        found = f"{settings.deployment} is set, and embedded services serve one version at a time"
        yield Check(name=DEPLOYMENT, state="ok", found=found)
        return
    try:
        async with connect(start=False, on_progress=lambda _: None) as services:
            stands = await services.deployments().status()
    except (ServiceUnavailable, NotFound) as error:
        yield Check(name=DEPLOYMENT, state="warning", found=error.message, cure=error.cure)
        return
    for told in advice(stands):
        yield Check(name=DEPLOYMENT, state="warning", found=told, cure=LOOK)
    if stands.current is not None:
        found = f"{stands.name}: {stands.current.id} is current, {len(stands.builds)} builds"
        yield Check(name=DEPLOYMENT, state="ok", found=found)
