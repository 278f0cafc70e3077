"""Model clients of plugins: they run outside the worker's event loop, and are heard in it."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from perdure.adapters.plugins_aside import models_aside
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest, Usage
from perdure.domain.ports import ModelClient, UsageSoFar, unheard
from perdure.extending.own_loop import OwnLoops
from tests.adapters.llm.support import fails, request, say, script_name, scripted

SCRIPT = "replies: [{text: one two three four}]"


def aside(client: ModelClient) -> ModelClient:
    return models_aside({"mine": lambda: client}, OwnLoops())["mine"]()


class Blocking:
    """A client that uses a library which is not asynchronous."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()
        self.thread = 0

    async def card(self, model: str) -> ModelProfile:
        raise NotImplementedError

    async def count(self, request: ModelRequest) -> int | None:
        self.thread = threading.get_ident()
        return 7

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = unheard,
    ) -> ModelReply:
        self.begun.set()
        self.free.wait()
        raise AssertionError("unreachable")


async def test_replies_pieces_and_failures_are_those_of_the_client() -> None:
    heard, used, here = list[int](), list[Usage](), threading.get_ident()
    alone, pieces = await say(scripted(SCRIPT), request(script_name(SCRIPT)))
    client = aside(scripted(SCRIPT))
    reply, came = await say(client, request(script_name(SCRIPT)))
    assert (reply.message, came, "".join(came)) == (alone.message, pieces, "one two three four")

    def on_text(_: str) -> None:
        heard.append(threading.get_ident())

    await client.call(
        request(script_name(SCRIPT), run="run-2"),
        on_text=on_text,
        on_answer=lambda seen: used.append(seen()),
    )
    assert (set(heard), [usage.output_tokens > 0 for usage in used]) == ({here}, [True])
    assert (await client.card(script_name(SCRIPT))).window >= 1_000_000
    assert (await fails(client, request("scripted:sha256:" + "0" * 64))).kind


async def test_a_client_that_blocks_is_left_behind() -> None:
    blocking = Blocking()
    client = aside(blocking)
    call = asyncio.create_task(say(client, request()))
    await asyncio.to_thread(blocking.begun.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await client.count(request()) == 7
    assert blocking.thread != threading.get_ident()
    blocking.free.set()
