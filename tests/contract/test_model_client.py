"""What every `ModelClient` must do, whoever serves the model."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass

import httpx2
import pytest

from perdure.adapters.llm.embedded_client import EmbeddedModel
from perdure.adapters.llm.embedded_facts import CARD
from perdure.adapters.llm.openai_dialects.client import OpenAIModel
from perdure.adapters.llm.openai_dialects.server import Server
from perdure.domain.llm.requests import ModelRequest
from perdure.domain.ports import ModelClient
from tests.adapters.llm.support import (
    CLAUDE,
    READ_TOOL,
    Provider,
    end,
    events,
    request,
    say,
    script_name,
    scripted,
    start,
    text_block,
    tool_block,
)

SCRIPT = """
replies:
  - {when: {contains: "Read the notes"}, tool_calls: [{name: fs.read, arguments: {path: notes}}]}
  - when: {contains: forever}
    text: "%s"
    delay_s: 30
  - {text: Hello there.}
exhausted: repeat_last
""" % ("on and on " * 1000)


@dataclass(frozen=True, slots=True)
class Subject:
    """A client under test, and the name of a model that it serves."""

    client: ModelClient
    model: str
    free: bool
    forces: bool = True

    def request(self, text: str = "Say hello.", **changes: object) -> ModelRequest:
        return request(self.model, text, **changes)


class _Endless(httpx2.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        yield self._content
        await asyncio.Event().wait()


def _answer(asked: httpx2.Request) -> httpx2.Response:
    said = asked.content.decode()
    if "Read the notes" in said:
        return events(start(), *tool_block(0, '{"path": "notes"}'), *end("tool_use"))
    if "forever" in said:
        began = events(start(), *text_block(0, "on and on")[:2])
        return httpx2.Response(200, headers=began.headers, stream=_Endless(began.content))
    return events(start(), *text_block(0, "Hello ", "there."), *end())


@pytest.fixture(scope="module")
def embedded_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    module = "perdure.adapters.llm.embedded_server"
    home = str(tmp_path_factory.mktemp("model-home"))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, "--port", str(port), "--home", home]
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


async def _until_healthy(url: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        for _ in range(1500):
            try:
                if (await client.get(f"{url}/health")).is_success:
                    return
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.02)
    raise AssertionError("the embedded model did not start")


REAL = [pytest.param(name, marks=pytest.mark.model) for name in ("embedded", "chat", "responses")]


@pytest.fixture(params=["scripted", "messages", *REAL])
async def subject(request: pytest.FixtureRequest) -> AsyncGenerator[Subject]:
    if request.param == "scripted":
        client = scripted(SCRIPT)
        yield Subject(client=client, model=script_name(SCRIPT), free=True)
    elif request.param == "messages":
        messages = Provider(_answer, count=12).client()
        yield Subject(client=messages, model=CLAUDE, free=False)
        await messages.aclose()
    else:
        url = request.getfixturevalue("embedded_url")
        await _until_healthy(url)
        if request.param == "embedded":
            client = EmbeddedModel(url=url)
            yield Subject(client=client, model="local", free=True)
        else:
            client, model = through_openai(url, request.param)
            yield Subject(client=client, model=model, free=True, forces=False)
        await client.aclose()


def through_openai(url: str, dialect: str) -> tuple[OpenAIModel, str]:
    """The embedded engine through the client of OpenAI, in one of its two dialects."""
    prefix = "openai:" if dialect == "responses" else "compat:box/"
    server = Server(
        title="The engine",
        prefix=prefix,
        base_url=f"{url}/v1",
        api_key="none",
        no_key="",
        dialect="responses" if dialect == "responses" else "chat",
    )
    client = OpenAIModel(server, cards=lambda name: CARD.model_copy(update={"name": name}))
    return client, f"{prefix}smollm2"


async def test_text_arrives_in_pieces_that_add_up(subject: Subject) -> None:
    reply, pieces = await say(subject.client, subject.request(max_tokens=40))
    assert reply.message.role == "assistant"
    assert "".join(pieces) == reply.message.text
    assert reply.message.text
    assert reply.stop_reason in {"end_turn", "max_tokens"}


async def test_usage_model_and_request_id_are_reported(subject: Subject) -> None:
    reply, _ = await say(subject.client, subject.request(max_tokens=20))
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.output_tokens > 0
    assert reply.model
    assert reply.request_id or not subject.forces, "only the engine itself gives none"


async def test_a_forced_tool_is_called_by_its_own_name(subject: Subject) -> None:
    if not subject.forces:
        pytest.skip("the engine forces this model only through the transport of `local`")
    wanted = subject.request(
        "Read the notes.", tools=(READ_TOOL,), tool_choice="fs.read", max_tokens=200
    )
    reply, _ = await say(subject.client, wanted)
    assert reply.stop_reason == "tool_use"
    (call,) = reply.message.tool_uses
    assert call.name == "fs.read"
    assert call.id
    assert isinstance(call.arguments["path"], str)


async def test_cancellation_passes_through(subject: Subject) -> None:
    began = asyncio.Event()
    wanted = subject.request("Tell a story that goes on forever.", max_tokens=900)
    call = asyncio.ensure_future(subject.client.call(wanted, on_text=lambda _: began.set()))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_count_is_a_number_or_unknown(subject: Subject) -> None:
    counted = await subject.client.count(subject.request())
    assert counted is None or counted > 0


async def test_card_has_room_and_a_price_or_none(subject: Subject) -> None:
    card = await subject.client.card(subject.model)
    assert card.window > card.max_output > 0
    if subject.free:
        assert card.price is not None
    else:
        assert card.price is None
