"""Gates of loops that a workflow of somebody else's answers itself, beside people."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from agent_runs import gate_of
from installation import Installation
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.converter import DataConverter
from temporalio.exceptions import CancelledError
from temporalio.worker import Replayer, Worker
from waiting import eventually

from perdure import tool
from perdure.domain.run.messages import Answer
from perdure.temporal import PerdurePlugin
from perdure.workflows.registry import WORKFLOWS, workflow_runner
from tests.embedding.test_temporal_plugin import Theirs, Upside

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import OpenGate, Reply, agent

REFUND = {"tool_calls": [{"name": "shop.refund", "arguments": {"order": "o-1"}}]}
ASK = {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]}


@dataclass
class Way:
    """How the workflow answers: by this word, or by one of `leave`, `fail`, `wait`, `activity`."""

    answer: str
    task: dict[str, Any]
    loops: int = 1


@activity.defn
async def decide(gate: str) -> str:
    """Their own activity that decides."""
    return "approve" if gate.startswith("g1-") else "deny"


@workflow.defn
class Deciding:
    """Awaits agents whose gates it answers itself."""

    def __init__(self) -> None:
        self.gates: list[str] = []
        self.given_up = 0

    @workflow.run
    async def run(self, way: Way) -> list[str]:
        async def on_gate(gate: OpenGate) -> Reply | str | None:
            self.gates.append(f"{gate.kind} {gate.subject or ''}")
            match way.answer:
                case "leave":
                    return None
                case "odd":
                    return {"choice": "approve"}  # type: ignore[return-value]
                case "number":
                    return Reply(choice=True)  # type: ignore[arg-type]
                case "fail":
                    raise RuntimeError("the handler is broken")
                case "wait":
                    return await self._waited()
                case "activity":
                    return await workflow.execute_activity(
                        decide, gate.gate, start_to_close_timeout=timedelta(seconds=10)
                    )
                case text if gate.choices:
                    return Reply(choice=text, text="says the workflow")
                case text:
                    return text

        me = workflow.info().workflow_id
        loops = [
            asyncio.create_task(agent("Do it.", id=f"{me}-{number}", on_gate=on_gate, **way.task))
            for number in range(way.loops)
        ]
        return [str((await loop).output) for loop in loops]

    async def _waited(self) -> str:
        try:
            await asyncio.sleep(86_400)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return "approve"

    @workflow.query
    def told(self) -> dict[str, Any]:
        """What it was asked, and how often it was relieved of an answer."""
        return {"gates": self.gates, "given_up": self.given_up}


@asynccontextmanager
async def deciding(
    site: Installation, way: Way, *, converter: DataConverter | None = None
) -> AsyncGenerator[tuple[WorkflowHandle[Any, Any], list[str], PerdurePlugin]]:
    """The workflow, started; and what was refunded."""
    refunded: list[str] = []

    @tool(name="shop.refund", access="write", needs_approval=True)
    def refund(order: str) -> str:
        """Refund an order.

        Args:
            order: which.
        """
        refunded.append(order)
        return "refunded"

    plugin = PerdurePlugin(site.settings, tools=[refund])
    client = await Client.connect(
        site.address, plugins=[plugin], data_converter=converter or DataConverter.default
    )
    queue = f"deciding-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Deciding], activities=[decide]):
        handle = await client.start_workflow(Deciding.run, way, id=queue, task_queue=queue)
        yield handle, refunded, plugin


async def _way(site: Installation, answer: str, *replies: Mapping[str, object], loops: int = 1):
    said = replies or (REFUND, {"text": "Done."})
    model = await site.script({"replies": [dict(one) for one in said]})
    tools = {"access": "full", "allow": ["shop.refund", "human.ask"]}
    return Way(answer, {"models": {"executor": model}, "tools": tools}, loops)


ANSWERED = {
    "it approves": ("approve", ["o-1"]),
    "it denies": ("deny", []),
    "it asks an activity of its own": ("activity", ["o-1"]),
}


@pytest.mark.parametrize(("answer", "done"), ANSWERED.values(), ids=ANSWERED.keys())
async def test_the_workflow_answers_for_its_loop(
    bare: Installation, answer: str, done: list[str]
) -> None:
    async with deciding(bare, await _way(bare, answer)) as (handle, refunded, plugin):
        assert await handle.result() == ["Done."]
        assert refunded == done
        assert await handle.query(Deciding.told) == {
            "gates": ["tool_approval shop.refund"], "given_up": 0,
        }  # fmt: skip
        history = await handle.fetch_history()
    # Both sides do the same again.
    await Replayer(workflows=[Deciding], plugins=[plugin]).replay_workflow(history)
    loop = await bare.handle(f"{handle.id}-0").fetch_history()
    replayer = Replayer(
        workflows=WORKFLOWS,
        workflow_runner=workflow_runner(),
        data_converter=bare.client.data_converter,
    )
    await replayer.replay_workflow(loop)


async def test_a_question_is_answered_in_words(bare: Installation) -> None:
    way = await _way(bare, "blue", ASK, {"text": "Blue it is."})
    async with deciding(bare, way) as (handle, _, _):
        assert await handle.result() == ["Blue it is."]
        (event,) = [
            one
            for one in (await bare.status(f"{handle.id}-0")).events
            if one.type == "gate_answered"
        ]
    assert event.data["by"] == f"workflow {handle.id}"


async def test_each_of_several_loops_is_answered(bare: Installation) -> None:
    way = await _way(bare, "approve", loops=3)
    async with deciding(bare, way) as (handle, refunded, _):
        assert await handle.result() == ["Done."] * 3
        assert refunded == ["o-1"] * 3


ALLOWED = "allowed: a choice or a text, a Reply of such, or None"
LEFT = {
    "it leaves it to people": ("leave", ""),
    "it fails": ("fail", "the handler is broken"),
    "its answer is none": ("perhaps", ""),
    "its answer is no reply": ("odd", f'found {{"choice": "approve"}}; {ALLOWED}'),
    "its choice is no text": ("number", f"found Reply(choice=True, text=None); {ALLOWED}"),
}


@pytest.mark.parametrize(("answer", "logged"), LEFT.values(), ids=LEFT.keys())
async def test_what_it_does_not_answer_people_do(
    bare: Installation, caplog: pytest.LogCaptureFixture, answer: str, logged: str
) -> None:
    async with deciding(bare, await _way(bare, answer)) as (handle, refunded, _):
        await _approve(bare, f"{handle.id}-0", handle)
        assert await handle.result() == ["Done."]
        assert refunded == ["o-1"]
        assert (await handle.query(Deciding.told))["gates"] == ["tool_approval shop.refund"]
    failed = [one for one in caplog.records if "on_gate failed" in one.getMessage()]
    assert [logged in str(one.exc_info) for one in failed] == ([True] if logged else [])


async def test_an_answer_of_people_relieves_the_workflow(bare: Installation) -> None:
    async with deciding(bare, await _way(bare, "wait")) as (handle, refunded, _):
        await _approve(bare, f"{handle.id}-0", handle)
        assert await handle.result() == ["Done."]
        assert (refunded, (await handle.query(Deciding.told))["given_up"]) == (["o-1"], 1)


async def _cancel(handle: WorkflowHandle[Any, Any], loop: WorkflowHandle[Any, Any]) -> None:
    await handle.cancel()


async def _stop(handle: WorkflowHandle[Any, Any], loop: WorkflowHandle[Any, Any]) -> None:
    await loop.signal("stop", {"mode": "now"})


async def _is_cancelled(handle: WorkflowHandle[Any, Any]) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, CancelledError)


async def _has_no_answer(handle: WorkflowHandle[Any, Any]) -> None:
    (output,) = await handle.result()
    assert output.startswith("The model gave no answer.")


ENDED = {
    "the workflow is cancelled": (_cancel, _is_cancelled),
    "the loop is stopped": (_stop, _has_no_answer),
}


@pytest.mark.parametrize(("end", "ended"), ENDED.values(), ids=ENDED.keys())
async def test_both_end_while_a_gate_is_open(bare: Installation, end: Any, ended: Any) -> None:
    async with deciding(bare, await _way(bare, "wait")) as (handle, refunded, _):
        await eventually(lambda: _asked(handle))
        await end(handle, bare.handle(f"{handle.id}-0"))
        await ended(handle)
        assert (await handle.query(Deciding.told))["given_up"] == 1
        result = await bare.gateway.result(f"{handle.id}-0")
    assert (result.outcome, result.reason, refunded) == ("stopped", "stopped", [])


async def test_their_converter_and_codec_carry_it(bare: Installation) -> None:
    theirs = replace(DataConverter.default, payload_converter_class=Theirs, payload_codec=Upside())
    way = await _way(bare, "approve")
    async with deciding(bare, way, converter=theirs) as (handle, refunded, _):
        assert await handle.result() == ["Done."]
        assert refunded == ["o-1"]


async def test_a_forged_report_does_no_harm(bare: Installation) -> None:
    async with deciding(bare, await _way(bare, "approve")) as (handle, refunded, _):
        await handle.signal("questions_below", "nonsense")
        await handle.signal("questions_below", {"run": "another", "questions": []})
        assert await handle.result() == ["Done."]
        assert refunded == ["o-1"]


async def _approve(site: Installation, run: str, handle: WorkflowHandle[Any, Any]) -> None:
    await eventually(lambda: _asked(handle))
    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None
    await site.gateway.verb(run, Answer(by="ann", gate=gate.name, choice="approve"))


async def _asked(handle: WorkflowHandle[Any, Any]) -> bool:
    return bool((await handle.query(Deciding.told))["gates"])
