"""With a key, Temporal keeps nothing of a run that can be read without it."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_runs import answer, call, calls, gate_of, script, task
from installation import Installation, installation
from invariants import executions
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.converting import data_converter
from perdure.adapters.keys import encryption_keys
from perdure.domain.status import RunStatus
from perdure.interfaces.gateway.facts import RunFilter
from perdure.interfaces.gateway.server import SEALED_GOAL
from perdure.operations.replaying import replay

SECRET = "zanzibar"
KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
async def sealed(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    monkeypatch.setenv("TEST_SEALING_KEY", KEY)
    address = server.client.service_client.config.target_host
    opened = installation(
        tmp_path / "home",
        address,
        encryption_key="env:TEST_SEALING_KEY",
        plugins=("probe_tools",),
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


async def test_a_sealed_run_does_not_hide_those_of_an_installation_without_its_key(
    sealed: Installation, tmp_path: Path
) -> None:
    run = await sealed.start(task(goal=f"look for {SECRET}"), script({"text": "x"}))
    await sealed.gateway.result(run)
    async with installation(tmp_path / "stranger", sealed.address) as stranger:

        async def listed() -> list[str]:
            rows = (await stranger.gateway.list(RunFilter(limit=500))).runs
            return [row.goal for row in rows if row.id == run]

        assert await eventually(listed) == [SEALED_GOAL]


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
