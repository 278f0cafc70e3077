"""The codec server as the Web UI and the `temporal` command use it: protocol, origins, refusals."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payload, Payloads

from perdure.adapters.codec import SealedPayloads
from perdure.adapters.codec_server import CodecServer
from perdure.domain.errors import ServiceUnavailable

KEY, OTHER = bytes(range(32)), bytes(32)
PAGE = "http://127.0.0.1:8233"
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"a secret goal"')


@dataclass(frozen=True)
class Served:
    """A codec server that answers, and a client of it."""

    url: str
    client: httpx2.AsyncClient

    async def post(
        self, verb: str, payloads: list[Payload], origin: str | None = PAGE
    ) -> httpx2.Response:
        """What the Web UI sends."""
        headers = {"x-namespace": "default"} | ({"origin": origin} if origin else {})
        content = MessageToDict(Payloads(payloads=payloads))
        return await self.client.post(f"{self.url}/{verb}", json=content, headers=headers)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    server = CodecServer([KEY], origins=[PAGE], port=0)
    serving = asyncio.create_task(server.serve())
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield Served(server.url, client)
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _read(response: httpx2.Response) -> list[Payload]:
    return list(ParseDict(response.json(), Payloads()).payloads)


@pytest.mark.parametrize("origin", [PAGE, None], ids=["Web UI", "command"])
async def test_what_is_sealed_is_read(served: Served, origin: str | None) -> None:
    sealed = await SealedPayloads([KEY]).encode([PLAIN])
    response = await served.post("decode", [*sealed, PLAIN], origin)
    assert response.status_code == 200
    assert _read(response) == [PLAIN, PLAIN]
    assert response.headers.get("access-control-allow-origin") == origin


async def test_what_the_web_ui_signals_is_sealed(served: Served) -> None:
    (sealed,) = _read(await served.post("encode", [PLAIN]))
    assert b"secret" not in sealed.SerializeToString()
    assert await SealedPayloads([KEY]).decode([sealed]) == [PLAIN]


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
    sealed = await SealedPayloads([KEY]).encode([PLAIN])
    response = await served.post("decode", sealed, origin)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
    assert base64.b64encode(PLAIN.data).decode() not in response.text


async def test_another_key_is_told(served: Served) -> None:
    sealed = await SealedPayloads([OTHER]).encode([PLAIN])
    response = await served.post("decode", sealed)
    assert response.status_code == 422
    assert "which is not known here" in response.json()["message"]


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/decode", b"no json", 400),
        ("/decode", b'{"payloads": 7}', 400),
        ("/decode", b"", 400),
        ("/other", b"{}", 404),
    ],
)
async def test_nonsense_is_refused_in_words(
    served: Served, path: str, content: bytes, status: int
) -> None:
    response = await served.client.post(f"{served.url}{path}", content=content)
    assert response.status_code == status
    assert response.json()["message"]


async def test_a_taken_port_is_named(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    with pytest.raises(ServiceUnavailable, match=f"port {port}"):
        CodecServer([KEY], origins=[], port=port)
