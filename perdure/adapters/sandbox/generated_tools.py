"""Runs generated tools in pydantic-monty, each call in a new process.

The interpreter has no files, environment, sockets, processes or native calls, and it is given no
host function. The result comes back through the interpreter; what the code prints is dropped.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from pydantic import JsonValue
from pydantic_monty import (
    AsyncMonty,
    AsyncMontySession,
    CollectString,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    OSPolicy,
    ResourceLimits,
)

from perdure.adapters.logging.redacting import without_secrets
from perdure.domain.generated_tools.dry_run import (
    Crashed,
    NoObject,
    Raised,
    Returned,
    Trial,
    as_object,
)

MEMORY_BYTES = 32 << 20
RECURSION = 200
PRINTED_BYTES = 64 << 10
PROCESSES = 2
# How long to wait for a free process. It bounds a pool that hangs, not the code.
WAIT_S = 60.0
# The interpreter's clock does not cover compiling; the process is killed this long after its limit.
GRACE_S = 2.0
LONGEST_S = 60.0
SCRIPT = "tool.py"
ARGUMENTS = "_perdure_arguments_"
# The same arguments give the same result, since randomness is seeded. `sleep` returns at once, so
# that code cannot hold a worker by waiting.
POLICY: OSPolicy = {"sleep": "zero", "random_start": {"seed": 0}}
_LIMITS = {
    "TimeoutError": "it took more than {seconds:g} s",
    "MemoryError": "it used more than 32 MiB of memory, or printed more than 64 KiB",
    "RecursionError": "it called itself more than 200 levels deep",
}


class MadeToolSandbox:
    """The port `ToolSandbox`; its pool of processes starts at first use."""

    def __init__(self, *, processes: int = PROCESSES) -> None:
        self._processes = processes
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._pool: AsyncMonty | None = None

    async def run(
        self, code: str, handler: str, arguments: Mapping[str, JsonValue], *, seconds: float
    ) -> Trial:
        """Execute `code`, then call its handler. Errors of the code are results, not raised."""
        # The pool's limit for one request is made for the longest time.
        seconds = min(seconds, LONGEST_S)
        limits: ResourceLimits = {
            "max_feed_duration_secs": seconds,
            "max_turn_duration_secs": seconds,
            "max_memory": MEMORY_BYTES,
            "max_recursion_depth": RECURSION,
            "max_suspensions": 100,
        }
        pool = await self._open()
        try:
            # Twice, because the code and the call of its handler have this time each.
            async with asyncio.timeout(WAIT_S + 2 * (seconds + GRACE_S)):
                async with pool.checkout(
                    script_name=SCRIPT, limits=limits, os_policy=POLICY
                ) as session:
                    return await _called(session, code, handler, arguments)
        except MontyError as error:
            return _trouble(error, seconds=seconds)
        except (TimeoutError, ValueError, TypeError, RecursionError) as error:
            # The arguments could not be handed over, or no process was free.
            return Crashed(
                f"it could not be run ({type(error).__name__}: {without_secrets(error)[:120]})"
            )

    async def aclose(self) -> None:
        """End the processes; a later call starts them anew."""
        async with self._opening:
            await self._stack.aclose()
            self._pool = None

    async def _open(self) -> AsyncMonty:
        async with self._opening:
            if self._pool is None:
                self._pool = await self._stack.enter_async_context(
                    AsyncMonty(
                        max_processes=self._processes,
                        checkout_timeout=WAIT_S,
                        request_timeout=LONGEST_S + GRACE_S,
                        feed_duration_limit_grace=GRACE_S,
                        turn_duration_limit_grace=GRACE_S,
                        # No process serves two calls, so nothing leaks from one to the next.
                        max_checkouts_per_worker=1,
                    )
                )
            return self._pool


async def _called(
    session: AsyncMontySession, code: str, handler: str, arguments: Mapping[str, JsonValue]
) -> Trial:
    unheard = CollectString(max_bytes=PRINTED_BYTES)
    await session.feed_run(code, print_callback=unheard)
    value: object = await session.feed_run(
        f"{handler}(**{ARGUMENTS})", inputs={ARGUMENTS: dict(arguments)}, print_callback=unheard
    )
    read = as_object(value)
    return Crashed(read.problem) if isinstance(read, NoObject) else Returned(read)


def _trouble(error: MontyError, *, seconds: float) -> Trial:
    if isinstance(error, MontyCrashedError):
        late = f"it took more than {seconds:g} s" if error.timed_out else "the interpreter ended"
        return Crashed(late)
    raised = error.exception()
    kind = type(raised).__name__
    message = " ".join(str(raised).split())
    # Code may raise errors of these names by itself; those of the limits say `exceeded`.
    if kind in _LIMITS and "exceeded" in message:
        return Crashed(_LIMITS[kind].format(seconds=seconds))
    return Raised(kind=kind, message=message[:300], deliberate=_deliberate(error))


def _deliberate(error: MontyError) -> bool:
    """Whether the code failed by its own `raise` or `assert`, by the last line that ran."""
    if not isinstance(error, MontyRuntimeError):
        return False
    frames = error.traceback()
    source = (frames[-1].source_line or "").strip() if frames else ""
    return source.startswith(("raise ", "assert "))
