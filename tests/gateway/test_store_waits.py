"""That a run waits for its store is read from heartbeats and failures, sealed ones too."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import ApplicationError

from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.foundation.retry_policies import StoreWait
from perdure.gateway.store_waits import (
    WaitingStep,
    in_words,
    made_again,
    opened_failure,
    waiting_steps,
)

NOW = datetime(2026, 1, 2, 18, 22, 10, tzinfo=UTC)
RUN = WorkflowSerializationContext(namespace="default", workflow_id="agent-1")
OTHER = WorkflowSerializationContext(namespace="default", workflow_id="agent-2")
REFUSED = "The database cannot be reached (connection refused)."
PLAIN = data_converter(None).with_context(RUN)
SEALED = data_converter(None, [bytes(range(32))]).with_context(RUN)


def waits(minutes: float = 2, *, why: str = REFUSED, tried: int = 7) -> WaitingStep:
    return WaitingStep(why=why, tried=tried, since=NOW - timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        pytest.param(
            [waits()],
            "waiting for the store since 18:20:10 UTC: The database cannot be reached "
            "(connection refused); tried 7 times",
            id="one step",
        ),
        pytest.param(
            [waits(1, tried=2), waits(2, why="full", tried=1), waits(0)],
            "waiting for the store since 18:20:10 UTC: full; tried once (and 2 more steps)",
            id="of several the longest",
        ),
        pytest.param(
            [waits(), waits(1)],
            "waiting for the store since 18:20:10 UTC: The database cannot be reached "
            "(connection refused); tried 7 times (and 1 more step)",
            id="two",
        ),
        pytest.param(
            [waits(3 * 24 * 60, why="full")],
            "waiting for the store since 2025-12-30 18:22:10 UTC: full; tried 7 times",
            id="for days",
        ),
    ],
)
def test_a_wait_in_words(steps: Sequence[WaitingStep], text: str) -> None:
    assert in_words(steps, now=NOW) == text


async def beating(converter: DataConverter, said: object) -> PendingActivityInfo:
    step = PendingActivityInfo(activity_id="s4", attempt=1)
    step.heartbeat_details.payloads.extend(await converter.encode([said]))
    step.last_heartbeat_time.FromDatetime(NOW)
    return step


async def failing(
    converter: DataConverter, kind: str = "store_away", attempt: int = 4
) -> PendingActivityInfo:
    step = PendingActivityInfo(activity_id="s5", attempt=attempt)
    await converter.encode_failure(ApplicationError(REFUSED, type=kind), step.last_failure)
    step.scheduled_time.FromDatetime(NOW - timedelta(minutes=2))
    return step


@pytest.mark.parametrize("converter", [PLAIN, SEALED], ids=["plain", "sealed"])
async def test_both_kinds_of_steps_are_read(converter: DataConverter) -> None:
    in_hand = await beating(converter, StoreWait(waits=REFUSED, waited_s=120, tried=7))
    again = await failing(converter)
    again.last_failure.CopyFrom(await opened_failure(again.last_failure, converter))
    found = await waiting_steps([in_hand, again], converter)
    assert found == [waits(), waits(tried=3)]
    assert made_again([in_hand, again]) == {"s5"}
    # The server forgets when the first attempt was due; the history has it.
    first = NOW - timedelta(minutes=9)
    found = await waiting_steps([in_hand, again], converter, {"s5": first})
    assert found == [waits(), waits(9, tried=3)]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(PendingActivityInfo(attempt=1), id="no word yet"),
        pytest.param(lambda: beating(PLAIN, {"progress": 3}), id="another heartbeat"),
        pytest.param(lambda: beating(PLAIN, "words"), id="no object"),
        pytest.param(lambda: failing(PLAIN, "model_overloaded"), id="another failure"),
        pytest.param(lambda: failing(PLAIN, attempt=1), id="a first attempt"),
    ],
)
async def test_other_steps_do_not_wait_for_the_store(step: object) -> None:
    made = step if isinstance(step, PendingActivityInfo) else await step()  # type: ignore[operator]
    assert await waiting_steps([made], PLAIN) == []


async def test_what_was_sealed_for_another_run_or_key_says_nothing() -> None:
    said = StoreWait(waits=REFUSED)
    foreign = data_converter(None, [bytes(32)]).with_context(RUN)
    for converter in (SEALED.with_context(OTHER), foreign):
        assert await waiting_steps([await beating(converter, said)], SEALED) == []
        failed = await failing(converter)
        kept = await opened_failure(failed.last_failure, SEALED)
        assert kept.message == "Encoded failure"
