"""The end of the server: it comes, whatever is under way, and nobody is left without an answer."""

import asyncio
import logging
import os
import re
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from rest import client_of
from starlette.types import Receive, Scope, Send
from waiting import eventually

from perdure.adapters.settings.variables import inherited_environment
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.installation.access import ApiToken, Credentials, digest_of
from perdure.interfaces.rest.server import serve

MANY = 200
SERVING = re.compile(r"http://[0-9.]+:\d+")


class Waiting:
    """An application whose answers never come, and whose streams never end."""

    def __init__(self) -> None:
        self.at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.at_work += 1
        if scope["path"] == "/stream":
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b": here\n\n", "more_body": True})
        await asyncio.Event().wait()


@asynccontextmanager
async def many(url: str, headers: dict[str, str]) -> AsyncGenerator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=MANY)
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=120, trust_env=False
    ) as client:
        yield client


async def test_each_request_under_way_is_told_of_the_end(caplog: pytest.LogCaptureFixture) -> None:
    app, stop = Waiting(), asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(app, host="127.0.0.1", port=0, stop=stop, on_ready=ready.set_result)
    )
    with caplog.at_level(logging.ERROR, "uvicorn"):
        async with many(await ready, {}) as client:
            asking = [asyncio.create_task(client.get("/")) for _ in range(MANY - 10)]
            streams = [asyncio.create_task(client.get("/stream")) for _ in range(10)]
            await eventually(lambda: app.at_work == MANY)
            stop.set()
            await serving
            for answer in await asyncio.gather(*asking):
                assert answer.status_code == 503
                assert answer.json()["detail"].startswith("The server is being stopped")
                assert answer.headers["retry-after"] == "5"
            assert {one.text for one in await asyncio.gather(*streams)} == {": here\n\n"}
    assert not [one for one in caplog.records if one.exc_info], "an end is no defect"
    assert len(caplog.records) <= 1


async def test_open_streams_do_not_hold_the_end_up() -> None:
    app, stop = Waiting(), asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(app, host="127.0.0.1", port=0, stop=stop, on_ready=ready.set_result)
    )
    async with client_of(await ready, {}) as client, client.stream("GET", "/stream") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == ": here"
        stop.set()
        assert [line async for line in lines] == [""]
        await serving


@pytest.mark.long
async def test_the_process_ends_with_many_requests_under_way(tmp_path: Path) -> None:
    """With a Temporal server that takes connections and never answers."""
    made = Credentials(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32))
    token = ApiToken(
        id=made.id,
        name="many",
        scopes=("admin",),
        digest=digest_of(made.secret),
        created_at=datetime.now(UTC),
    )
    stores = await open_stores(tmp_path / "home")
    await stores.access.add_token(token)
    await stores.close()
    log = tmp_path / "log"
    async with silent_server() as address:
        environment = {
            **inherited_environment(minimal=True),
            "TEMPORAL_ADDRESS": address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "PERDURE_HOME": str(tmp_path / "home"),
        }
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "perdure", "api", "serve"),
                *("--host", "127.0.0.1", "--port", "0"),
                env=environment,
                stdout=output,
                stderr=output,
            )
        try:
            served = await eventually(lambda: SERVING.search(log.read_text()))
            assert served is not None
            async with many(served[0], {"authorization": f"Bearer {made.text}"}) as client:
                asking = [asyncio.create_task(client.get("/api/v1/gates")) for _ in range(MANY)]
                # Those who come later are answered, so that all before them are at work.
                await client.get("/healthz")
                process.terminate()
                assert await asyncio.wait_for(process.wait(), 120) == 0
                await asyncio.gather(*asking, return_exceptions=True)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert "Traceback" not in log.read_text()


@asynccontextmanager
async def silent_server() -> AsyncGenerator[str]:
    """The address of a server that says nothing."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"{host}:{port}"
    finally:
        server.close()
