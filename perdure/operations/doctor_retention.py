"""The check of `doctor` on garbage collections: a schedule alone does not mean that they run."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.retention.erasure import Pending
from perdure.gateway.types import UpkeepOutcome, UpkeepSchedule
from perdure.interfaces.app_context import Connect
from perdure.interfaces.formatting import duration, one_line, plural
from perdure.interfaces.services import Check

RETENTION = "retention"
ERASURE = "erasure"
JOURNAL = "journal"
ERROR_CHARACTERS = 400


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
    elif went.open:
        told += f"; one is at work since {_moment(went.began_at)}"
    told += f"; {_success(stands, went)}"
    state = "failed" if went.failed is not None else "warning" if stands.paused else "ok"
    return Check(name=RETENTION, state=state, found=told, cure=" ".join(cures))


def _success(stands: UpkeepSchedule, went: UpkeepOutcome) -> str:
    if went.succeeded_at is not None:
        return f"the last success was at {_moment(went.succeeded_at)}"
    if not stands.looks:
        return "none was due so far"
    return "the server knows of no success"


def _moment(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
