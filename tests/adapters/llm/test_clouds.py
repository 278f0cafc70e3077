"""Claude at cloud providers: the same dialect, other addresses and credentials."""

import base64
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from perdure.adapters.llm.access import ModelAccess, access_from, lacking_models
from perdure.adapters.llm.messages import MessagesModel
from perdure.adapters.llm.pricing import ModelPrices
from perdure.adapters.llm.registry import ModelCatalog
from perdure.adapters.settings.variables import Settings
from tests.adapters.llm.support import (
    MemoryBlobs,
    MemoryRecords,
    Provider,
    events,
    fails,
    hello,
    problem,
    request,
    say,
    stores,
)

VARIABLES = {
    "bedrock": {"AWS_BEARER_TOKEN_BEDROCK": "key", "AWS_REGION": "eu-north-1"},
    "foundry": {"ANTHROPIC_FOUNDRY_API_KEY": "key", "ANTHROPIC_FOUNDRY_RESOURCE": "mine"},
}


def frame(payload: dict[str, Any], **named: str) -> bytes:
    """One frame of Amazon's own stream format."""
    headers = b""
    for name, value in named.items():
        title = f":{name.replace('_', '-')}"
        headers += struct.pack("!B", len(title)) + title.encode()
        headers += struct.pack("!BH", 7, len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    made = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return made + struct.pack("!I", zlib.crc32(made))


def framed(event: dict[str, Any]) -> bytes:
    inner = base64.b64encode(json.dumps(event).encode()).decode()
    named = {"event_type": "chunk", "content_type": "application/json", "message_type": "event"}
    return frame({"bytes": inner}, **named)


def amazon() -> httpx2.Response:
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    return httpx2.Response(200, headers=headers, content=b"".join(map(framed, hello())))


ANSWERS: dict[str, Callable[[], httpx2.Response]] = {
    "bedrock": amazon,
    "foundry": lambda: events(*hello()),
}
HOSTS = {
    "bedrock": "bedrock-runtime.eu-north-1.amazonaws.com",
    "foundry": "mine.services.ai.azure.com",
}


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in (
        "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID",
        "ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def client(cloud: str, provider: Provider) -> MessagesModel:
    return provider.client(base_url="", api_key=None, prefix=f"{cloud}:", cloud=cloud)


@pytest.mark.parametrize("cloud", VARIABLES)
async def test_a_call_goes_to_the_cloud(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES[cloud].items():
        monkeypatch.setenv(name, value)
    asked: list[httpx2.URL] = []

    def answer(sent: httpx2.Request) -> httpx2.Response:
        asked.append(sent.url)
        return ANSWERS[cloud]()

    model = client(cloud, Provider(answer))
    reply, pieces = await say(model, request(f"{cloud}:claude-x"))
    assert "".join(pieces) == reply.message.text == "Hello"
    assert asked[0].host == HOSTS[cloud]
    assert ":claude-x" not in str(asked[0])
    await model.aclose()


@pytest.mark.parametrize(
    ("cloud", "name"),
    [("bedrock", "AWS_BEARER_TOKEN_BEDROCK"), ("foundry", "ANTHROPIC_FOUNDRY_API_KEY")],
)
async def test_its_key_may_be_a_reference(
    cloud: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("the-key\n")
    for variable, value in {**VARIABLES[cloud], name: f"file:{tmp_path}/key"}.items():
        monkeypatch.setenv(variable, value)
    sent: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.extend(request.headers.values())
        return ANSWERS[cloud]()

    model = client(cloud, Provider(answer))
    await say(model, request(f"{cloud}:claude-x"))
    assert any("the-key" in value for value in sent)
    assert not any("file:" in value for value in sent)
    await model.aclose()


async def test_amazons_signature_is_made_with_the_secrets_behind_references(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env:TEST_ACCESS_KEY")
    monkeypatch.setenv("TEST_ACCESS_KEY", "the-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "plain")
    sent: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.headers["authorization"])
        return amazon()

    model = client("bedrock", Provider(answer))
    await say(model, request("bedrock:claude-x"))
    assert "Credential=the-access-key/" in sent[0]
    await model.aclose()


@pytest.mark.parametrize("cloud", VARIABLES)
async def test_errors_are_those_of_the_messages_api(
    cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES[cloud].items():
        monkeypatch.setenv(name, value)
    limited = problem(429, "rate_limit_error", **{"retry-after": "17"})
    facts = await fails(client(cloud, Provider(limited)), request(f"{cloud}:claude-x"))
    assert (facts.kind, facts.retry_after_s, facts.sent) == ("rate_limited", 17.0, True)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("throttlingException", "rate_limited"),
        ("serviceUnavailableException", "overloaded"),
        ("modelStreamErrorException", "server"),
    ],
)
async def test_faults_inside_amazons_stream(
    fault: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES["bedrock"].items():
        monkeypatch.setenv(name, value)
    content = b"".join(map(framed, hello()[:3])) + frame(
        {"message": "no luck"}, exception_type=fault, message_type="exception"
    )
    headers = {"content-type": "application/vnd.amazon.eventstream"}
    answer = httpx2.Response(200, headers=headers, content=content)
    facts = await fails(client("bedrock", Provider(answer)), request("bedrock:claude-x"))
    assert facts.kind == kind
    assert facts.usage.input_tokens == 10
    assert not facts.confirmed


@pytest.mark.parametrize(
    ("cloud", "words"),
    [("bedrock", "AWS_REGION"), ("vertex", "CLOUD_ML_REGION"), ("foundry", "FOUNDRY_API_KEY")],
)
async def test_without_credentials_nothing_is_sent(cloud: str, words: str) -> None:
    provider = Provider(events(*hello()))
    facts = await fails(client(cloud, provider), request(f"{cloud}:claude-x"))
    assert (facts.kind, facts.sent) == ("authentication", False)
    assert words in facts.message
    assert provider.bodies == []


async def test_credentials_that_are_missing_when_a_request_is_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    provider = Provider(events(*hello()))
    facts = await fails(client("bedrock", provider), request("bedrock:claude-x"))
    assert (facts.kind, facts.sent) == ("authentication", False)
    assert "AWS_PROFILE" in facts.message


def test_what_is_missing_is_told_before_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lacking_models(access_from(Settings.load()))
    assert "bedrock" not in found, "its credentials may come from anywhere"
    assert "CLOUD_ML_REGION" in found["vertex"]
    assert "ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE" in found["foundry"]
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_API_KEY", "key")
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_BASE_URL", "https://mine.example")
    assert "foundry" not in lacking_models(access_from(Settings.load()))


@pytest.mark.parametrize(("cloud", "extra"), [("bedrock", "bedrock"), ("vertex", "vertex")])
async def test_a_missing_extra_is_named(
    cloud: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.adapters.llm.model_names.find_spec", lambda _: None)
    blobs, records = stores(MemoryBlobs(), MemoryRecords())
    names = ModelCatalog(access=ModelAccess(), blobs=blobs, records=records, prices=ModelPrices())
    facts = await fails(names, request(f"{cloud}:claude-x"))
    assert (facts.kind, facts.sent) == ("unavailable", False)
    assert f"pip install 'perdure[{extra}]'" in facts.message
