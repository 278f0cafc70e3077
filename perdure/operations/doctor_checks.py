"""Checks of `doctor`: the installation's own store, disk and tokens, and its open runs."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.maintenance import try_writing
from perdure.adapters.stores.open_stores import DATABASE_FILE, stores_of
from perdure.adapters.stores.postgresql import REFUSED_LOGIN
from perdure.domain.evaluation.outcomes import Lifecycle
from perdure.domain.foundation.errors import NotFound, PerdureError, ServiceUnavailable, StoreAway
from perdure.domain.foundation.names import installation_of
from perdure.domain.installation.model_rates import queue_of_rate
from perdure.domain.run.status import RunStatus
from perdure.gateway.dispatch import found_and_cure
from perdure.gateway.server_pauses import PAUSED_THERE
from perdure.gateway.store_waits import WAITS_FOR_STORE
from perdure.gateway.types import FailingRuns, RunFilter
from perdure.gateway.worker_probe import polled, workflow_pollers
from perdure.interfaces.app_context import Connect
from perdure.interfaces.formatting import plural
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.schedule_words import trouble
from perdure.interfaces.services import Check
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.service_commands import has_api
from perdure.local_services.temporal_server import connect_named

STORES = "stores"
BLOBS = "blobs"
SCHEDULES = "schedules"
TASK_QUEUE_CHECK = "queue tasks"
MODEL_RATES = "model rates"
# In this order `_open_runs` lists them: what should move comes first.
OPEN_LIFECYCLES: tuple[Lifecycle, ...] = ("running", "waiting", "paused")
LOW_DISK_BYTES = 1024**3
WEEK = timedelta(days=7)
WAITING = "Runs wait for it and lose nothing; nothing has to be restarted when it is back."
OLD_LOGIN = (
    "A process keeps the login that it started with. If the password was changed, let the server "
    "take the old one until the workers have drained, or restart all workers and APIs with the "
    "new one: calls whose replies wait in them are then made again."
)


def disk(settings: Settings) -> Check:
    """Whether the disk of the home folder has room."""
    place = _existing(settings.home)
    free = shutil.disk_usage(place).free
    found = f"{free / 1024**3:.1f} GiB free at {place}"
    if free < LOW_DISK_BYTES:
        cure = "Make room, or run `perdure gc`."
        return Check(name="disk", state="warning", found=found, cure=cure)
    return Check(name="disk", state="ok", found=found)


def _existing(home: Path) -> Path:
    """The home folder, or the nearest folder above it that exists."""
    return next(place for place in (home, *home.parents) if place.exists())


def is_new(settings: Settings) -> bool:
    """Whether the installation has no store yet."""
    return settings.database_url is None and not (settings.home / DATABASE_FILE).exists()


async def stores(settings: Settings) -> Check:
    """Whether the store can be read and written, as every step of a run must."""
    # Opening the store would make one, and doctor changes nothing.
    if is_new(settings):
        place = _existing(settings.home)
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            return Check(
                name=STORES,
                state="failed",
                found=f"there is none, and none can be made: {place} is no folder to write to",
                cure="Make it writable, or set PERDURE_HOME to another folder.",
            )
        return Check(name=STORES, state="ok", found=f"none yet in {settings.home}")
    try:
        async with stores_of(settings) as opened:
            runs = await opened.records.find_runs(limit=1)
            # Reading alone reveals neither a full disk nor a lock.
            await try_writing(opened, settings.home)
    except StoreAway as error:
        return Check(
            name=STORES,
            state="failed",
            found=error.message,
            cure=f"{error.cure} {_when_it_is_back(error.message)}",
        )
    except PerdureError as error:
        return Check(name=STORES, state="failed", found=error.message, cure=error.cure)
    kind = "PostgreSQL" if settings.shares_a_database else "SQLite"
    told = f"newest run {runs[0].id}" if runs else "no runs yet"
    return Check(name=STORES, state="ok", found=f"{kind}, can be written, {told}")


def _when_it_is_back(why: str) -> str:
    """What becomes of the runs that wait for a store, by why it does not serve them."""
    return OLD_LOGIN if REFUSED_LOGIN in why else WAITING


async def blobs(settings: Settings) -> AsyncIterator[Check]:
    """Whether the object store of the blobs can be written, read and deleted from."""
    if settings.blobs is None or is_new(settings):
        return
    try:
        async with stores_of(settings) as opened:
            assert opened.objects is not None
            await opened.objects.try_writing()
            moved = await opened.objects.is_moved()
    except StoreAway as error:
        cure = f"{error.cure} {WAITING}"
        yield Check(name=BLOBS, state="failed", found=error.message, cure=cure)
    except PerdureError as error:
        yield Check(name=BLOBS, state="failed", found=error.message, cure=error.cure)
    else:
        told = "" if moved else "; those of before are read where they were written"
        cure = "" if moved else "Move them, if you like, with `perdure move-blobs`."
        yield Check(
            name=BLOBS, state="ok", found=f"{settings.blobs}, can be written{told}", cure=cure
        )


async def api(settings: Settings) -> Check:
    """Whether the REST API is installed, and who could use it."""
    if not has_api():
        return Check(
            name="rest api",
            state="warning",
            found="not installed",
            cure="Install `perdure[api]` to start and follow runs over HTTP.",
        )
    if settings.api == "off":
        return Check(name="rest api", state="ok", found="installed, switched off (PERDURE_API)")
    if is_new(settings):
        return _without_token(known=0)
    try:
        async with stores_of(settings) as opened:
            tokens = await opened.access.tokens()
    except PerdureError as error:
        return Check(name="rest api", state="failed", found=error.message, cure=error.cure)
    now = utc_now()
    usable = sum(token.usable(now) for token in tokens)
    if not usable:
        return _without_token(known=len(tokens))
    soon = [token.id for token in tokens if token.usable(now) and not token.usable(now + WEEK)]
    if soon:
        return Check(
            name="rest api",
            state="warning",
            found=f"installed, {usable} usable tokens; within a week expires {', '.join(soon[:5])}",
            cure=f"Renew it: perdure api token rotate {soon[0]}",
        )
    return Check(name="rest api", state="ok", found=f"installed, {usable} usable tokens")


def _without_token(*, known: int) -> Check:
    none = f"none of its {plural(known, 'token')} is usable" if known else "no token yet"
    return Check(
        name="rest api",
        state="ok",
        found=f"installed, {none}, so none lets anybody in",
        cure="Make one: perdure api token create NAME --scope operate",
    )


LOOKED_AT = 200  # newest open runs
PAGE = 50
AT_ONCE = 8


async def failing_runs(connect: Connect) -> AsyncIterator[Check]:
    """Open runs whose code keeps failing in the worker; nothing else reports them."""
    with suppress(ServiceUnavailable):  # another check reports an absent server
        async with connect(start=False, on_progress=lambda _: None) as services:
            failing = await services.gateway.failing(limit=LOOKED_AT)
            for one in failing.runs:
                yield Check(name=f"run {one.run}", state="failed", found=one.found, cure=one.cure)
            yield how_far(failing)


def how_far(failing: FailingRuns) -> Check:
    """How many open runs were checked for failing code, and whether the server reports the rest."""
    name, unseen = "failing runs", max(0, failing.open - failing.looked_at)
    found = f"{len(failing.runs)} of {failing.open} open runs"
    if not unseen:
        return Check(name=name, state="ok", found=found)
    if failing.server_names_them:
        beyond = "of the others, those that have failed for more than a minute"
        found = f"{found}: among the newest {failing.looked_at}, and {beyond}"
        return Check(name=name, state="ok", found=found)
    return Check(
        name=name,
        state="warning",
        found=f"{found}: only the newest {failing.looked_at} were looked at, {unseen} were not",
        cure="`perdure status ID` says it of one. End what nobody needs any more.",
    )


async def task_queue(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether only this installation serves the queue on which any Temporal client starts tasks."""
    with suppress(ServiceUnavailable):  # another check reports an absent server
        own, client = await own_server(settings, connect)
        found = await workflow_pollers(client, settings.task_queue, now=utc_now())
        # None is a worker of another program, which names no installation.
        others = {installation_of(identity) for identity in found} - {own, None}
        yield _shared(settings.task_queue, sorted(map(str, others)), served=bool(found))


async def own_server(settings: Settings, connect: Connect) -> tuple[str, Client]:
    """The id of this installation, and a client of its server.

    Raises:
        ServiceUnavailable: it has no server; one that listens at the usual port is not ours.
    """
    state = await EmbeddedRuntime(settings).state()
    if state is None and settings.temporal.address is None:
        raise ServiceUnavailable("No services of this installation run.")
    async with connect(start=False, on_progress=lambda _: None) as services:
        own = await services.records.installation()
        return own, await connect_named(settings.at(services.endpoints))


def _shared(queue: str, others: list[str], *, served: bool) -> Check:
    if others:
        return Check(
            name=TASK_QUEUE_CHECK,
            state="warning",
            found=f"{queue} is served by other installations too ({', '.join(others)}): a task "
            "that is sent there becomes a run of whichever reads it first",
            cure="Give each its own PERDURE_TASK_QUEUE, and start the workers again.",
        )
    if not served:
        return Check(
            name=TASK_QUEUE_CHECK,
            state="warning",
            found=f"no worker fetches tasks from {queue}",
            cure="Start one with `perdure worker`; what was sent there waits.",
        )
    return Check(name=TASK_QUEUE_CHECK, state="ok", found=f"{queue}, served by this installation")


async def model_rates(settings: Settings, connect: Connect) -> AsyncIterator[Check]:
    """Whether each queue of a model with a rate limit has a worker."""
    rates = settings.model_rates
    if not rates:
        found = "no model is limited by itself (PERDURE_MODEL_RATES)"
        yield Check(name=MODEL_RATES, state="ok", found=found)
        return
    with suppress(ServiceUnavailable):  # another check reports an absent server
        own, client = await own_server(settings, connect)
        for pattern, rate in rates.items():
            queue = queue_of_rate(own, pattern)
            told = f"{pattern}: " + ("no limit" if rate is None else f"{rate:g} calls a second")
            if await polled(client, queue, now=utc_now()):
                yield Check(name=MODEL_RATES, state="ok", found=told)
            else:
                yield Check(
                    name=MODEL_RATES,
                    state="warning",
                    found=f"{told}, but no worker fetches its calls from {queue}",
                    cure="Set PERDURE_MODEL_RATES alike for all workers, and start them again.",
                )


async def schedules(connect: Connect) -> AsyncIterator[Check]:
    """Schedules that start nothing, or whose starts were refused."""
    with suppress(ServiceUnavailable):  # another check reports an absent server
        async with connect(start=False, on_progress=lambda _: None) as services:
            for broken in await services.schedules().unreadable():
                yield Check(
                    name=SCHEDULES,
                    state="warning",
                    found=broken.why,
                    cure=f"Delete it: perdure schedule delete {broken.name}",
                )
            for name in await services.schedules().unknown():
                yield Check(
                    name=SCHEDULES,
                    state="warning",
                    found=f"{name}: the server has it, and the database does not know it",
                    cure=f"Create it again, or delete it: perdure schedule delete {name}",
                )
            found = await services.schedules().list()
            for one in found:
                if one.problem or one.refused or one.missed:
                    yield Check(
                        name=SCHEDULES,
                        state="warning",
                        found=f"{one.plan.name}: {trouble(one)}",
                        cure=f"Look at it: perdure schedule show {one.plan.name}",
                    )
            if found:
                paused = sum(one.state == "paused" for one in found)
                told = plural(len(found), "schedule") + (f", {paused} paused" if paused else "")
                yield Check(name=SCHEDULES, state="ok", found=told)


async def waiting_runs(connect: Connect) -> AsyncIterator[Check]:
    """Open runs that wait for their store, or whose work no worker takes."""
    with suppress(ServiceUnavailable):  # another check reports an absent server
        async with connect(start=False, on_progress=lambda _: None) as services:
            looked_at = 0
            async for runs in _open_runs(services.gateway):
                looked = runs[: LOOKED_AT - looked_at]
                for status in await _statuses(services.gateway, looked):
                    for check in _waits(status):
                        yield check
                looked_at += len(looked)
                if len(looked) < len(runs):
                    yield Check(
                        name="runs",
                        state="warning",
                        found=f"only the newest {looked_at} open runs were asked what they wait "
                        "for; there are more",
                        cure="`perdure status ID` says it of one. End what nobody needs any more.",
                    )
                    return


async def _open_runs(gateway: RunGateway) -> AsyncIterator[list[str]]:
    """The ids of open runs, page by page.

    Those that should move come first. A run that waits for a person, or that was paused by a
    message, can be paused at the server as well, or have no worker that hears the answer.
    """
    for lifecycle in OPEN_LIFECYCLES:
        cursor = None
        while True:
            page = await gateway.list(RunFilter(status=lifecycle, limit=PAGE, cursor=cursor))
            yield [row.id for row in page.runs]
            cursor = page.cursor
            if cursor is None:
                break


async def _statuses(gateway: RunGateway, runs: list[str]) -> list[RunStatus]:
    """The status of each run; a run that was deleted meanwhile is left out."""
    found: list[RunStatus] = []
    for start in range(0, len(runs), AT_ONCE):
        looks = [gateway.status(run) for run in runs[start : start + AT_ONCE]]
        # None may still be under way when the first error closes the services.
        for looked in await asyncio.gather(*looks, return_exceptions=True):
            if isinstance(looked, RunStatus):
                found.append(looked)
            elif not isinstance(looked, NotFound):
                raise looked
    return found


def _waits(status: RunStatus) -> list[Check]:
    """Why a run waits, if somebody can do something about it."""
    name, checks = f"run {status.id}", list[Check]()
    trouble = status.trouble or ""
    if trouble.startswith(WAITS_FOR_STORE):
        cure = _when_it_is_back(trouble)
        checks.append(Check(name=name, state="warning", found=trouble, cure=cure))
    if trouble.startswith(PAUSED_THERE):
        found, _, cure = trouble.partition(". ")
        checks.append(Check(name=name, state="warning", found=f"{found}.", cure=cure))
    if (told := found_and_cure(status.dispatch)) is not None:
        checks.append(Check(name=name, state="warning", found=told[0], cure=told[1]))
    return checks
