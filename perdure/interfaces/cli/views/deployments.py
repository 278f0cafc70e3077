"""Views of the versions of the workers."""

from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.installation.deployment import Build, Deployment, Drained
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, line, stack, table
from perdure.interfaces.deployments import advice, runs
from perdure.interfaces.formatting import ago

_STYLES = {
    **{"current": GOOD, "ramping": WARN, "draining": WARN, "deleted": WARN},
    **{"drained": DIM, "inactive": DIM},
}


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
