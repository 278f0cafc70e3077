"""Requests that wait for the end of a run: each token may have only some of them at once."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.installation.access import ApiToken
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import StoredRun
from perdure.interfaces.rest import run_reads
from perdure.interfaces.rest.auth_middleware import CALLER
from perdure.interfaces.rest.error_responses import as_it_is, handle_problems
from perdure.interfaces.rest.events import Streams
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.services import Services
from perdure.submission.types import Surroundings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/api/v1/loops/agent-1/result"
TOKEN = ApiToken(id="t", name="test", scopes=("read",), digest="", created_at=NOW)
DONE = RunResult(
    id="agent-1", kind="agent", outcome="accepted", reason="text_answer", explanation="Done."
)


class Runs:
    """A gateway and rows with one run, which a test lets end."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.waiting = 0

    async def result(self, _: str, *, wait: bool = True) -> RunResult:
        if not wait and not self.over.is_set():
            raise NotAllowed("It goes on.")
        self.waiting += 1
        try:
            await self.over.wait()
        finally:
            self.waiting -= 1
        return DONE

    async def status(self, _: str) -> object:
        return SimpleNamespace(lifecycle="running")

    async def run(self, run: str) -> StoredRun:
        return StoredRun(
            id=run, kind="agent", goal="g", label=None, lifecycle="running", outcome=None,
            started_at=NOW,
        )  # fmt: skip


class Door:
    """The routes that read a run, with room for two streams of a token."""

    def __init__(self) -> None:
        self.runs = Runs()
        services = SimpleNamespace(gateway=self.runs, records=self.runs)
        self._app = FastAPI()
        self._app.state.hide = as_it_is
        self._app.state.streams = Streams(2)
        self._app.state.site = ApiSite(
            services=cast(Services, services),
            surroundings=Surroundings(folder=None),
            now=lambda: NOW,
            version="1",
        )
        handle_problems(self._app)
        self._app.include_router(run_reads.router)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER] = TOKEN
        await self._app(scope, receive, send)

    async def get(self, query: str = "") -> tuple[int, str]:
        transport = httpx2.ASGITransport(app=self)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
            answer = await client.get(f"{PATH}{query}")
        return answer.status_code, answer.json().get("code", "")

    async def get_and_leave(self) -> None:
        """A request of a client that has closed its connection."""
        told: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Message:
            return told.pop() if told else {"type": "http.disconnect"}

        async def send(_: Message) -> None: ...

        scope: Scope = {
            "type": "http", "method": "GET", "path": PATH, "query_string": b"wait=60",
            "headers": [], "http_version": "1.1", "scheme": "http",
        }  # fmt: skip
        await self(scope, receive, send)


@pytest.fixture
async def door() -> Door:
    return Door()


async def waits(door: Door, number: int) -> None:
    while door.runs.waiting < number:
        await asyncio.sleep(0)


async def test_waiting_requests_of_a_token_are_counted_as_its_streams(door: Door) -> None:
    held = [asyncio.create_task(door.get("?wait=60")) for _ in range(2)]
    await waits(door, 2)
    assert await door.get("?wait=60") == (429, "too_many_streams")
    assert await door.get() == (409, "not_allowed"), "it does not wait"
    door.runs.over.set()
    assert await asyncio.gather(*held) == [(200, "")] * 2
    assert await door.get("?wait=60") == (200, "")


async def test_a_wait_that_is_over_or_given_up_counts_no_more(door: Door) -> None:
    for _ in range(3):
        assert await door.get("?wait=0.01") == (409, "not_allowed")
        await door.get_and_leave()
    assert door.runs.waiting == 0
