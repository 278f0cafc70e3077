"""A steered run that continues as new: what was said and asked lives through the roll."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from holding import Holding
from installation import Installation, installation
from stages import open_gate
from steered import DONE, HELD_LIST, LIST, spec, told, types, waiting
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import AddInput, Amend, Answer, Escalate, Pause, Resume
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Timing


@pytest.fixture
async def rolling(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose runs continue as new after sixty messages."""
    address = server.client.service_client.config.target_host
    timing = Timing(roll_messages=60)
    folder = tmp_path / "rolling"
    async with installation(folder, address, timing=timing) as made, made.worker():
        yield made


@pytest.mark.long
async def test_a_paused_run_lives_through_a_flood_and_remembers(
    rolling: Installation, holding: Holding
) -> None:
    """R09: thousands of signals are rolled away; a request id has one effect over all of it."""
    site = rolling
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    await site.gateway.verb(run, AddInput(text="once", request_id="same"))
    await site.gateway.verb(run, Pause())
    holding.release()
    handle = site.handle(run)
    for _ in range(3):
        await asyncio.gather(*(handle.signal("pause", Pause()) for _ in range(50)))

    async def rolled() -> bool:
        described = await handle.describe()
        return described.run_id != described.raw_description.workflow_execution_info.first_run_id

    await eventually(rolled)
    assert (await told(site, run)).lifecycle == "paused"
    again = await site.gateway.verb(run, AddInput(text="once", request_id="same"))
    assert again.note == "had its effect"
    await site.gateway.verb(run, Resume())
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    assert (await types(site, run)).count("input_added") <= 1


@pytest.mark.long
async def test_a_gate_keeps_its_id_over_a_roll(rolling: Installation, holding: Holding) -> None:
    """R20: a question is answered in the execution after the one that asked it."""
    site = rolling
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE, DONE]})
    await site.gateway.verb(run, Escalate(note="look"))
    holding.release()
    gate = await waiting(site, run)
    first = (await site.handle(run).describe()).run_id
    handle = site.handle(run)
    await asyncio.gather(*(handle.signal("escalate", Escalate()) for _ in range(80)))

    async def rolled() -> bool:
        return (await handle.describe()).run_id != first

    await eventually(rolled)
    assert [open_.id for open_ in (await told(site, run)).gates] == [gate.id]
    await site.gateway.verb(run, Answer(gate=gate.id, choice="continue", by="me"))
    assert (await site.gateway.result(run)).outcome == "accepted"


async def test_a_changed_goal_and_the_memo_of_others_live_through_a_roll(
    server: WorkflowEnvironment, tmp_path: Path, holding: Holding
) -> None:
    address = server.client.service_client.config.target_host
    async with installation(tmp_path, address, timing=Timing(roll_events=1)) as site, site.worker():
        run = await site.start(spec(), {"replies": [HELD_LIST, LIST, DONE]})
        await holding.begun()
        before = await (await site.handle(run).describe()).memo()
        await site.gateway.verb(run, Amend(goal="Look  again."))
        holding.release()
        assert (await site.gateway.result(run)).outcome == "accepted"
        described = await site.handle(run).describe()
        assert described.run_id != described.raw_description.workflow_execution_info.first_run_id
        assert await described.memo() == {**before, "goal": "Look again."}


async def test_a_raise_and_a_roll_settle_a_question_about_the_budget(
    server: WorkflowEnvironment, tmp_path: Path, holding: Holding
) -> None:
    """Its late answer says nothing to the question that the next spent budget asks."""
    address = server.client.service_client.config.target_host
    task = spec(budget={"tool_calls": 1, "on_exhausted": "ask"})
    closing = {"when": {"contains": "Tools are switched off now"}, **DONE}
    async with installation(tmp_path, address, timing=Timing(roll_events=1)) as site, site.worker():
        run = await site.start(task, {"replies": [closing, LIST, HELD_LIST, LIST]})
        asked = await open_gate(site, run)
        await site.gateway.verb(run, Amend(budget={"tool_calls": 2}))
        await holding.begun()
        status = await told(site, run)
        assert (status.lifecycle, status.gates) == ("running", ())
        with pytest.raises(NotAllowed, match="answered with 'raise' by amend"):
            await site.gateway.verb(run, Answer(gate=asked.id, choice="raise"))
        holding.release()
        anew = await open_gate(site, run, after=asked.id)
        assert (anew.kind, anew.id) == ("budget", "g2")
        assert "tool_calls: 2 of 2" in anew.prompt
        await site.gateway.verb(run, Answer(gate=anew.id, choice="end"))
        result = await site.gateway.result(run)
        assert (result.outcome, result.reason) == ("out_of_budget", "tool_calls")


async def test_a_memo_of_a_client_is_passed_on_as_it_is(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """Also one that this side could not read: it must not fail the code of the run."""
    address = server.client.service_client.config.target_host
    plain = await Client.connect(address)
    theirs = Payload(metadata={"encoding": b"theirs/sealed"}, data=b"\x00")
    async with installation(tmp_path, address, timing=Timing(roll_events=1)) as site, site.worker():
        model = await site.script({"replies": [LIST, DONE]})
        task = {**spec(), "models": {"executor": model}}
        task.pop("kind", None)
        run = await plain.start_workflow(
            "AgentLoop",
            task,
            id=f"noted-{tmp_path.name}",
            task_queue=site.settings.task_queue,
            memo={"theirs": RawValue(theirs), "count": 3},
        )
        await run.result()
        described = await run.describe()
        fields = described.raw_description.workflow_execution_info.memo.fields
        assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
        assert fields["theirs"] == theirs
        assert fields["count"].data == b"3"


@pytest.mark.long
async def test_rolling_at_every_checkpoint_changes_nothing(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """The same script with and without continue-as-new gives the same result."""
    address = server.client.service_client.config.target_host
    results = []
    for number, events in enumerate((2_000, 1)):
        timing = Timing(roll_events=events)
        folder = tmp_path / str(number)
        async with installation(folder, address, timing=timing) as site, site.worker():
            run = await site.start(spec(), {"replies": [LIST, LIST, DONE]})
            results.append(await site.gateway.result(run))
            described = await site.handle(run).describe()
            first = described.raw_description.workflow_execution_info.first_run_id
            assert (described.run_id != first) == (events == 1)
    plain, rolled = (_comparable(result) for result in results)
    assert plain == rolled


def _comparable(result: RunResult) -> dict[str, object]:
    spend = result.spend
    return {
        "end": (result.outcome, result.reason, result.output, result.iteration_count),
        "spend": (spend.tokens, spend.model_calls, spend.tool_calls, spend.cost_usd),
        "tools": result.tools_used,
        "records": [(r.index, r.tool_calls, r.usage, r.break_reason) for r in result.iterations],
    }
