"""The services of one home folder, with real processes: start, restart, stop, share."""

import asyncio
import base64
import json
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.foundation.names import SEARCH_ATTRIBUTES
from perdure.domain.foundation.progress import Standing
from perdure.domain.ports import Endpoints
from perdure.local_services import embedded_runtime
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.processes import ProcessRef, is_alive
from perdure.local_services.state import HomeFiles, read_state
from tests.local_services.support import (
    SERVER,
    WORKER,
    any_of_home,
    free_port,
    kill,
    process_of,
    processes_of,
    python,
)

MakeRuntime = Callable[..., EmbeddedRuntime]


async def _client(endpoints: Endpoints) -> Client:
    return await Client.connect(endpoints.temporal_address, namespace=endpoints.namespace)


async def _start_run(endpoints: Endpoints, run: str) -> None:
    """A run that stays open, since no worker polls its queue."""
    client = await _client(endpoints)
    await client.start_workflow("Waiting", id=run, task_queue="nobody")
    while (await client.count_workflows("ExecutionStatus = 'Running'")).count == 0:
        await asyncio.sleep(0.02)  # visibility follows a moment later


@pytest.mark.long
async def test_all_parts_serve_and_down_leaves_no_process(
    runtime_of: MakeRuntime, home: Path
) -> None:
    runtime = runtime_of(model_command=python(SERVER, "{port}"), local_model="auto", workers=2)
    told: list[str] = []
    endpoints = await runtime.ensure(told.append)
    state = await runtime.state()

    assert state is not None and state.is_serving
    assert [part.name for part in state.parts] == ["temporal", "model", "worker", "worker-2"]
    assert endpoints.model_url is not None and endpoints.ui_url is not None
    assert "starting the services" in told and "worker: running" in told
    assert len(any_of_home(home)) == 5  # supervisor, watcher and those, the model's stub aside

    assert await runtime.down()
    assert not any(is_alive(process) for process in processes_of(state))
    assert any_of_home(home) == []
    assert not await runtime.down()


@pytest.mark.long
async def test_with_a_key_the_web_ui_has_a_codec_server(
    runtime_of: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_RUNTIME_KEY", base64.b64encode(bytes(32)).decode())
    endpoints = await runtime_of(encryption_key="env:TEST_RUNTIME_KEY").ensure()
    async with httpx2.AsyncClient(trust_env=False) as client:
        told = (await client.get(f"{endpoints.ui_url}/api/v1/settings")).json()
        codec = told["Codec"]["Endpoint"]
        origin = {"origin": str(endpoints.ui_url), "x-namespace": "default"}
        answered = await client.post(f"{codec}/decode", json={"payloads": []}, headers=origin)
    assert answered.status_code == 200
    assert answered.headers["access-control-allow-origin"] == endpoints.ui_url


@pytest.mark.long
async def test_namespace_is_prepared(runtime: EmbeddedRuntime) -> None:
    client = await _client(await runtime.ensure())
    namespace = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace="default")
    )
    kept = namespace.config.workflow_execution_retention_ttl
    assert timedelta(seconds=kept.seconds) == timedelta(days=30)
    for name in SEARCH_ATTRIBUTES:
        assert (await client.count_workflows(f"{name} IS NULL")).count == 0


@pytest.mark.long
async def test_the_database_is_in_a_home_of_any_name(
    runtime_of: MakeRuntime, tmp_path: Path
) -> None:
    home = tmp_path / "C#" / "why?100%41"
    await runtime_of(home=home).ensure()
    assert HomeFiles(home).temporal_database.is_file()
    assert [one.name for one in tmp_path.iterdir()] == ["C#"]
    assert len(any_of_home(home)) == 4  # supervisor, watcher, server, worker


@pytest.mark.long
async def test_a_second_ensure_finds_the_first_and_says_nothing(runtime: EmbeddedRuntime) -> None:
    first = await runtime.ensure()
    told: list[str] = []
    assert await runtime.ensure(told.append) == first
    assert told == []


@pytest.mark.long
async def test_killed_server_comes_back_on_its_port_with_its_runs(runtime: EmbeddedRuntime) -> None:
    endpoints = await runtime.ensure()
    await _start_run(endpoints, "kept")
    before = process_of(await runtime.state(), "temporal")

    kill(before)
    await eventually(lambda: not is_alive(before))
    assert await runtime.ensure() == endpoints

    after = await runtime.state()
    assert process_of(after, "temporal") != before
    client = await _client(endpoints)
    assert (await client.get_workflow_handle("kept").describe()).id == "kept"


@pytest.mark.long
async def test_killed_worker_is_replaced(runtime: EmbeddedRuntime) -> None:
    await runtime.ensure()
    before = await runtime.state()
    kill(process_of(before, "worker"))
    await eventually(lambda: not is_alive(process_of(before, "worker")))
    await runtime.ensure()
    after = await runtime.state()
    assert process_of(after, "worker") != process_of(before, "worker")
    assert process_of(after, "temporal") == process_of(before, "temporal")
    restarted = after.part("worker") if after else None
    assert restarted is not None and restarted.restarts >= 1


@pytest.mark.long
async def test_next_start_finds_ports_and_runs_again(runtime: EmbeddedRuntime) -> None:
    endpoints = await runtime.ensure()
    await _start_run(endpoints, "kept")
    await runtime.down()
    assert await runtime.ensure() == endpoints
    client = await _client(endpoints)
    assert (await client.get_workflow_handle("kept").describe()).id == "kept"


@pytest.mark.long
async def test_a_taken_port_moves(runtime_of: MakeRuntime) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        wished = taken.getsockname()[1]
        endpoints = await runtime_of(temporal_port=wished).ensure()
    assert endpoints.temporal_address != f"127.0.0.1:{wished}"
    assert (await _client(endpoints)).namespace == "default"


@pytest.mark.long
async def test_two_commands_at_once_start_one_supervisor(
    home: Path, runtime: EmbeddedRuntime
) -> None:
    script = (
        "import asyncio, json, os, sys\n"
        "from perdure.local_services.embedded_runtime import EmbeddedRuntime\n"
        "from perdure.adapters.settings.variables import Settings\n"
        "command = tuple(json.loads(sys.argv[2]))\n"
        "settings = Settings.load(home=sys.argv[1], local_model='off', worker_command=command)\n"
        "print(asyncio.run(EmbeddedRuntime(settings).ensure()).model_dump_json(), flush=True)\n"
        "os._exit(0)\n"
    )
    arguments = ("-P", "-c", script, str(home), json.dumps(python(WORKER)))
    commands = [
        await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    answers = [(await command.communicate())[0] for command in commands]
    assert len(set(answers)) == 1
    assert Endpoints.model_validate_json(answers[0]).home == str(home)
    assert len(any_of_home(home)) == 5  # one supervisor, watcher, server, worker, API


@pytest.mark.long
async def test_who_waits_for_the_start_of_another_command_is_told(runtime: EmbeddedRuntime) -> None:
    told: list[str] = []
    both = [asyncio.create_task(runtime.ensure(told.append)) for _ in range(2)]
    assert len({(await one).model_dump_json() for one in both}) == 1
    assert told.count("another command is starting the services") == 1
    assert told.count("starting the services") == 1


@pytest.mark.long
async def test_a_worker_that_fails_is_named_with_its_last_words(runtime_of: MakeRuntime) -> None:
    broken = runtime_of(worker_command=python("import sys; sys.exit('no such plugin: foo')"))
    with pytest.raises(RuntimeUnavailable, match=r"(?s)'worker' does not start.*no such plugin"):
        await broken.ensure()
    assert await broken.state() is None


@pytest.mark.long
async def test_search_attribute_of_another_type_is_an_error(runtime: EmbeddedRuntime) -> None:
    from temporalio.api.enums.v1 import IndexedValueType
    from temporalio.api.operatorservice.v1 import (
        AddSearchAttributesRequest,
        RemoveSearchAttributesRequest,
    )

    from perdure.local_services.register_search_attributes import register_search_attributes

    client = await _client(await runtime.ensure())
    name = "PerdureScore"
    await client.operator_service.remove_search_attributes(
        RemoveSearchAttributesRequest(namespace="default", search_attributes=[name])
    )
    kinds = {name: IndexedValueType.INDEXED_VALUE_TYPE_INT}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace="default", search_attributes=kinds)
    )
    with pytest.raises(RuntimeUnavailable, match="PerdureScore should be Double and is Int"):
        await register_search_attributes(client)


@pytest.mark.long
async def test_idle_services_end_and_an_open_run_keeps_them(runtime_of: MakeRuntime) -> None:
    idle_s = 4.0  # a busy machine takes a while to start the run, which must come in time
    runtime = runtime_of(idle_minutes=idle_s / 60)
    endpoints = await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    await _start_run(endpoints, "open")
    checks = HomeFiles(Path(endpoints.home)).used
    seen = checks.stat().st_mtime
    await eventually(lambda: checks.stat().st_mtime > seen + idle_s + 1)
    assert is_alive(state.supervisor)

    client = await _client(endpoints)
    await client.get_workflow_handle("open").terminate()
    await eventually(lambda: not is_alive(state.supervisor))
    assert any_of_home(endpoints.home) == []


@pytest.mark.long
async def test_other_settings_restart_unless_a_run_is_open(
    runtime: EmbeddedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = await runtime.ensure()
    first = await runtime.state()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-secret")
    told: list[str] = []
    await runtime.ensure(told.append)
    second = await runtime.state()
    assert first is not None and second is not None
    assert second.supervisor != first.supervisor
    assert told[0] == "restarting the services with the new settings"
    assert "a-secret" not in HomeFiles(Path(endpoints.home)).state.read_text(encoding="utf-8")

    await _start_run(endpoints, "open")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
    told.clear()
    await runtime.ensure(told.append)
    third = await runtime.state()
    assert third is not None and third.supervisor == second.supervisor
    assert told == [
        "the running services keep their settings; `perdure down` applies ANTHROPIC_API_KEY"
    ]


@pytest.mark.long
async def test_a_plugin_that_was_edited_is_loaded_anew_unless_a_run_is_open(
    runtime_of: MakeRuntime, tmp_path: Path
) -> None:
    plugin = tmp_path / "tools.py"
    plugin.write_text("VERSION = 1\n")
    runtime = runtime_of(plugins=(str(plugin),))
    endpoints = await runtime.ensure()
    first = await runtime.state()
    told: list[str] = []
    await runtime.ensure(told.append)
    assert (await runtime.state(), told) == (first, [])

    plugin.write_text("VERSION = 2\n")
    await runtime.ensure(told.append)
    second = await runtime.state()
    assert first is not None and second is not None and second.supervisor != first.supervisor
    assert told[0] == "restarting the services with the new settings"

    await _start_run(endpoints, "open")
    plugin.write_text("VERSION = 3\n")
    told.clear()
    await runtime.ensure(told.append)
    last = await runtime.state()
    assert last is not None and last.supervisor == second.supervisor
    waits = f"`perdure down` applies the code of {plugin}"
    assert told == [f"the running services keep their settings; {waits}"]
    assert isinstance(told[0], Standing)


@pytest.mark.long
async def test_settings_of_another_shell_stay_until_up_is_said_without_them(
    runtime: EmbeddedRuntime, runtime_of: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_ALLOW_COMMANDS", "pytest")
    await runtime_of().ensure()
    first = await runtime.state()
    monkeypatch.delenv("PERDURE_ALLOW_COMMANDS")
    told: list[str] = []
    await runtime_of().ensure(told.append)
    assert await runtime.state() == first
    assert told == []

    await runtime_of().ensure(told.append, exactly=True)
    last = await runtime.state()
    assert first is not None and last is not None and last.supervisor != first.supervisor
    assert (
        told[0] == "restarting the services with the new settings, without PERDURE_ALLOW_COMMANDS"
    )


async def test_a_named_server_that_does_not_answer_is_an_error(
    settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    settings = settings_of()
    with pytest.raises(
        RuntimeUnavailable, match=f"{address} does not answer: connection refused\\."
    ):
        await EmbeddedRuntime(settings).ensure()
    assert read_state(HomeFiles(settings.home)) is None


async def test_a_full_disk_is_named_when_the_services_do_not_start(
    settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_path: object) -> SimpleNamespace:
        return SimpleNamespace(free=0)

    def ended(*_given: object) -> ProcessRef:
        return ProcessRef(pid=2**22 + 1, started="never")

    monkeypatch.setattr(embedded_runtime.shutil, "disk_usage", no_room)
    monkeypatch.setattr(embedded_runtime, "spawn_supervisor", ended)
    with pytest.raises(RuntimeUnavailable, match=r"the disk of .* is full .*Free disk space"):
        await EmbeddedRuntime(settings_of()).ensure()


@pytest.mark.long
async def test_a_named_server_is_used(
    runtime: EmbeddedRuntime,
    runtime_of: MakeRuntime,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = await runtime.ensure()
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.temporal_address)
    guest = runtime_of(home=tmp_path / "guest")
    endpoints = await guest.ensure()
    state = await guest.state()
    assert endpoints.temporal_address == server.temporal_address
    assert state is not None and [part.name for part in state.parts] == ["worker"]


@pytest.mark.model
async def test_the_packaged_model_is_served(runtime_of: MakeRuntime) -> None:
    endpoints = await runtime_of(local_model="on").ensure()
    assert endpoints.model_url is not None
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{endpoints.model_url}/health")).is_success
