"""Tools, hooks and models of plugins, whose asynchronous code stays out of the worker's event loop.

What a program passes to its own worker is not here: its clients belong to its own event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from perdure.adapters.llm.foreign_model import usage_so_far
from perdure.adapters.tools.host import AnyTool
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.ports import ModelClient, UsageSoFar, ignore_usage
from perdure.extending.hook_decorators import Hook
from perdure.extending.own_loop import OwnLoop, OwnLoops

R = TypeVar("R")
T = TypeVar("T")

STOPS_IN_S = 1.0  # what a cancelled hook or model call gets; the tool host counts for tools


def tools_aside(tools: Iterable[AnyTool], loops: OwnLoops) -> tuple[AnyTool, ...]:
    """The same tools, run and rehearsed in the event loops of their packages."""
    return tuple(
        replace(
            tool,
            function=loops.aside(tool.function),
            rehearsal=None if tool.rehearsal is None else loops.aside(tool.rehearsal),
        )
        for tool in tools
    )


def hooks_aside(
    hooks: Mapping[str, Hook], loops: OwnLoops, *, own: Iterable[Hook]
) -> dict[str, Hook]:
    """The same hooks, run in the event loops of their packages; those of the program stay."""
    kept = {id(hook) for hook in own}
    return {
        name: hook
        if id(hook) in kept
        else replace(hook, function=loops.aside(hook.function, leave_after_s=STOPS_IN_S))
        for name, hook in hooks.items()
    }


def models_aside(
    factories: Mapping[str, Callable[[], ModelClient]], loops: OwnLoops
) -> dict[str, Callable[[], ModelClient]]:
    """Factories of the same clients, called in the event loops of their packages."""

    def aside(factory: Callable[[], ModelClient]) -> Callable[[], ModelClient]:
        return lambda: ModelAside(client := factory(), loops.of(client))

    return {name: aside(factory) for name, factory in factories.items()}


class ModelAside:
    """A plugin's model client in the event loop of its package (port `ModelClient`)."""

    def __init__(self, client: ModelClient, own: OwnLoop) -> None:
        self._client = client
        self._own = own

    async def card(self, model: str) -> ModelProfile:
        return await self._run(lambda: self._client.card(model))

    async def count(self, request: ModelRequest) -> int | None:
        """The exact prompt tokens if the provider counts them free of charge, else None."""
        return await self._run(lambda: self._client.count(request))

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Call the model, streaming; raises `ModelError`. Who listens does so where it asked."""
        here = asyncio.get_running_loop()
        return await self._run(
            lambda: self._client.call(
                request,
                on_text=lambda text: _tell(here, on_text, text),
                on_answer=lambda used: _tell(here, on_answer, usage_so_far(used)),
            )
        )

    async def _run(self, call: Callable[[], Awaitable[R]]) -> R:
        return await self._own.run(call, leave_after_s=STOPS_IN_S)


def _tell(loop: asyncio.AbstractEventLoop, listener: Callable[[T], None], heard: T) -> None:
    with suppress(RuntimeError):  # the event loop is closed, so nobody listens
        loop.call_soon_threadsafe(listener, heard)
