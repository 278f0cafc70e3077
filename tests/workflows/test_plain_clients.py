"""A loop is started by any Temporal client, with nothing but its task."""

import json
import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from installation import Installation, installation
from listed import listed
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from waiting import eventually

from perdure.composition.client_services import services
from perdure.domain.foundation.tolerance import read
from perdure.domain.run.messages import Amend, Pause, Retry, Stop
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import RunFilter, RunRow
from perdure.operations.doctor_checks import task_queue

SHORT = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}]


PLAIN = {"plan": "off"}


@pytest.fixture
async def plain(site: Installation) -> Client:
    """A client that knows nothing of Perdure: no converter, no plugin."""
    return await Client.connect(site.address)


async def _started(
    site: Installation, plain: Client, task: object, *, kind: str = "AgentLoop", name: str = ""
) -> WorkflowHandle[object, object]:
    return await plain.start_workflow(
        kind, task, id=name or f"plain-{uuid.uuid4().hex[:8]}", task_queue=site.settings.task_queue
    )


async def _agent(site: Installation, *texts: str) -> dict[str, object]:
    model = await site.script({"replies": [{"text": text} for text in texts]})
    return {"goal": "Name a fruit.", "models": {"executor": model}}


async def test_an_agent_answers_a_plain_client(site: Installation, plain: Client) -> None:
    run = await _started(site, plain, await _agent(site, "An apple."))
    result = await run.result()
    assert isinstance(result, dict)
    assert (result["outcome"], result["output"]) == ("accepted", "An apple.")
    row = await site.parts.stores.records.run(run.id)
    assert row is not None
    assert (row.goal, row.outcome) == ("Name a fruit.", "accepted")
    assert run.id in await listed(site.gateway)
    assert (await site.gateway.status(run.id)).outcome == "accepted"


async def test_the_memo_of_a_client_is_its_own(site: Installation, plain: Client) -> None:
    run = await plain.start_workflow(
        "AgentLoop",
        await _agent(site, "An apple."),
        id=f"noted-{uuid.uuid4().hex[:8]}",
        task_queue=site.settings.task_queue,
        memo={"goal": {"team": "fruit"}, "label": ["a", "b"], "ticket": 7},
    )
    await run.result()

    async def row() -> RunRow | None:
        found = await site.gateway.list(RunFilter(limit=500))
        return next((one for one in found.runs if one.id == run.id), None)

    assert await eventually(row)
    told = await row()
    assert told is not None
    assert (told.goal, told.label) == ("Name a fruit.", None)


@pytest.mark.parametrize("kind", ["RefineLoop", "RoleLoop", "DelegationLoop"])
async def test_every_kind_says_what_its_task_lacks(
    site: Installation, plain: Client, kind: str
) -> None:
    error, _ = await _refused(site, plain, {"gaol": "x", "budget": {"tokens": -1}}, kind=kind)
    assert "gaol" in error.message
    assert "budget.tokens" in error.message


async def test_a_refine_loop_reaches_its_rubric(site: Installation, plain: Client) -> None:
    model = await site.script(
        {"replies": [{"text": "one two three four five"}, {"text": "one two"}]}
    )
    task = {"goal": "Be short.", "rubric": SHORT, "models": {"executor": model}, "refine": PLAIN}
    result = await (await _started(site, plain, task, kind="RefineLoop")).result()
    assert isinstance(result, dict)
    assert (result["outcome"], result["output"]) == ("accepted", "one two")


REFUSED = {
    "no object": (["a goal"], 'The task is ["a goal"] instead of a JSON object'),
    "nothing in it": ({}, "goal"),
    "another kind": ({"goal": "x", "kind": "refine"}, "the workflow type AgentLoop runs agent"),
    "an unknown model": ({"goal": "x", "models": {"executor": "gpt-0"}}, "gpt-0"),
    "a relative folder": ({"goal": "x", "workspace": "."}, "workspace"),
    "no iterations": ({"goal": "x", "agent": {"max_iterations": 0}}, "agent.max_iterations"),
}


async def _refused(
    site: Installation, plain: Client, task: object, *, kind: str = "AgentLoop", name: str = ""
) -> tuple[ApplicationError, RunResult]:
    run = await _started(site, plain, task, kind=kind, name=name)
    with pytest.raises(WorkflowFailureError) as caught:
        await run.result()
    assert isinstance(caught.value.cause, ApplicationError)
    (told,) = caught.value.cause.details
    history = json.loads((await run.fetch_history()).to_json())["events"]
    assert "EVENT_TYPE_WORKFLOW_TASK_FAILED" not in {event["eventType"] for event in history}
    return caught.value.cause, RunResult.model_validate(told)


@pytest.mark.parametrize(("task", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_task_that_cannot_run_fails_at_once(
    site: Installation, plain: Client, task: object, words: str
) -> None:
    error, result = await _refused(site, plain, task)
    assert error.type == "RunFailed"
    assert error.message.startswith("failed/invalid_task: ")
    assert words in error.message
    assert (result.outcome, result.reason, result.spend.tokens) == ("failed", "invalid_task", 0)
    row = await site.parts.stores.records.run(result.id)
    assert row is not None
    assert (row.lifecycle, row.outcome) == ("failed", "failed")
    assert (await site.gateway.result(result.id)).reason == "invalid_task"


async def test_the_id_of_a_refused_task_is_free(site: Installation, plain: Client) -> None:
    name = f"again-{uuid.uuid4().hex[:8]}"
    await _refused(site, plain, {"goal": ""}, name=name)
    run = await _started(site, plain, await _agent(site, "A pear."), name=name)
    result = await run.result()
    assert isinstance(result, dict)
    assert result["output"] == "A pear."


async def test_the_same_task_under_the_same_id_is_one_run(
    site: Installation, plain: Client
) -> None:
    task = await _agent(site, "An apple.", "A second apple.")
    first = await _started(site, plain, task)
    once = await first.result()
    again = await (await _started(site, plain, task, name=first.id)).result()
    assert again == once
    assert await site.replies_taken(first.id) == 1
    other = {**task, "goal": "Name a tree."}
    error, _ = await _refused(site, plain, other, name=first.id)
    assert "started from another specification" in error.message
    assert (await site.gateway.result(first.id)).output == "An apple."


@pytest.mark.long
async def test_the_id_of_a_run_that_was_deleted_is_refused_and_gets_no_row(
    site: Installation, plain: Client
) -> None:
    task = await _agent(site, "An apple.")
    run = await _started(site, plain, task)
    await run.result()
    await site.gateway.delete(run.id)
    error, result = await _refused(site, plain, task, name=run.id)
    assert "was used: that run is gone" in error.message
    assert result.spend.tokens == 0
    assert await site.parts.stores.records.run(run.id) is None


async def test_a_reset_to_before_the_task_was_read_pays_nothing_again(
    site: Installation, plain: Client
) -> None:
    run = await _started(site, plain, await _agent(site, "An apple.", "A second apple."))
    once = await run.result()
    newest = await _reset_to_the_task(plain, run)
    assert await plain.get_workflow_handle(run.id, run_id=newest).result() == once
    assert await site.replies_taken(run.id) == 1
    assert (await site.gateway.status(run.id)).budget.tokens > 0


async def test_an_open_run_that_was_reset_to_before_its_task_goes_on_by_a_retry(
    site: Installation, plain: Client
) -> None:
    model = await site.script(
        {
            "replies": [
                {"tool_calls": [LOOKS]},
                {"tool_calls": [ASKS]},
                {"text": "An apple."},
                {"text": "A second apple."},
            ]
        }
    )
    task = {"goal": "Name a fruit.", "models": {"executor": model}, "tools": {"access": "readonly"}}
    run = await _started(site, plain, {**task, "budget": {"cost_usd": "1.25", "model_calls": 90}})

    async def asks() -> bool:
        return (await site.gateway.status(run.id)).blocked_on is not None

    assert await eventually(asks)
    await site.gateway.verb(run.id, Amend(budget={"cost_usd": "2.5", "tool_calls": 70}))
    newest = await _reset_to_the_task(plain, run)
    with pytest.raises(WorkflowFailureError) as caught:
        await plain.get_workflow_handle(run.id, run_id=newest).result()
    assert f"perdure retry {run.id}" in str(caught.value.cause)
    status = await site.gateway.status(run.id)
    limits = status.budget.limits
    assert status.lifecycle == "failed"
    assert (str(limits.cost_usd), limits.tool_calls, limits.model_calls) == ("2.5", 70, 90)
    assert (await site.gateway.result(run.id)).spend.model_calls == 2
    await site.gateway.verb(run.id, Retry())
    # The run's own answer, and not that of the store.
    own = await site.handle(run.id).query("status", result_type=RunStatus)
    assert own.budget.limits == limits
    row = await site.parts.stores.records.run(run.id)
    assert row is not None and row.status is not None
    assert read(RunStatus, row.status).budget.limits == limits
    await site.gateway.verb(run.id, Stop())


LOOKS = {"name": "fs.list", "arguments": {"path": "."}}
ASKS = {"name": "human.ask", "arguments": {"question": "which?"}}


async def _reset_to_the_task(plain: Client, run: WorkflowHandle[object, object]) -> str:
    """Reset the execution that read the task; the id of the new one."""
    first = run.first_execution_run_id
    history = await plain.get_workflow_handle(run.id, run_id=first).fetch_history()
    done = [
        event.event_id
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    answer = await plain.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=plain.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=first or ""),
            workflow_task_finish_event_id=done[0],
            request_id=uuid.uuid4().hex,
        )
    )
    return answer.run_id


async def test_what_is_said_before_it_is_opened_holds(site: Installation, plain: Client) -> None:
    name = f"early-{uuid.uuid4().hex[:8]}"
    task = await _agent(site, "An apple.")
    run = await plain.start_workflow(
        "AgentLoop", task, id=name, task_queue=site.settings.task_queue,
        start_signal="pause", start_signal_args=[{"by": "me"}],
    )  # fmt: skip
    await run.signal("add_input", {"text": "A red one."})

    async def paused() -> bool:
        return (await site.gateway.status(name)).lifecycle == "paused"

    await eventually(paused)
    status = await site.gateway.status(name)
    assert [said.text for said in status.said] == ["A red one."]
    await run.signal("resume")
    result = await run.result()
    assert isinstance(result, dict)
    assert result["outcome"] == "accepted"


async def test_lists_and_questions_show_its_goal_and_label(
    site: Installation, plain: Client
) -> None:
    model = await site.script({"replies": [{"tool_calls": [ASKS]}]})
    task = {
        "goal": "Name a\nfruit.",
        "metadata": {"label": "fruits"},
        "models": {"executor": model},
    }
    run = await _started(site, plain, task)

    async def asked() -> list[tuple[str, str]] | None:
        found = (await site.gateway.gates()).gates
        return [(one.goal, one.gate.prompt) for one in found if one.run == run.id] or None

    assert await eventually(asked) == [("Name a fruit.", "which?")]
    row = (await listed(site.gateway))[run.id]
    assert (row.goal, row.label) == ("Name a fruit.", "fruits")
    await site.gateway.verb(run.id, Stop())


async def test_it_costs_one_step_more(site: Installation, plain: Client) -> None:
    task = await _agent(site, "An apple.")
    run = await _started(site, plain, task)
    await run.result()
    by_door = await site.start({**task, "kind": "agent"})
    await site.gateway.result(by_door)
    assert await _steps(site, run.id) == await _steps(site, by_door)
    opening = plain.get_workflow_handle(run.id, run_id=run.first_execution_run_id)
    events = json.loads((await opening.fetch_history()).to_json())["events"]
    steps = [one for one in events if one["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED"]
    assert len(steps) == 1


async def _steps(site: Installation, run: str) -> int:
    events = await site.history(run)
    return sum(one["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED" for one in events)


async def test_a_task_without_a_worker_is_listed_and_waits(bare: Installation) -> None:
    plain = await Client.connect(bare.address)
    name = f"order:{uuid.uuid4().hex[:8]}"
    run = await _started(bare, plain, await _agent(bare, "An apple."), name=name)

    async def row_of_it() -> RunRow | None:
        return (await listed(bare.gateway)).get(name)

    row = await eventually(row_of_it)
    assert row is not None
    assert (row.kind, row.phase, row.trouble) == ("agent", "starting", "waiting for a worker")
    assert not row.failing
    assert await bare.gateway.resolve(name[:12]) == name
    assert (await bare.gateway.status(name)).phase == "starting"
    async with bare.worker():
        result = await run.result()
    assert isinstance(result, dict)
    assert result["outcome"] == "accepted"


async def test_a_run_that_begins_later_says_when_and_no_message_to_all_begins_it(
    bare: Installation,
) -> None:
    plain, task = await Client.connect(bare.address), await _agent(bare, "An apple.")
    run = await plain.start_workflow(
        "AgentLoop",
        task,
        id=f"later-{uuid.uuid4().hex[:8]}",
        task_queue=bare.settings.task_queue,
        start_delay=timedelta(hours=9),
    )

    async def told() -> str | None:
        row = (await listed(bare.gateway)).get(run.id)
        return None if row is None else row.trouble

    begins = (await run.describe()).execution_time
    assert begins is not None
    sentence = f"begins at {begins:%Y-%m-%d %H:%M:%S} UTC: it was started with a delay"
    assert await eventually(told) == sentence
    async with bare.worker():
        assert (await bare.gateway.status(run.id)).dispatch == sentence
        for kind in (None, "agent"):
            asked = await bare.gateway.verb_all(Pause(), kind=kind)
            assert asked.refused[run.id].startswith(sentence)
        assert run.id not in (await bare.gateway.verb_all(Pause(), kind="refine")).refused
        assert (await run.describe()).history_length == 1
        assert (await bare.gateway.verb(run.id, Stop())).verb == "stop"
        assert (await bare.gateway.result(run.id)).outcome == "stopped"


async def test_a_message_to_all_reaches_a_run_that_no_worker_has_opened(
    unmanned: Installation,
) -> None:
    plain = await Client.connect(unmanned.address)
    run = await _started(unmanned, plain, await _agent(unmanned, "An apple."))

    async def asked() -> bool:
        return run.id in (await unmanned.gateway.verb_all(Pause(), kind="agent")).refused

    await eventually(asked)


async def test_two_installations_on_one_queue_are_told(site: Installation, tmp_path: Path) -> None:
    queue = site.settings.task_queue
    connected = partial(services, site.settings)
    (found,) = [check async for check in task_queue(site.settings, connected)]
    assert found.state == "ok"
    async with (
        installation(tmp_path / "other", site.address, task_queue=queue) as other,
        other.worker(),
    ):
        (found,) = [check async for check in task_queue(site.settings, connected)]
        own = await other.parts.stores.records.installation()
    assert found.state == "warning"
    assert own in found.found
    assert "PERDURE_TASK_QUEUE" in found.cure
