"""Looks of `doctor` at open runs: those that fail, and those that wait for a store or a worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from perdure.domain.foundation.errors import NotFound, ServiceUnavailable
from perdure.domain.run.status import RunStatus
from perdure.gateway.store_waits import WAITS_FOR_STORE
from perdure.gateway.types import FailingRuns, RunFilter
from perdure.interfaces.app_context import Connect
from perdure.interfaces.services import Check, RunGateway
from perdure.operations.store_checks import WAITING

LOOKED_AT = 200  # newest open runs
PAGE = 50
AT_ONCE = 8


async def failing_runs(connect: Connect) -> AsyncIterator[Check]:
    """Open runs whose code keeps failing in the worker: nobody else would say so."""
    with suppress(ServiceUnavailable):  # an absent server was told already
        async with connect(start=False, on_progress=lambda _: None) as services:
            failing = await services.gateway.failing(limit=LOOKED_AT)
            for one in failing.runs:
                yield Check(name=f"run {one.run}", state="failed", found=one.found, cure=one.cure)
            yield how_far(failing)


def how_far(failing: FailingRuns) -> Check:
    """How many open runs were looked at for a failure of their code, and who looks at the rest."""
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


async def waiting_runs(connect: Connect) -> AsyncIterator[Check]:
    """Open runs that wait for their store, or whose work no worker takes."""
    with suppress(ServiceUnavailable):  # an absent server was told already
        async with connect(start=False, on_progress=lambda _: None) as services:
            looked_at, cursor = 0, None
            while looked_at < LOOKED_AT:
                wanted = RunFilter(
                    status="running", limit=min(PAGE, LOOKED_AT - looked_at), cursor=cursor
                )
                page = await services.gateway.list(wanted)
                for status in await _statuses(services.gateway, [row.id for row in page.runs]):
                    for check in _waits(status):
                        yield check
                looked_at += len(page.runs)
                cursor = page.cursor
                if cursor is None:
                    return
            yield Check(
                name="runs",
                state="warning",
                found=f"only the newest {looked_at} open runs were asked what they wait for; there "
                "are more",
                cure="`perdure status ID` says it of one. End what nobody needs any more.",
            )


async def _statuses(gateway: RunGateway, runs: list[str]) -> list[RunStatus]:
    """A look at each; one that was deleted meanwhile is no longer open."""
    found: list[RunStatus] = []
    for start in range(0, len(runs), AT_ONCE):
        looks = [gateway.status(run) for run in runs[start : start + AT_ONCE]]
        for looked in await asyncio.gather(*looks, return_exceptions=True):
            if isinstance(looked, RunStatus):
                found.append(looked)
            elif not isinstance(looked, NotFound):
                raise looked
    return found


def _waits(status: RunStatus) -> list[Check]:
    """What a run waits for that somebody can do something about."""
    name, checks = f"run {status.id}", list[Check]()
    if (status.trouble or "").startswith(WAITS_FOR_STORE):
        found = status.trouble or ""
        checks.append(Check(name=name, state="warning", found=found, cure=WAITING))
    found, _, start = status.dispatch.rpartition(" Start one with ")
    if start:
        cure = f"Start one with {start}"
        checks.append(Check(name=name, state="warning", found=found, cure=cure))
    return checks
