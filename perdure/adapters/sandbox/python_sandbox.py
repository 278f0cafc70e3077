"""Runs Python of a rubric in an interpreter without files, network, processes or a clock.

pydantic-monty interprets it in worker processes of its own, without any host function. No worker
process serves two snippets.
"""

import threading
from collections.abc import Mapping
from contextlib import ExitStack

from pydantic import JsonValue
from pydantic_monty import CollectString, Monty, MontyError, MontySession, OSPolicy, ResourceLimits

from perdure.domain.evaluation.checks import ADAPTATION, Snippet
from perdure.domain.foundation.errors import PerdureError

SECONDS = 2.0
MEMORY_BYTES = 64 << 20
RECURSION = 200
PROCESSES = 2
# How long to wait for a free process. It bounds a pool that hangs, not the code.
WAIT_S = 30.0
LIMITS: ResourceLimits = {
    "max_feed_duration_secs": SECONDS,
    "max_turn_duration_secs": SECONDS,
    "max_memory": MEMORY_BYTES,
    "max_recursion_depth": RECURSION,
    "max_suspensions": 100,
}
# The same output gets the same score, since randomness is seeded. `sleep` returns at once, so that
# code cannot hold a worker by waiting.
POLICY: OSPolicy = {"sleep": "zero", "random_start": {"seed": 0}}


class SnippetFailed(PerdureError):
    """The code raised an error or exceeded a limit."""

    code = "snippet_failed"


class SnippetRunner:
    """Runs snippets, each in a fresh process; its pool of processes starts at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._pool: Monty | None = None

    def verdict(
        self, snippet: Snippet, output: str, adaptation: Mapping[str, JsonValue] | None = None
    ) -> object:
        """The value of the snippet for an output and the adaptation in force.

        Raises:
            SnippetFailed: the code raised, or took more time or memory than a check may.
        """
        # Lone surrogates have no UTF-8 encoding: the code sees a question mark instead of failing.
        text = output.encode("utf-8", "replace").decode("utf-8")
        try:
            with self._open().checkout(
                script_name="check.py", limits=LIMITS, os_policy=POLICY
            ) as session:
                inputs: dict[str, object] = {"output": text, ADAPTATION: dict(adaptation or {})}
                return _run(session, snippet, inputs)
        except (MontyError, TimeoutError) as error:
            raise SnippetFailed(_words(error)) from None

    def close(self) -> None:
        """End the processes; a later check starts them anew."""
        with self._lock:
            self._stack.close()
            self._pool = None

    def _open(self) -> Monty:
        with self._lock:
            if self._pool is None:
                self._pool = self._stack.enter_context(
                    Monty(
                        max_processes=PROCESSES,
                        checkout_timeout=WAIT_S,
                        # Above the interpreter's own limit, whose clock leaves compiling out.
                        request_timeout=SECONDS + 3,
                        max_checkouts_per_worker=1,
                    )
                )
            return self._pool


def _run(session: MontySession, snippet: Snippet, inputs: dict[str, object]) -> object:
    unheard = CollectString()
    if snippet.setup:
        session.feed_run(snippet.setup, inputs=inputs, print_callback=unheard)
    return session.feed_run(snippet.verdict, inputs=inputs, print_callback=unheard)


def _words(error: Exception) -> str:
    """The last line of a traceback, short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
