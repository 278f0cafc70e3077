"""A gRPC proxy before the dev server that restricts it as a cloud or an operator's proxy does.

It passes the bytes of every method on. A test chooses what it refuses, how long its pages are, how
far its visibility index is behind, which API keys it takes, and when it is away.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import grpc
import grpc.aio
from google.protobuf.message import Message
from installation import Installation
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    ListSchedulesRequest,
    ListWorkersRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
# Each of its connections is one of its own, so that a test which ends a proxy ends them too.
APART = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))
OURS = ("user-agent", "grpc-", "authorization", ":")
Context = grpc.aio.ServicerContext  # pyright: ignore[reportMissingTypeArgument]
LISTS: Mapping[str, type[Message]] = {
    "ListWorkflowExecutions": ListWorkflowExecutionsRequest,
    "ListSchedules": ListSchedulesRequest,
    "ListWorkers": ListWorkersRequest,
}
INDEXED: Mapping[str, type[Message]] = {
    "ListWorkflowExecutions": ListWorkflowExecutionsRequest,
    "CountWorkflowExecutions": CountWorkflowExecutionsRequest,
}


@dataclass
class Restrictions:
    """What a proxy does to requests. Methods are named as `DescribeNamespace`; `*` is each.

    `denied` names methods that are refused, with their status and words. `busy` counts how often a
    method is still answered with RESOURCE_EXHAUSTED; `busy_until` is the end of such an answer to
    all, on the monotonic clock. `most_rows` is the length of a page at most, whatever was asked.
    `index_ends` is when the index stopped: lists
    and counts lack what began later. `keys` are the API keys that
    are taken; None takes requests without one.
    """

    denied: dict[str, tuple[grpc.StatusCode, str]] = field(default_factory=dict)
    busy: dict[str, int] = field(default_factory=dict)
    busy_until: float = 0.0
    most_rows: int | None = None
    index_ends: datetime | None = None
    keys: frozenset[str] | None = None

    def deny(
        self,
        *methods: str,
        status: grpc.StatusCode = grpc.StatusCode.PERMISSION_DENIED,
        words: str = "Request unauthorized.",
    ) -> None:
        """Refuse methods from now on."""
        self.denied |= dict.fromkeys(methods, (status, words))

    def refusal(self, method: str, authorization: str | None) -> tuple[grpc.StatusCode, str] | None:
        """The status and words with which a request is refused; None lets it pass."""
        if self.keys is not None and authorization not in {f"Bearer {key}" for key in self.keys}:
            return grpc.StatusCode.UNAUTHENTICATED, "Request unauthorized: invalid API key."
        if found := self.denied.get(method) or self.denied.get("*"):
            return found
        if time.monotonic() < self.busy_until or self._one_busy(method):
            return grpc.StatusCode.RESOURCE_EXHAUSTED, "namespace rate limit exceeded"
        return None

    def _one_busy(self, method: str) -> bool:
        left = self.busy.get(method, 0)
        self.busy[method] = max(0, left - 1)
        return left > 0

    def rewritten(self, method: str, request: bytes) -> bytes:
        """The request as it is passed on: with a shorter page, or without the youngest runs."""
        if self.most_rows is not None and (kind := LISTS.get(method)):
            asked = cast(ListWorkflowExecutionsRequest, kind.FromString(request))
            name = "maximum_page_size" if method == "ListSchedules" else "page_size"
            setattr(asked, name, min(getattr(asked, name) or self.most_rows, self.most_rows))
            request = asked.SerializeToString()
        if self.index_ends is not None and (kind := INDEXED.get(method)):
            listed = cast(ListWorkflowExecutionsRequest, kind.FromString(request))
            ends = self.index_ends.astimezone(UTC)
            words = f"StartTime < '{ends:%Y-%m-%dT%H:%M:%S.%f}Z'"
            listed.query = f"({listed.query}) AND {words}" if listed.query else words
            request = listed.SerializeToString()
        return request


class RestrictedServer:
    """The proxy; `asked` counts requests by method, `sent_keys` has the keys that came with them.

    Those that are refused count too.
    """

    def __init__(self, target: str, credentials: grpc.ServerCredentials | None = None) -> None:
        self._target = target
        self._credentials = credentials
        self._server: grpc.aio.Server | None = None
        self._channel = grpc.aio.insecure_channel(target, options=APART)
        self.rules = Restrictions()
        self.asked: dict[str, int] = {}
        self.sent_keys: set[str] = set()
        self.port = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen; again at the same port after `cut`."""
        server = grpc.aio.server(options=UNLIMITED)
        server.add_generic_rpc_handlers((_Raw(self._answer),))
        place = f"127.0.0.1:{self.port}"
        if self._credentials is None:
            self.port = server.add_insecure_port(place)
        else:
            self.port = server.add_secure_port(place, self._credentials)
        await server.start()
        self._server = server

    async def cut(self) -> None:
        """End all connections, and refuse new ones until `start`."""
        if self._server is not None:
            await self._server.stop(None)
        self._server = None

    async def close(self) -> None:
        """End it for good."""
        await self.cut()
        await self._channel.close()

    async def _answer(self, path: str, request: bytes, context: Context) -> bytes:
        method = path.rpartition("/")[2]
        self.asked[method] = self.asked.get(method, 0) + 1
        given = tuple(context.invocation_metadata() or ())
        key = next((str(value) for name, value in given if name == "authorization"), None)
        self.sent_keys.add((key or "").removeprefix("Bearer "))
        if (refusal := self.rules.refusal(method, key)) is not None:
            await context.abort(*refusal)
        passed = tuple((name, value) for name, value in given if not name.startswith(OURS))
        call = self._channel.unary_unary(path)
        try:
            answer = await call(
                self.rules.rewritten(method, request),
                metadata=passed,
                timeout=context.time_remaining(),
            )
        except grpc.aio.AioRpcError as error:
            # What Temporal's errors say beside their words is in the trailing metadata.
            trailing = tuple(error.trailing_metadata() or ())
            await context.abort(error.code(), error.details() or "", trailing)
        return cast(bytes, answer)


class _Raw(grpc.GenericRpcHandler):
    """Hands the bytes of every method to one function."""

    def __init__(self, answer: Callable[[str, bytes, Context], Awaitable[bytes]]) -> None:
        self._answer = answer

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        path = handler_call_details.method

        async def answer(request: bytes, context: Context) -> bytes:
            return await self._answer(path, request, context)

        return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def restricted(
    client: Client, credentials: grpc.ServerCredentials | None = None
) -> AsyncGenerator[RestrictedServer]:
    """A proxy before the server of a client, without a restriction at first."""
    proxy = RestrictedServer(client.service_client.config.target_host, credentials)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


@asynccontextmanager
async def commanded(
    site: Installation, *words: str, **environment: str
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A command in a process of its own, which knows the server by its proxy alone."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "perdure", *words),
        env={
            **os.environ,
            **site.settings.as_environment(),
            "TEMPORAL_ADDRESS": site.address,
            **environment,
        },
        cwd=site.home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said_by(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """The exit code of a command, and all that it wrote."""
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()
