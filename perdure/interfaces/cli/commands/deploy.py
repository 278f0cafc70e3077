"""Versions of the workers on the command line."""

import asyncio
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from perdure.domain.foundation.errors import NotFound
from perdure.domain.installation.deployment import Build, Deployment, Drained
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, line, stack, table
from perdure.interfaces.deployments import DeploymentGateway, advice, runs
from perdure.interfaces.formatting import ago

LOOK_S = 2.0
BuildName = Annotated[str, Parameter(name="BUILD")]
deploy_app = App(
    name="deploy",
    help="Roll versions of the workers side by side, each run pinned to one.",
    version_flags=(),
)

_STYLES = {
    **{"current": GOOD, "ramping": WARN, "draining": WARN, "deleted": WARN},
    **{"drained": DIM, "inactive": DIM},
}


@deploy_app.default
@deploy_app.command
async def status(*, session: Given) -> None:
    """Show the builds of the deployment with their workers and open runs."""
    async with session.connected() as services:
        _show(session, await services.deployments().status())


@deploy_app.command
async def promote(
    build: Annotated[str | None, Parameter(name="BUILD")] = None, /, *, session: Given
) -> None:
    """Let a build begin all new runs; open runs move to it when they continue as new.

    Args:
        build: Its id or a unique beginning of one. Default: the build of this code.
    """
    async with session.connected() as services:
        _show(session, await services.deployments().promote(build))


@deploy_app.command
async def ramp(build: BuildName, percent: float, /, *, session: Given) -> None:
    """Let a build begin a part of the new runs.

    Args:
        build: Its id or a unique beginning of one.
        percent: The part, 0 to 100. 0 ends the ramp.
    """
    async with session.connected() as services:
        _show(session, await services.deployments().ramp(build, percent))


@deploy_app.command
async def drain(
    build: BuildName, /, *, move: bool = False, wait: bool = False, session: Given
) -> None:
    """Show which runs still need a build that was replaced.

    Args:
        build: Its id or a unique beginning of one.
        move: Let its runs go on in the current build now, for instance because its workers are
            gone. A run moves only if this code replays its history.
        wait: Wait until no run needs the build.
    """
    async with session.connected() as services:
        gateway = services.deployments()
        drained = await gateway.drain(build, move=move)
        # A run that could not be moved would keep this waiting for ever.
        if wait and not drained.stays:
            drained = await _wait_until_drained(session, gateway, drained)
        session.output.show(drained_view(drained), {"type": "drained", **drained.model_dump()})


async def _wait_until_drained(
    session: Session, gateway: DeploymentGateway, begun: Drained
) -> Drained:
    """Wait until no run is left on the build; return it with the runs moved at the start."""
    now = begun
    with session.output.working("waiting") as progress:
        while now.build.runs:
            progress(f"{runs(now.build)} left")
            await asyncio.sleep(LOOK_S)
            try:
                now = await gateway.drain(begun.build.id)
            except NotFound:
                # A deleted build is known by its runs alone, and the last one has left it.
                now = Drained(build=now.build.model_copy(update={"runs": 0}))
    return now.model_copy(update={"moved": begun.moved})


def _show(session: Session, deployment: Deployment) -> None:
    data = {"type": "deployment", **deployment.model_dump(mode="json")}
    session.output.show(deployment_view(deployment, session.context.now()), data)


def deployment_view(deployment: Deployment, now: datetime) -> RenderableType:
    """One row for each build, newest first, then what should be done."""
    rows = [
        (
            build.id + (" (this code)" if build.id == deployment.own else ""),
            Text(_status(build), style=_STYLES[build.status]),
            ago(build.since, now) if build.since else "",
            f"{build.workers}",
            f"{build.runs}",
        )
        for build in deployment.builds
    ]
    return stack(
        line(f"deployment {deployment.name}"),
        table(
            ("build", "status", "since", "workers", "runs"),
            rows,
            right=("workers", "runs"),
            whole=("build",),
        ),
        *(line(("! ", WARN), told) for told in advice(deployment)),
    )


def drained_view(drained: Drained) -> RenderableType:
    """What became of the runs of a build, and whether its workers may end."""
    build = drained.build
    stays = [line(("! ", WARN), f"{run} stays: {why}") for run, why in drained.stays.items()]
    moved = line(("✓ ", GOOD), f"moved {len(drained.moved)}") if drained.moved else None
    if build.runs:
        left = line(f"{build.id}: {runs(build)} left on {build.workers} workers")
    elif build.status == "drained":
        left = line(("✓ ", GOOD), f"{build.id} is drained; its workers end by themselves")
    elif build.status == "deleted":
        left = line(("✓ ", GOOD), f"{build.id} is deleted, and no run is left")
    else:
        left = line(f"{build.id}: no run left; the server says drained a few minutes later")
    return stack(moved, *stays, left)


def _status(build: Build) -> str:
    return f"{build.status} {build.percent:g} %" if build.status == "ramping" else build.status
