"""The codec server as the Web UI and the `temporal` command use it: protocol, origins, refusals."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

import httpx2
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from structlog.testing import capture_logs
from structlog.typing import EventDict
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import WorkflowSerializationContext
from waiting import eventually

from perdure.adapters.temporal import codec_server
from perdure.adapters.temporal.codec_server import CodecServer
from perdure.adapters.temporal.encryption import EncryptionCodec
from perdure.domain.foundation.errors import ServiceUnavailable

KEY, OTHER = bytes(range(32)), bytes(32)
TOKEN = "the-token-of-the-codec-server-1"
SHOWN = {"authorization": f"Bearer {TOKEN}"}
PAGE = "http://127.0.0.1:8233"
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"a secret goal"')


@dataclass(frozen=True)
class Served:
    """A codec server that answers, and a client of it."""

    url: str
    client: httpx2.AsyncClient

    async def post(
        self, verb: str, payloads: list[Payload], origin: str | None = PAGE, **more: str
    ) -> httpx2.Response:
        """What the Web UI sends."""
        headers = {**SHOWN, "x-namespace": "default", **more}
        headers |= {"origin": origin} if origin else {}
        content = MessageToDict(Payloads(payloads=payloads))
        return await self.client.post(f"{self.url}/{verb}", json=content, headers=headers)


@contextlib.asynccontextmanager
async def serving() -> AsyncGenerator[Served]:
    server = CodecServer([KEY], token=TOKEN, namespace="default", origins=[PAGE], port=0)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.serve(ready.set_result))
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield Served(await ready, client)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


def _read(response: httpx2.Response) -> list[Payload]:
    return list(ParseDict(response.json(), Payloads()).payloads)


@pytest.mark.parametrize("origin", [PAGE, None], ids=["Web UI", "command"])
async def test_what_is_sealed_is_read(served: Served, origin: str | None) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    response = await served.post("decode", [*sealed, PLAIN], origin)
    assert response.status_code == 200
    assert _read(response) == [PLAIN, PLAIN]
    assert response.headers.get("access-control-allow-origin") == origin


async def test_what_the_web_ui_signals_is_sealed(served: Served) -> None:
    (sealed,) = _read(await served.post("encode", [PLAIN]))
    assert b"secret" not in sealed.SerializeToString()
    assert await EncryptionCodec([KEY]).decode([sealed]) == [PLAIN]


async def test_a_browser_may_ask_before_it_posts(served: Served) -> None:
    asked = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-namespace",
    }
    response = await served.client.options(f"{served.url}/decode", headers=asked)
    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == PAGE
    assert "x-namespace" in response.headers["access-control-allow-headers"]
    assert "POST" in response.headers["access-control-allow-methods"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:82330"])
async def test_other_pages_get_nothing(served: Served, origin: str) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    response = await served.post("decode", sealed, origin)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
    assert base64.b64encode(PLAIN.data).decode() not in response.text


async def test_another_key_is_told(served: Served) -> None:
    sealed = await EncryptionCodec([OTHER]).encode([PLAIN])
    response = await served.post("decode", sealed)
    assert response.status_code == 422
    assert "which is not known here" in response.json()["message"]


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/decode", b"no json", 400),
        ("/decode", b'{"payloads": 7}', 400),
        ("/decode", b"null", 400),
        ("/decode", b"", 400),
        ("/other", b"{}", 404),
    ],
)
async def test_nonsense_is_refused_in_words(
    served: Served, path: str, content: bytes, status: int
) -> None:
    headers = {**SHOWN, "x-namespace": "default"}
    response = await served.client.post(f"{served.url}{path}", content=content, headers=headers)
    assert response.status_code == status
    assert response.json()["message"]


async def test_a_taken_port_is_named(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    server = CodecServer([KEY], token=TOKEN, namespace="default", origins=[], port=port)
    with pytest.raises(ServiceUnavailable, match=f"port {port}"):
        await server.serve(lambda _: None)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"authorization": "Bearer \u00e9"},
    ],
    ids=["none", "empty", "wrong", "basic", "bare", "not ASCII"],
)
@pytest.mark.parametrize("origin", [PAGE, None], ids=["Web UI", "command"])
async def test_nothing_is_opened_without_the_token(
    served: Served, headers: dict[str, str], origin: str | None
) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    content = MessageToDict(Payloads(payloads=sealed))
    told = {"x-namespace": "default", **({"origin": origin} if origin else {})}
    sent = [(name.encode(), value.encode()) for name, value in {**told, **headers}.items()]
    for path in ("decode", "wrong-token/decode", "//decode"):
        response = await served.client.post(f"{served.url}/{path}", json=content, headers=sent)
        assert response.status_code == 401, path
        assert base64.b64encode(PLAIN.data).decode() not in response.text


async def test_the_web_ui_sends_the_token_in_the_address(served: Served) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    response = await served.post(f"{TOKEN}/decode", sealed, authorization="")
    assert _read(response) == [PLAIN]


@pytest.mark.parametrize("asked", ["other", "", "DEFAULT", "default/"])
async def test_only_the_own_namespace_is_opened(served: Served, asked: str) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    response = await served.post("decode", sealed, **{"x-namespace": asked})
    assert response.status_code == 403


async def test_a_payload_of_another_namespace_is_not_opened(served: Served) -> None:
    elsewhere = WorkflowSerializationContext(namespace="other", workflow_id="run-1")
    sealed = await EncryptionCodec([KEY]).with_context(elsewhere).encode([PLAIN])
    response = await served.post("decode", sealed)
    assert (response.status_code, "another namespace" in response.text) == (403, True)


async def test_what_is_opened_is_logged_and_nothing_of_its_content(served: Served) -> None:
    place = WorkflowSerializationContext(namespace="default", workflow_id="run-1")
    sealed = await EncryptionCodec([KEY]).with_context(place).encode([PLAIN])
    with capture_logs() as lines:
        await served.post("decode", sealed)
        await served.post("decode", sealed)
        await served.post("decode", sealed, authorization="Bearer wrong")
    opened, refused = lines
    assert (opened["event"], opened["asker"], opened["of"]) == (
        "payloads_decoded",
        PAGE,
        ["default/run-1"],
    )
    assert refused["event"] == "codec_refused"
    assert "secret" not in str(lines) and "wrong" not in str(lines)


def _logged(lines: list[EventDict]) -> list[int]:
    return [line["payloads"] for line in lines if line["event"] == "payloads_decoded"]


async def test_all_that_is_opened_is_logged_when_the_server_ends() -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    with capture_logs() as lines:
        async with serving() as served:
            for _ in range(3):
                await served.post("decode", sealed)
    assert _logged(lines) == [1, 2]


async def test_what_was_opened_last_is_logged_though_nobody_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    monkeypatch.setattr(codec_server, "LOGGED_EVERY_S", 0.5)
    with capture_logs() as lines:
        async with serving() as served:
            await asyncio.gather(*(served.post("decode", sealed) for _ in range(3)))
            await eventually(lambda: sum(_logged(lines)) == 3)
            assert len(_logged(lines)) < 3, "not a line each"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "a b"])
async def test_a_page_that_points_its_name_here_gets_nothing(served: Served, host: str) -> None:
    sealed = await EncryptionCodec([KEY]).encode([PLAIN])
    response = await served.post("decode", sealed, host=host)
    assert response.status_code == 421
