"""Checks of `doctor` on the Temporal server: fairness, clocks, versions of workers, retention."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import stores_of
from perdure.domain.foundation.errors import NotFound, PerdureError, ServiceUnavailable
from perdure.domain.foundation.names import loops_queue
from perdure.domain.installation.deployment import Deployment
from perdure.domain.retention.erasure import Pending
from perdure.gateway.clock_difference import server_ahead
from perdure.gateway.types import UpkeepOutcome, UpkeepSchedule, worker_command
from perdure.gateway.worker_probe import server_version
from perdure.interfaces.app_context import Connect
from perdure.interfaces.deployments import DeploymentGateway, advice
from perdure.interfaces.formatting import duration, one_line, plural
from perdure.interfaces.services import Check
from perdure.operations.clocks import CURE, SERVER, STORE, differences, named, store_ahead
from perdure.operations.doctor_checks import is_new, own_server

FAIRNESS, CLOCKS = "fairness", "clocks"
APART_S = 2.0
CLOUD = (".tmprl.cloud", ".api.temporal.io")

DEPLOYMENT = "deployment"
UNNAMED = "PERDURE_DEPLOYMENT is not set: workers take all runs that are pinned to no version"
EMBEDDED = "embedded services serve one version at a time"
LOOK = "`perdure deploy status` shows all builds."

RETENTION = "retention"
ERASURE = "erasure"
JOURNAL = "journal"
ERROR_CHARACTERS = 400


async def fairness(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether tenants share the workers; if the server does not say, what decides it."""
    if settings.temporal.address is None:
        found = "the embedded server gives each tenant its part of the workers"
        yield Check(name=FAIRNESS, state="ok", found=found)
        return
    with suppress(ServiceUnavailable):  # another check reports an absent server
        _, client = await own_server(settings, connect)
        host = settings.temporal.address.rpartition(":")[0]
        yield unsaid(host, await server_version(client))


def unsaid(host: str, version: str) -> Check:
    """The finding on a server that does not say whether fairness is on."""
    if host.endswith(CLOUD):
        decides = "unless it is switched on in the settings of the namespace"
    else:
        decides = f"unless server {version} has `matching.enableFairness: true`"
    # Not a warning: fairness may be on, and nobody could make the warning go away.
    found = f"cannot be told from here; {decides}, `metadata.tenant` and labels order nothing"
    return Check(name=FAIRNESS, state="ok", found=found)


async def clocks(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """How far the clock of this host is from those of the database and of the server."""
    apart: dict[str, float] = {}
    if settings.shares_a_database and not is_new(settings):
        async with stores_of(settings) as stores:
            apart |= named(STORE, await store_ahead(stores.database))
    with suppress(ServiceUnavailable):
        own, client = await own_server(settings, connect)
        apart |= named(SERVER, await server_ahead(client, loops_queue(own), now=utc_now))
    yield compared(apart)


def compared(apart: Mapping[str, float]) -> Check:
    """The finding on measured differences between clocks."""
    wrong = differences(apart, above_s=APART_S)
    if wrong:
        return Check(
            name=CLOCKS,
            state="warning",
            found=", ".join(wrong),
            cure=CURE,
        )
    if not apart:
        found = "nothing to compare with: no database or server of another host was asked"
        return Check(name=CLOCKS, state="ok", found=found)
    names = " and ".join(apart)
    found = f"that of this host goes with {names}, to {APART_S:g} s"
    return Check(name=CLOCKS, state="ok", found=found)


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


async def retention(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether collections apply the retention rules, how they went, and unfinished erasures.

    Without rules and schedule, there is nothing to report.
    """
    with suppress(ServiceUnavailable):  # another check reports an absent server
        async with connect(start=False, on_progress=lambda _: None) as services:
            if (check := erasing(await services.erasure().pending())) is not None:
                yield check
            if settings.journal_days:
                told = (
                    f"calls of runs that are gone are added up after {settings.journal_days} days"
                )
                yield Check(name=JOURNAL, state="ok", found=told)
            collections = services.gateway.upkeep("collection")
            stands = await collections.state()
            if stands is not None and stands.every_s is not None:
                yield collecting(stands, await collections.outcome())
            elif settings.retention or settings.journal_days:
                yield Check(
                    name=RETENTION,
                    state="warning",
                    found="there are rules, and no collection is scheduled that applies them",
                    cure="Schedule one: perdure gc --every 24h",
                )


def erasing(left: Pending) -> Check | None:
    """The finding on erasures that were begun and are not complete."""
    told, cures = list[str](), list[str]()
    if left.roots:
        told.append(
            f"{plural(len(left.roots), 'erasure')} not complete, the first, {left.roots[0]}, asked "
            f"for at {_moment(left.since)}"
        )
        cures.append("Go on with them: perdure erase --resume --yes")
    if left.blobs:
        told.append(
            f"{plural(left.blobs, 'blob')} of erased runs wait for a collection since "
            f"{_moment(left.blobs_since)}"
        )
        cures.append("Collect an hour after the erasure: perdure gc")
    if not told:
        return None
    return Check(name=ERASURE, state="warning", found="; ".join(told), cure=". ".join(cures))


def collecting(stands: UpkeepSchedule, went: UpkeepOutcome) -> Check:
    """The finding on a schedule of collections and the newest of them."""
    every_s = stands.every_s or 0.0
    told, cures = f"garbage is collected every {duration(every_s)}", list[str]()
    if stands.paused:
        told = f"the collection of garbage every {duration(every_s)} is paused"
        cures.append(f"Let it go on: perdure gc --every {round(every_s)}s")
    if went.failed is not None:
        how = "fails again and again" if went.open else "failed"
        told += f"; the last one, {went.failed}, {how}: {one_line(went.why, ERROR_CHARACTERS)}"
        cures.append(
            "See all of it with `temporal workflow show --workflow-id "
            f"{went.failed}`, and once that is mended: perdure gc"
        )
    elif went.unfetched:
        told += f"; no worker takes the one that began at {_moment(went.began_at)}"
        cures.append(f"Start one with {worker_command(None)}.")
    elif went.open:
        told += f"; one is at work since {_moment(went.began_at)}"
    told += f"; {_success(stands, went)}"
    state = "failed" if went.failed is not None else "warning" if cures else "ok"
    return Check(name=RETENTION, state=state, found=told, cure=" ".join(cures))


def _success(stands: UpkeepSchedule, went: UpkeepOutcome) -> str:
    if went.succeeded_at is not None:
        return f"the last success was at {_moment(went.succeeded_at)}"
    if not stands.looks:
        return "none was due so far"
    return "the server knows of no success"


def _moment(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
