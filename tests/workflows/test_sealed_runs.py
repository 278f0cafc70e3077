"""With a key, Temporal keeps nothing of a run that can be read without it."""

import base64
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from agent_runs import answer, call, calls, gate_of, script, task
from delegating import completes, delegates, delegation, works
from delegating import script as delegation_script
from installation import PATIENT, Installation, installation
from invariants import executions
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.temporal.data_converter import data_converter
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.run.messages import Amend, Answer
from perdure.domain.run.status import RunStatus
from perdure.gateway.execution_info import SEALED_GOAL
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.operations.replay import replay

SECRET = "zanzibar"
KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
async def sealed(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    monkeypatch.setenv("TEST_SEALING_KEY", KEY)
    address = server.client.service_client.config.target_host
    opened = installation(
        tmp_path / "home", address, encryption_key="env:TEST_SEALING_KEY", plugins=("probe_tools",)
    )
    async with opened as made, made.worker():
        yield made


async def _kept_by_the_server(site: Installation, run: str) -> bytes:
    """All that a client without the key gets to see of a run."""
    stranger = await Client.connect(site.address)
    described = await stranger.get_workflow_handle(run).describe()
    histories = await executions(site, run)
    # Histories are fetched as they are: the key is used only where something is decoded.
    kept = [event.SerializeToString() for history in histories for event in history.events]
    return b"".join((described.raw_description.SerializeToString(), *kept))


async def test_goal_prompts_tools_gates_and_result_are_sealed(sealed: Installation) -> None:
    asked = calls(call("human.ask", question=f"Which {SECRET}?"))
    spec = task(
        goal=f"look for {SECRET}", tools={"access": "readonly"}, agent={"system": f"Love {SECRET}."}
    )
    content = script(calls(call("probe.echo", text=SECRET)), asked, {"text": f"Found {SECRET}."})
    run = await sealed.start(spec, content, run_id="agent-sealed")
    await eventually(lambda: gate_of(sealed, run))
    gate = await gate_of(sealed, run)
    assert gate is not None and SECRET in gate.prompt
    await answer(sealed, run, gate, "", f"the {SECRET} of the north")
    result = await sealed.gateway.result(run)
    assert result.output == f"Found {SECRET}."
    kept = await _kept_by_the_server(sealed, run)
    assert SECRET.encode() not in kept
    assert base64.b64encode(SECRET.encode()) not in kept
    assert b"binary/encrypted" in kept
    page = await sealed.gateway.list()
    assert f"look for {SECRET}" in [row.goal for row in page.runs]


async def test_a_label_that_a_run_gets_only_later_is_sealed(sealed: Installation) -> None:
    content = script(calls(call("human.ask", question="Which?")), {"text": "done"})
    run = await sealed.start(task(tools={"access": "readonly"}), content)
    await eventually(lambda: gate_of(sealed, run))
    gate = await gate_of(sealed, run)
    assert gate is not None
    await sealed.gateway.verb(run, Amend(metadata={"label": SECRET}, by="ann"))
    await answer(sealed, run, gate, "", "this one")
    await sealed.gateway.result(run)
    assert (await sealed.gateway.status(run)).label == SECRET
    assert SECRET.encode() not in await _kept_by_the_server(sealed, run)


async def test_a_sealed_run_does_not_hide_the_others_from_who_lacks_its_key(
    sealed: Installation, tmp_path: Path
) -> None:
    run = await sealed.start(task(goal=f"look for {SECRET}"), script({"text": "x"}))
    await sealed.gateway.result(run)
    async with installation(tmp_path / "stranger", sealed.address) as stranger:
        keyless = TemporalGateway(
            partial(_itself, stranger.client), address=stranger.address, waits=PATIENT
        )

        async def listed() -> list[str]:
            rows, _ = await keyless.page("PerdureKind IS NOT NULL", limit=500)
            return [row.memo["goal"] for row in rows if row.id == run]

        assert await eventually(listed) == [SEALED_GOAL]


async def _itself(client: Client) -> Client:
    return client


async def test_the_words_of_a_failure_are_sealed(sealed: Installation) -> None:
    broken = {"error": {"status": 400, "message": f"no {SECRET} here"}}
    run = await sealed.start(task(goal=f"look for {SECRET}"), script(broken), run_id="agent-fails")
    result = await sealed.gateway.result(run)
    assert result.outcome == "failed"
    assert result.error is not None and SECRET in result.error
    assert SECRET.encode() not in await _kept_by_the_server(sealed, run)


async def test_a_sealed_history_is_replayed(sealed: Installation) -> None:
    content = script(calls(call("probe.echo", text="x")), {"text": "Done."})
    run = await sealed.start(task(), content, run_id="agent-replayed")
    await sealed.gateway.result(run)
    exported = await sealed.gateway.history_export(run)
    keys = encryption_keys(sealed.settings)
    found = [one async for one in replay({run: exported}, sealed.parts.stores.blobs, keys=keys)]
    assert [one.problem for one in found] == [None]


async def test_a_large_payload_is_kept_by_its_content(sealed: Installation) -> None:
    """Beyond 256 KiB the store keeps it, once however often it is sent."""
    blobs = sealed.parts.stores.blobs
    converter = data_converter(blobs, encryption_keys(sealed.settings))
    first, second = [(await converter.encode([SECRET * 40_000]))[0] for _ in range(2)]
    assert len(first.SerializeToString()) < 1_000
    assert first.data == second.data
    assert await converter.decode([first]) == [SECRET * 40_000]


async def test_what_a_stranger_sealed_is_refused_and_the_run_goes_on(sealed: Installation) -> None:
    run = await sealed.start(
        task(tools={"access": "readonly"}),
        script(calls(call("human.ask", question="Which?")), {"text": "x"}),
    )
    await eventually(lambda: gate_of(sealed, run))
    strange = data_converter(None, [b"s" * 32])
    stranger = await Client.connect(sealed.address, data_converter=strange)
    await stranger.get_workflow_handle(run).signal("pause", {"by": "me"})

    async def refused() -> tuple[str, ...]:
        return (await sealed.handle(run).query("status", result_type=RunStatus)).refused

    await eventually(refused)
    (why,) = await refused()
    assert "which is not known here" in why
    await sealed.handle(run).signal("stop", {"mode": "now"})
    assert (await sealed.gateway.result(run)).outcome == "stopped"


ASKS = {"tools": {"access": "readonly"}}
FORGED = {"choice": "approve", "by": "somebody without the key"}


async def _refused(site: Installation, run: str) -> tuple[str, ...]:
    status = await site.handle(run).query("status", result_type=RunStatus)
    return status.refused


async def test_what_nobody_sealed_orders_nothing(sealed: Installation) -> None:
    run = await sealed.start(
        task(**ASKS), script(calls(call("human.ask", question="Which?")), {"text": "Done."})
    )
    await eventually(lambda: gate_of(sealed, run))
    gate = await gate_of(sealed, run)
    assert gate is not None
    stranger = await Client.connect(sealed.address)
    handle = stranger.get_workflow_handle(run)
    await handle.signal("answer", {**FORGED, "gate": "g1", "text": "mine"})
    await handle.signal("stop", {"mode": "now"})
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update("answer", {**FORGED, "gate": "g1", "text": "mine"})
    await eventually(lambda: _all_refused(sealed, run, count=2))
    why = await _refused(sealed, run)
    assert all("came unencrypted" in one for one in why)
    assert await gate_of(sealed, run) is not None
    await answer(sealed, run, gate, "", "the north")
    assert (await sealed.gateway.result(run)).output == "Done."
    exported = await sealed.gateway.history_export(run)
    keys = encryption_keys(sealed.settings)
    found = [one async for one in replay({run: exported}, sealed.parts.stores.blobs, keys=keys)]
    assert [one.problem for one in found] == [None]


async def _all_refused(site: Installation, run: str, *, count: int) -> tuple[str, ...]:
    found = await _refused(site, run)
    return found if len(found) >= count else ()


async def test_what_was_sealed_for_another_run_orders_nothing(sealed: Installation) -> None:
    """As who reads the histories could copy an approval from one run into another."""
    asking = script(calls(call("human.ask", question="Which?")), {"text": "Done."})
    first, second = [await sealed.start(task(**ASKS), asking) for _ in range(2)]
    for run in (first, second):
        await eventually(lambda run=run: gate_of(sealed, run))
    await sealed.handle(first).signal("stop", {"mode": "now"})
    await sealed.gateway.result(first)
    (history, *_) = await executions(sealed, first)
    (copied,) = [
        event.workflow_execution_signaled_event_attributes.input
        for event in history.events
        if event.workflow_execution_signaled_event_attributes.signal_name == "stop"
    ]
    stranger = await Client.connect(sealed.address)
    await stranger.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace="default",
            workflow_execution=WorkflowExecution(workflow_id=second),
            signal_name="stop",
            input=copied,
        )
    )
    await eventually(lambda: _refused(sealed, second))
    (why,) = await _refused(sealed, second)
    assert "it was moved" in why
    assert await gate_of(sealed, second) is not None
    await sealed.handle(second).signal("stop", {"mode": "now"})
    assert (await sealed.gateway.result(second)).outcome == "stopped"


async def test_a_tree_of_runs_reads_what_its_own_runs_sealed(sealed: Installation) -> None:
    replies = delegates("w1", "w2"), works("w1"), works("w2", SECRET), completes(SECRET)
    result = await sealed.run(delegation(), delegation_script(*replies))
    assert (result.outcome, result.output) == ("accepted", SECRET)
    assert SECRET.encode() not in await _kept_by_the_server(sealed, result.id)


async def test_runs_from_before_the_key_go_on_where_plain_values_are_read(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_SEALING_KEY", KEY)
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address) as before, before.worker():
        run = await before.start(
            task(**ASKS), script(calls(call("human.ask", question="Which?")), {"text": "Done."})
        )
        await eventually(lambda: gate_of(before, run))
        gate = await gate_of(before, run)
    assert gate is not None
    opened = installation(
        tmp_path / "home", address, encryption_key="env:TEST_SEALING_KEY", encryption_plain="read"
    )
    async with opened as after, after.worker():
        await answer(after, run, gate, "", "the north")
        assert (await after.gateway.result(run)).output == "Done."


async def test_a_question_below_is_told_and_answered_sealed(sealed: Installation) -> None:
    asked = calls(call("human.ask", question=f"Which {SECRET}?"))
    run = await sealed.start(
        delegation(tools={"access": "readonly"}),
        delegation_script(
            delegates("w1"),
            {**asked, "when": {"role": "worker", "worker": "w1"}},
            works("w1"),
            completes(),
        ),
    )

    async def told() -> bool:
        return bool((await sealed.status(run)).questions)

    await eventually(told)
    assert SECRET in (await sealed.status(run)).questions[0].prompt
    await sealed.gateway.verb(run, Answer(gate="g1", text=f"the {SECRET}", by="t"))
    assert (await sealed.gateway.result(run)).outcome == "accepted"
    assert SECRET.encode() not in await _kept_by_the_server(sealed, run)
