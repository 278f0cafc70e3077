"""Connections to MCP servers: one per server and folder, shared by calls, reopened when lost.

Each connection lives in a task of its own, which opens and closes it. The SDK's cancel scopes must
not cross tasks, and a cancelled call must not close a connection that others use.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TextIO

import httpx2
import mcp.types as wire
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client._transport import Transport
from mcp.client.streamable_http import streamable_http_client
from pydantic import JsonValue, ValidationError

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.mcp.bounds import BoundedTransport
from perdure.adapters.mcp.local_transport import local_transport
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.foundation.problems import (
    PROBLEMS_TOLD,
    allowed_in_words,
    format_value,
    path_of,
)
from perdure.extending.foreign_code import CodeEnded, contained

TAIL_CHARACTERS = 400
CHUNK = 4096
HTTP_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 300.0
OPENING_S = 30.0
IDLE_S = 300.0
LINKS_KEPT = 16
# A server that never ends its list of tools is read as far as this.
PAGES = 50
QUESTIONS_TOLD = 5
# Why a call failed whose result is none of the protocol.
UNREADABLE = "tool_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How a server is reached: a program with variables and folder, or an address with headers.

    Args:
        name: the server's name in messages.
        command: the program and its arguments, for a local server.
        folder: where a local server runs; None means an empty folder for this connection.
        environment: variables by name, for a local server; never shown.
        url: the address of a remote server.
        headers: by name, for a remote server; never shown.
    """

    name: str
    command: tuple[str, ...] = ()
    folder: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Calls with equal keys share a connection."""
        variables = tuple(sorted(self.environment.items()))
        headers = tuple(sorted(self.headers.items()))
        return (self.name, self.command, self.folder, variables, self.url, headers)


class Tail:
    """The last part of a server's standard error, and why it was ended if it said too much."""

    def __init__(self, sink: TextIO) -> None:
        self.sink = sink
        self.excess = ""
        self._text = ""

    def take(self, text: str) -> None:
        self._text = (self._text + text)[-TAIL_CHARACTERS:]

    def note_excess(self, what: str) -> None:
        self.excess = f"it {what}"

    def said(self) -> str:
        """The server's last words, as the end of a sentence; empty if there are none."""
        last = " ".join(self._text.split())
        return f"; it said: {last}" if last else ""


@asynccontextmanager
async def listening() -> AsyncGenerator[Tail]:
    """A pipe for a server's standard error, of which only the end is kept."""
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb", buffering=0) as source, os.fdopen(writing, "w") as sink:
        tail = Tail(sink)

        def take() -> None:
            with suppress(BlockingIOError):
                tail.take((source.read(CHUNK) or b"").decode(errors="replace"))

        loop.add_reader(reading, take)
        try:
            yield tail
        finally:
            loop.remove_reader(reading)


async def transport_to(target: Target, stack: AsyncExitStack, tail: Tail) -> Transport:
    """The SDK's transport to a server; its HTTP client or folder is closed with the stack."""
    if target.url:
        timeout = httpx2.Timeout(HTTP_TIMEOUT_S, read=READ_TIMEOUT_S)
        client = httpx2.AsyncClient(
            headers=dict(target.headers),
            timeout=timeout,
            trust_env=False,
            transport=BoundedTransport(httpx2.AsyncHTTPTransport(trust_env=False)),
            event_hooks={"request": [_patient]},
        )
        http = await stack.enter_async_context(client)
        return streamable_http_client(target.url, http_client=http)
    folder = target.folder or stack.enter_context(TemporaryDirectory(prefix="perdure-mcp-"))
    program, *arguments = target.command
    parameters = StdioServerParameters(
        command=program, args=arguments, env=dict(target.environment), cwd=folder
    )
    return local_transport(parameters, errlog=tail.sink, on_excess=tail.note_excess)


async def _patient(request: httpx2.Request) -> None:
    """Let the answer to a call of a tool take its time: the caller sets the deadline."""
    # No other message: the SDK waits for the answer to a notification before it sends anything.
    if request.method == "POST":
        match json.loads(request.content):
            case {"method": "tools/call"}:
                request.extensions["timeout"]["read"] = None
            case _:
                pass


class Link:
    """One live connection."""

    def __init__(self, target: Target, *, on_end: Callable[["Link"], None]) -> None:
        self.target = target
        self.uses = 0
        self._retired = False
        self._listeners: list[list[str]] = []
        self._tail: Tail | None = None
        self.used_at = asyncio.get_running_loop().time()
        self._on_end = on_end
        self._ending = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(_look_at)
        self._task = asyncio.create_task(self._live(), name=f"mcp {target.name}")

    @property
    def excess(self) -> str:
        """Why a server was ended that said too much; empty for any other end."""
        return self._tail.excess if self._tail else ""

    def drop(self) -> None:
        """Close the connection; the next user gets a new one."""
        self._on_end(self)
        self._ending.set()

    def retire(self) -> None:
        """Close the connection after its last user; the next user gets a new one."""
        self._on_end(self)
        self._retired = True

    def release(self) -> None:
        """One user less."""
        self.uses -= 1
        self.used_at = asyncio.get_running_loop().time()
        if self._retired and not self.uses:
            self.drop()

    @property
    def closed(self) -> bool:
        """Whether nothing is left of the connection."""
        return self._task.done()

    async def wait_until_closed(self) -> None:
        """Wait until a dropped connection is closed."""
        await asyncio.wait({self._task})

    async def tools(self) -> dict[str, wire.Tool]:
        """The server's current tools, by the server's names; raises `ToolFailure` on nonsense."""
        client = await self._client()
        found: dict[str, wire.Tool] = {}
        cursor: str | None = None
        for _ in range(PAGES):
            with understood(self.target, "its list of tools", reason="server_unavailable"):
                # Past the SDK's cache, which would hide that a tool has changed.
                page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            found.update({tool.name: tool for tool in page.tools})
            cursor = page.next_cursor
            if not cursor:
                break
        return found

    async def call(
        self, tool: str, arguments: dict[str, JsonValue]
    ) -> tuple[wire.CallToolResult, tuple[str, ...]]:
        """Call one tool; the caller sets the deadline.

        Returns:
            Its result, and the questions that the server asked meanwhile, all of them declined.

        Raises:
            ToolFailure: the result is none of the protocol.
        """
        client, heard = await self._client(), list[str]()
        self._listeners.append(heard)
        try:
            with understood(self.target, f"the result of {tool}", reason=UNREADABLE):
                return await client.call_tool(tool, arguments), tuple(heard)
        finally:
            # By identity: `remove` takes the first equal list, and all empty ones are equal.
            self._listeners = [one for one in self._listeners if one is not heard]

    async def _declined(
        self, context: ClientRequestContext, params: wire.ElicitRequestParams
    ) -> wire.ElicitResult:
        """Decline a question of the server: no call can wait for a person, as its worker may end.

        The question does not say which call it belongs to, so all open calls report it.
        """
        for heard in self._listeners:
            if len(heard) < QUESTIONS_TOLD:
                heard.append(params.message)
        return wire.ElicitResult(action="decline")

    async def _client(self) -> Client:
        try:
            with contained():
                # One caller that is cancelled must not cancel the opening for the others.
                return await asyncio.shield(self._opened)
        except CodeEnded as ended:  # by whoever closed the connection, or by the SDK
            raise server_error(self.target, str(ended)) from ended

    async def _live(self) -> None:
        try:
            with contained():
                async with AsyncExitStack() as stack:
                    client = await self._open(stack)
                    self._opened.set_result(client)
                    await self._until_idle()
        except Exception as error:
            # Once it was open, nobody waits for this error: the next call opens a new connection.
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            self._on_end(self)
            # Wakes those who wait for a connection that was dropped while it opened.
            self._opened.cancel()

    async def _open(self, stack: AsyncExitStack) -> Client:
        tail = self._tail = await stack.enter_async_context(listening())
        me = wire.Implementation(name="perdure", version="1")
        try:
            async with asyncio.timeout(OPENING_S):
                transport = await transport_to(self.target, stack, tail)
                asking = Client(transport, client_info=me, elicitation_callback=self._declined)
                client = await stack.enter_async_context(asking)
                # The SDK checks results in the event loop with the server's own patterns, which may
                # backtrack for ever. `servers` checks them in a process with limits.
                vars(client.session)["validate_tool_result"] = _unjudged
                return client
        except TimeoutError as error:
            why = f"{tail.excess or f'no answer within {OPENING_S:g} s'}{tail.said()}"
            raise server_error(self.target, why) from error
        except Exception as error:
            raise server_error(
                self.target, f"{tail.excess or words_of(error)}{tail.said()}"
            ) from error

    async def _until_idle(self) -> None:
        loop = asyncio.get_running_loop()
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            while not ending.done():
                await asyncio.wait({ending}, timeout=IDLE_S)
                if not self.uses and loop.time() - self.used_at >= IDLE_S:
                    return
        finally:
            ending.cancel()


class Links:
    """The open connections of one process."""

    def __init__(self) -> None:
        self._links: dict[tuple[object, ...], Link] = {}
        # With those that were dropped and have not closed yet.
        self._live: set[Link] = set()

    @asynccontextmanager
    async def to(self, target: Target) -> AsyncGenerator[Link]:
        """The connection to a server, opened if there is none."""
        # Nothing is awaited until the entry is made, or two calls would open two connections.
        link = self._links.get(target.key)
        if link is None:
            self._make_room()
            link = self._links[target.key] = Link(target, on_end=self._forget)
            self._live = {one for one in self._live if not one.closed} | {link}
        link.uses += 1
        try:
            yield link
        finally:
            link.release()

    async def aclose(self) -> None:
        """End all connections, and the programs behind them."""
        links = tuple(self._live)
        for link in links:
            link.drop()
        await asyncio.gather(*(link.wait_until_closed() for link in links))

    def _make_room(self) -> None:
        resting = sorted(
            (link for link in self._links.values() if not link.uses), key=lambda link: link.used_at
        )
        for link in resting[: max(0, len(self._links) - LINKS_KEPT + 1)]:
            link.drop()

    def _forget(self, link: Link) -> None:
        if self._links.get(link.target.key) is link:
            del self._links[link.target.key]


async def _unjudged(name: str, result: wire.CallToolResult) -> None:
    """Replaces the SDK's check of a result, whose regular expressions may backtrack for ever."""


@contextmanager
def understood(target: Target, what: str, *, reason: str) -> Generator[None]:
    """In this block, what the protocol does not allow is told in words, with its place."""
    try:
        yield
    except ValidationError as error:
        raise ToolFailure(
            f"The MCP server {target.name!r} does not keep to the protocol. In {what}: "
            f"{without_secrets(_misfits(error))}. Continue without it.",
            reason=reason,
        ) from error


def _misfits(error: ValidationError) -> str:
    """The first of its problems, each with its place, and how many more there are."""
    details = error.errors(include_url=False)
    listed = [
        f"{path_of('', one['loc'])}: found {format_value(one['input'])}; "
        f"allowed: {allowed_in_words(one)}"
        for one in details[:PROBLEMS_TOLD]
    ]
    more = f"; and {len(details) - PROBLEMS_TOLD} more" if len(details) > PROBLEMS_TOLD else ""
    return "; ".join(listed) + more


def words_of(error: BaseException) -> str:
    """The message of the innermost error of a group."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return without_secrets(error) or type(error).__name__


def server_error(target: Target, why: str) -> ToolFailure:
    """The failure of a server that cannot be used, with its cause."""
    return ToolFailure(
        f"The MCP server {target.name!r} does not work on this worker: {why}. Continue without it.",
        reason="server_unavailable",
    )


def _look_at(opened: asyncio.Future[Client]) -> None:
    """Retrieve the error of an opening that nobody awaited, or asyncio would log it."""
    if not opened.cancelled():
        opened.exception()
