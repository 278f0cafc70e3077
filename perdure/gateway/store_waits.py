"""Which steps of a run wait for the store.

A step that can wait says so in its heartbeats. A bookkeeping step says so in the failure of its
newest attempt. Both may be encrypted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.converter import DataConverter, WorkflowSerializationContext

from perdure.domain.foundation.errors import PerdureError, StoreAway
from perdure.domain.foundation.retry_policies import StoreWait

T = TypeVar("T")
# The SDK raises a KeyError for an unknown encoding, and a RuntimeError for a value that does not
# fit the type.
UNREADABLE = (PerdureError, ValueError, KeyError, RuntimeError)


def converter_for(client: Client, run: str) -> DataConverter:
    """The client's converter bound to one run, because payloads are encrypted for their run."""
    return client.data_converter.with_context(
        WorkflowSerializationContext(namespace=client.namespace, workflow_id=run)
    )


async def opened_failure(failure: Failure, converter: DataConverter) -> Failure:
    """A decrypted copy of a failure, or the failure itself if it cannot be decrypted."""
    copy = Failure()
    copy.CopyFrom(failure)
    link: Failure | None = copy
    while link is not None:
        if link.HasField("encoded_attributes"):
            said = await opened(link.encoded_attributes, dict[str, str], converter)
            link.message = (said or {}).get("message", link.message)
        link = link.cause if link.HasField("cause") else None
    return copy


async def opened(payload: Payload, kind: type[T], converter: DataConverter) -> T | None:
    """Decode a value of unknown origin; None if it has another type or another key."""
    try:
        (value,) = await converter.decode([payload], [kind])
    except UNREADABLE:
        return None
    return value


WAITS_FOR_STORE = "waiting for the store"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingStep:
    """One step that waits for its store."""

    why: str
    tried: int
    since: datetime


async def waiting_steps(
    pending: Sequence[PendingActivityInfo],
    converter: DataConverter,
    begun: Mapping[str, datetime] | None = None,
) -> list[WaitingStep]:
    """The steps that wait for their store now.

    Args:
        pending: the pending steps of the run.
        converter: decrypts heartbeats and failures.
        begun: when retried steps were first scheduled, by id. The server's description has only
            the time of the newest attempt.
    """
    found = [await _waiting(step, converter, begun or {}) for step in pending]
    return [step for step in found if step is not None]


def made_again(pending: Sequence[PendingActivityInfo]) -> frozenset[str]:
    """The ids of steps that are retried because their store was away."""
    return frozenset(step.activity_id for step in pending if _failed_for_store(step))


def in_words(steps: Sequence[WaitingStep], *, now: datetime) -> str:
    """What a run waits for, in one sentence, by the step that waits longest."""
    longest = min(steps, key=lambda step: step.since)
    why = longest.why.strip().rstrip(".")
    times = "once" if longest.tried == 1 else f"{longest.tried} times"
    others = len(steps) - 1
    more = f" (and {others} more step{'s' if others > 1 else ''})" if others else ""
    return f"{WAITS_FOR_STORE} since {_moment(longest.since, now)}: {why}; tried {times}{more}"


def _failed_for_store(step: PendingActivityInfo) -> bool:
    why = step.last_failure.application_failure_info.type
    return step.attempt > 1 and why == StoreAway.code


async def _waiting(
    step: PendingActivityInfo, converter: DataConverter, begun: Mapping[str, datetime]
) -> WaitingStep | None:
    if _failed_for_store(step):
        newest = step.scheduled_time.ToDatetime(tzinfo=UTC)
        return WaitingStep(
            why=step.last_failure.message,
            tried=step.attempt - 1,
            since=begun.get(step.activity_id, newest),
        )
    details = step.heartbeat_details.payloads
    if not details:
        return None
    told = await opened(details[0], StoreWait, converter)
    if told is None:
        return None  # a heartbeat of another kind, or one that cannot be decrypted here
    # The server's time and the worker's duration: a time of the worker goes by another clock.
    since = step.last_heartbeat_time.ToDatetime(tzinfo=UTC) - timedelta(seconds=told.waited_s)
    return WaitingStep(why=told.waits, tried=told.tried, since=since)


def _moment(since: datetime, now: datetime) -> str:
    shown = since.strftime("%H:%M:%S" if now - since < DAY else "%Y-%m-%d %H:%M:%S")
    return f"{shown} UTC"
