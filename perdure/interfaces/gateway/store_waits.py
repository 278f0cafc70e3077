"""Which steps of a run wait for their store, since when and why, as the server knows it.

Two kinds of steps say so in two ways: one that waits with what it has in hand says it in its
heartbeats, bookkeeping in the failure of its newest attempt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter

from perdure.domain.errors import StoreAway
from perdure.domain.patience import StoreWait
from perdure.interfaces.gateway.opened import opened

WAITS_FOR_STORE = "waiting for the store"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStep:
    """One step that waits for its store."""

    why: str
    tried: int
    since: datetime


async def waiting_steps(
    pending: Sequence[PendingActivityInfo], converter: DataConverter
) -> list[WaitingStep]:
    """The steps that wait for their store now."""
    found = [await _waiting(step, converter) for step in pending]
    return [step for step in found if step is not None]


def in_words(steps: Sequence[WaitingStep], *, now: datetime) -> str:
    """What a run waits for, in one sentence; of several steps the one that waits longest."""
    longest = min(steps, key=lambda step: step.since)
    why = longest.why.strip().rstrip(".")
    times = "once" if longest.tried == 1 else f"{longest.tried} times"
    others = len(steps) - 1
    more = f" (and {others} more step{'s' if others > 1 else ''})" if others else ""
    return f"{WAITS_FOR_STORE} since {_moment(longest.since, now)}: {why}; tried {times}{more}"


async def _waiting(step: PendingActivityInfo, converter: DataConverter) -> WaitingStep | None:
    if step.attempt > 1 and step.last_failure.application_failure_info.type == StoreAway.code:
        return WaitingStep(
            why=step.last_failure.message,
            tried=step.attempt - 1,
            since=step.scheduled_time.ToDatetime(tzinfo=UTC),
        )
    details = step.heartbeat_details.payloads
    if not details:
        return None
    told = await opened(details[0], StoreWait, converter)
    if told is None:
        return None  # it says something else, or nobody here can open it
    since = step.last_heartbeat_time.ToDatetime(tzinfo=UTC) - timedelta(seconds=told.waited_s)
    return WaitingStep(why=told.waits, tried=told.tried, since=since)


def _moment(since: datetime, now: datetime) -> str:
    shown = since.strftime("%H:%M:%S" if now - since < DAY else "%Y-%m-%d %H:%M:%S")
    return f"{shown} UTC"
