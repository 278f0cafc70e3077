"""Very many messages at once, while nobody looks: the run takes what it can, and lives."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
from holding import Holding
from installation import Installation
from steered import DONE, LIST, spec, told
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from waiting import eventually

from perdure.domain.run.messages import Pause, Resume

AT_ONCE = 40
LIMITS = {"wall_time": None, "active_time": None}
KINDS: Mapping[str, Callable[[int], tuple[str, object]]] = {
    "things said": lambda n: ("add_input", {"text": f"also mention number {n}"}),
    "turns": lambda n: ("resume" if n % 2 == 0 else "pause", {"by": "me"}),
    "answers to nothing": lambda n: ("answer", {"gate": f"g{n}", "choice": "yes"}),
    "foreign shapes": lambda n: ("amend", {"no": n, "such": n, "field": n}),
    "names that are none": lambda n: (f"no-{n}", {}),
    "budgets": lambda n: ("amend", {"budget": {"tokens": 500_000 + n}}),
}


@pytest.fixture
async def resting(bare: Installation) -> AsyncIterator[str]:
    """A run that is paused between two calls, and whose worker is gone."""
    holding = Holding()
    with pytest.MonkeyPatch.context() as patch:
        holding.install(patch)
        async with bare.worker():
            held = {**LIST, "delay_s": 3_600}
            run = await bare.start(spec(budget=LIMITS), {"replies": [held, DONE]})
            await holding.begun()
            await bare.gateway.verb(run, Pause(by="me"))
            holding.release()
            await eventually(lambda: _at_rest(bare, run))
        yield run


async def _at_rest(site: Installation, run: str) -> bool:
    status = await told(site, run)
    return status.lifecycle == "paused" and status.step is None


@pytest.mark.long
@pytest.mark.parametrize("what", KINDS)
async def test_a_thousand_messages_while_nobody_looks(
    bare: Installation, resting: str, what: str
) -> None:
    await _survives(bare, resting, 1_000, KINDS[what])


@pytest.mark.slow
@pytest.mark.parametrize("what", KINDS)
async def test_ten_thousand_messages_while_nobody_looks(
    bare: Installation, resting: str, what: str
) -> None:
    await _survives(bare, resting, 9_900, KINDS[what])


@pytest.mark.slow
async def test_three_thousand_long_messages_while_nobody_looks(
    bare: Installation, resting: str
) -> None:
    await _survives(bare, resting, 3_000, lambda n: ("add_input", {"text": f"{n} " + "x" * 8_000}))


async def _survives(
    site: Installation, run: str, count: int, message: Callable[[int], tuple[str, object]]
) -> None:
    await _send(site, run, [message(number) for number in range(count)])
    async with site.worker():
        # A busy machine takes its time over ten thousand signals in a few tasks.
        await eventually(lambda: _answers(site, run), seconds=300)
        await _resumed(site, run)
        result = await site.gateway.result(run)
        assert result.outcome == "accepted"
        assert result.output == "All done."
        events = [str(event["eventType"]) for event in await site.history(run)]
        assert not [event for event in events if "TASK_FAILED" in event]


async def _send(site: Installation, run: str, messages: list[tuple[str, object]]) -> None:
    client, gate = site.client, asyncio.Semaphore(AT_ONCE)

    async def one(name: str, value: object) -> None:
        data = json.dumps(value).encode()
        async with gate:
            await client.workflow_service.signal_workflow_execution(
                SignalWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=WorkflowExecution(workflow_id=run),
                    signal_name=name,
                    input=Payloads(
                        payloads=[Payload(metadata={"encoding": b"json/plain"}, data=data)]
                    ),
                )
            )

    await asyncio.gather(*(one(name, value) for name, value in messages))


async def _answers(site: Installation, run: str) -> bool:
    try:
        return (await told(site, run)).id == run
    except Exception:
        return False


async def _resumed(site: Installation, run: str) -> None:
    if (await told(site, run)).lifecycle == "paused":
        await site.gateway.verb(run, Resume(by="me"))
