"""Tools of an orchestrating agent: list loops, start one, look at it, control those it started.

None of them answers a gate, and a run can only control loops that it started itself. They are
offered only if a task names them, and only to agent runs that no other run started. The grant is
checked at each call.
"""

import asyncio
from typing import Annotated

from pydantic import Field, JsonValue

from perdure.adapters.tools.host import AnyTool
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.run.loop_api import LoopAsk, LoopControl, parameters_of
from perdure.domain.run.status import RunStatus
from perdure.domain.tools.definitions import HeldBy
from perdure.extending.tool_decorator import Tool, ToolContext, tool

# Below the 30 s that a tool may take, so that a wait ends with a status and not as a timeout.
LONGEST_WAIT_S = 25
LOOKS_EVERY_S = 1.0
# Long lists that do not help an agent to decide what to do next.
LEFT_OUT = {"events", "links", "last_event", "amendments", "metadata"}


class LoopTools:
    """The five tools; they work once `serve` was called, after the worker has connected."""

    def __init__(self) -> None:
        self._loops: LoopControl | None = None

    def serve(self, loops: LoopControl) -> None:
        """Connect the tools to the loops."""
        self._loops = loops

    def all(self) -> tuple[AnyTool, ...]:
        return (self._definitions(), self._start(), self._list(), self._status(), self._control())

    def _open(self) -> LoopControl:
        if self._loops is None:
            raise ToolFailure(
                "This worker cannot start loops. Do the work yourself.", reason="unavailable"
            )
        return self._loops

    def _definitions(self) -> AnyTool:
        @tool(name="loop_definitions", idempotent=True, aliases=("loop.definitions",))
        async def definitions() -> list[dict[str, JsonValue]]:
            """The loops that can be started, with their stages and parameters."""
            found = await self._open().definitions()
            return [one.model_dump(mode="json", exclude_defaults=True) for one in found]

        return on_request(definitions)

    def _start(self) -> AnyTool:
        # `exclusive`: each start must see what earlier ones left of the caller's budget.
        @tool(
            name="loop_start",
            access="network",
            idempotent=True,
            exclusive=True,
            aliases=("loop.start",),
        )
        async def start(
            definition: str,
            goal: str,
            context: ToolContext,
            parameters: dict[str, JsonValue] | str | None = None,
            max_iterations: Annotated[int | None, Field(ge=1)] = None,
        ) -> HeldBy:
            """Start a loop and return its id at once; it works on by itself.

            Args:
                definition: a name that loop_definitions gives.
                goal: what is to be done.
                parameters: values of the definition's parameters: an object, or its JSON text.
                max_iterations: instead of the definition's own limit.
            """
            ask = LoopAsk(
                definition=definition,
                goal=goal,
                parameters=parameters_of(parameters),
                max_iterations=max_iterations,
                caller=context.run,
                # A repeated call has the same key, so it finds the loop that is there already.
                key=context.idempotency_key,
            )
            started = await self._open().start(ask)
            notes = "".join(f"\n{note}" for note in started.notes)
            return await self._held(f"started {started.id}{notes}", context)

        return on_request(start)

    def _list(self) -> AnyTool:
        @tool(name="loop_list", idempotent=True, aliases=("loop.list",))
        async def rows(context: ToolContext, status: str | None = None) -> HeldBy:
            """The newest loops.

            Args:
                status: running, paused, waiting, completed, failed or stopped; none: all.
            """
            found = await self._open().rows(status)
            return await self._held(found.model_dump(mode="json", exclude_none=True), context)

        return on_request(rows)

    def _status(self) -> AnyTool:
        @tool(name="loop_status", idempotent=True, aliases=("loop.status",))
        async def look(
            id: str,
            context: ToolContext,
            wait_s: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0,
        ) -> HeldBy:
            """Where a loop stands: stage, results of stages, iteration, spend, questions, outcome.

            Args:
                id: a run id, or a unique beginning of one.
                wait_s: wait so many seconds for its end, 25 at most.
            """
            status = await self._ended(id, wait_s)
            shown = status.model_dump(mode="json", exclude=LEFT_OUT, exclude_defaults=True)
            return await self._held(shown, context)

        return on_request(look)

    def _control(self) -> AnyTool:
        @tool(name="loop_control", access="network", idempotent=True, aliases=("loop.control",))
        async def steer(action: str, id: str, context: ToolContext) -> HeldBy:
            """Pause, resume, stop or retry a loop that this run started.

            Args:
                action: pause, resume, stop or retry.
                id: a run id, or `all` for every open loop that this run started.
            """
            done = await self._open().control(
                action, id, caller=context.run, request=context.idempotency_key
            )
            return await self._held(done.model_dump(mode="json", exclude_defaults=True), context)

        return on_request(steer)

    async def _held(self, value: object, context: ToolContext) -> HeldBy:
        """A tool's result, with the part of the caller's budget that its loops hold."""
        return HeldBy(value, await self._open().held(context.run))

    async def _ended(self, run: str, wait_s: float) -> RunStatus:
        # By the clock, since the looks take time as well: on a busy server they would add up to
        # more than a tool may take.
        clock = asyncio.get_running_loop().time
        until = clock() + wait_s
        status = await self._open().status(run)
        while status.phase != "ended" and (left := until - clock()) > 0:
            await asyncio.sleep(min(LOOKS_EVERY_S, left))
            # By its whole id: the beginning that was given may fit a newer loop too by now.
            status = await self._open().status(status.id)
        return status


def on_request(made: AnyTool) -> AnyTool:
    """The tool, offered only if a task names it."""
    fact = made.fact.model_copy(update={"on_request": True})
    return Tool(
        fact=fact, function=made.function, arguments=made.arguments, context_name=made.context_name
    )
