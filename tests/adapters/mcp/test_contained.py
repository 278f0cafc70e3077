"""What the code behind a connection raises is an error of the server, never the worker's end."""

import asyncio
from contextlib import AsyncExitStack
from typing import TextIO

import pytest
from mcp.client._transport import Transport

from perdure.adapters.mcp import connections
from perdure.adapters.mcp.connections import Link, Target
from perdure.domain.foundation.errors import ToolFailure

TARGET = Target(name="probe", command=("none",))


def _opening(monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> None:
    """Let connections open with an error, or never."""

    async def transport_to(target: Target, stack: AsyncExitStack, sink: TextIO) -> Transport:
        if error is not None:
            raise error
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    monkeypatch.setattr(connections, "transport_to", transport_to)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(0), "sys.exit"),
        (asyncio.CancelledError(), "it was cancelled, which nobody had asked for"),
        (StopIteration(), "StopIteration"),
    ],
    ids=["an exit", "a stray cancellation", "a stop"],
)
async def test_what_opens_a_connection_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str
) -> None:
    _opening(monkeypatch, error)
    ended: list[Link] = []
    link = Link(TARGET, on_end=ended.append)
    with pytest.raises(ToolFailure, match=words):
        await link.tools()
    await link.wait_until_closed()
    assert ended == [link]


async def test_a_connection_that_is_closed_while_it_opens_does_not_cancel_its_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _opening(monkeypatch, None)
    link = Link(TARGET, on_end=lambda _: None)
    using = asyncio.create_task(link.tools())
    await asyncio.sleep(0)
    (living,) = (one for one in asyncio.all_tasks() if one.get_name() == "mcp probe")
    living.cancel()
    with pytest.raises(ToolFailure, match="it was cancelled"):
        await using
