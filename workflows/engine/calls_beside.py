"""Model calls side by side, such as reviews of several results: their time, and what they hold."""

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from temporalio import workflow

from perdure.domain.budget import accounting as budgets
from perdure.workflows.engine.run import AnyRun

T = TypeVar("T")
# Patches. The active time of calls side by side was added up.
LONGEST_COUNTS = "the longest of calls side by side counts"
# A call was refused, or people were asked for money, for what only the calls beside it held.
WAITS_FOR_ROOM = "a call waits for what those beside it hold"

# The seconds that one of several branches has worked; None where there is one alone.
_BRANCH: ContextVar[list[float] | None] = ContextVar("perdure_branch", default=None)


@dataclass(frozen=True, slots=True)
class CallsBeside:
    """What the model calls of a run share; `open` names those in flight."""

    run: AnyRun
    open: set[str] = field(default_factory=set[str])

    async def all_of(self, branches: Sequence[Awaitable[T]]) -> list[T]:
        """Await all branches; of the active time of their calls the longest counts."""
        if len(branches) < 2:
            return list(await asyncio.gather(*branches))
        times: list[list[float]] = [[] for _ in branches]

        async def timed(branch: Awaitable[T], time: list[float]) -> T:
            _BRANCH.set(time)  # each branch is a task, with a context of its own
            return await branch

        try:
            return list(await asyncio.gather(*map(timed, branches, times)))
        finally:
            # Also if a branch failed: what the others worked is counted nowhere else.
            if any(times):
                longest = max(sum(time) for time in times)
                self.run.apply_budget(budgets.add_active_time(self.run.state.budget, longest))

    def worked(self, budget: budgets.Budget, seconds: float) -> budgets.Budget:
        """The budget after a call that worked so long."""
        time = _BRANCH.get()
        if time is None or not workflow.patched(LONGEST_COUNTS):
            return budgets.add_active_time(budget, seconds)
        time.append(seconds)
        return budget

    @contextmanager
    def in_flight(self, activity_id: str) -> Generator[None]:
        """A block in which a call holds its reservation."""
        self.open.add(activity_id)
        try:
            yield
        finally:
            self.open.discard(activity_id)

    async def wait_for_room(self) -> bool:
        """Wait until a call in flight has settled, which probably used less than it held.

        Returns:
            False if there is none, or the run must end by now.
        """
        # As it is now: for calls that begin meanwhile nobody waits.
        held = frozenset(self.open)
        if not held or not workflow.patched(WAITS_FOR_ROOM):
            return False
        await workflow.wait_condition(lambda: not held <= self.open)
        return self.run.demanded_ending() is None
