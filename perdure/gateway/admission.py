"""Holds starts back while the limit of open runs is reached."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.domain.foundation.errors import NoRoom
from perdure.domain.foundation.names import OPEN_EXECUTION
from perdure.domain.installation.open_limits import OpenLimits
from perdure.domain.run.fairness import searched_tenant
from perdure.event_log import get_logger
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.types import InstallationInfo
from perdure.gateway.visibility import OURS, quoted

TENANT = "PerdureTenant"
OPEN_ROOTS = f"{OPEN_EXECUTION} AND {OURS} AND ParentWorkflowId IS NULL"
LOOK_S, LONGEST_LOOK_S, LONGER = 2.0, 15.0, 1.5
# For so long, all starts of this process share one answer of the server.
SHARED_S = 1.0
# The server's visibility index includes a new run after this time.
SETTLED_S = 3.0
# Returns the limit that holds a start back, in words, or None.
Room = Callable[[], Awaitable[str | None]]
# Whether a start that waits is still to be made.
GoOn = Callable[[], Awaitable[bool]]
UnlistedRuns = Callable[[], Awaitable[Sequence[ExecutionInfo]]]
_log = get_logger(__name__)


class Counting(Protocol):
    """The server's list of runs."""

    async def count(self, query: str) -> int:
        """How many executions a query finds."""
        ...


async def nobody() -> Sequence[ExecutionInfo]:
    """No run that the index lacks."""
    return ()


async def always() -> bool:
    """Wait for room however long it takes."""
    return True


@dataclass(frozen=True, slots=True)
class _Full:
    """A limit that holds a start back; `known` means that the server's count alone reaches it."""

    words: str
    known: bool


class Admission:
    """Admits starts by the number of open runs: of the server's index, and of the rows it lacks.

    Starts of one process share the server's answers and also count each other, so together they
    keep the limit. Starts of several processes at the same moment do not see each other and may
    exceed it.

    Args:
        server: counts executions.
        facts: the limits, and the name of a tenant at the server.
        unlisted: finds the open runs that the server's index lacks yet.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        server: Counting,
        facts: InstallationInfo,
        *,
        unlisted: UnlistedRuns = nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits: OpenLimits = facts.limits
        self._facts = facts
        self._counts = SharedCounts(server, unlisted=unlisted, clock=clock)
        self._clock = clock
        self._begun = deque[tuple[float, str | None]]()

    async def admit(self, tenant: str | None, *, queue: str, go_on: GoOn = always) -> None:
        """Wait until a run of this tenant may start on the loops queue of its installation.

        Args:
            tenant: of the run.
            queue: the loops queue of its installation.
            go_on: asked after each pause; the wait ends, with nothing admitted, when it says no.

        Raises:
            NoRoom: a limit is reached, and the settings refuse starts above it.
        """
        told, pause = None, LOOK_S
        while (full := await self._full(tenant, queue)) is not None:
            if full.known:
                self._refuse(full)
                if full.words != told:
                    _log.warning("start_waits", because=full.words)
                told, pause = full.words, min(pause * LONGER, LONGEST_LOOK_S)
            # Random pauses, so that waiting starts do not all ask at once.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            if not await go_on():
                return

    async def claim_room(self, tenant: str | None, *, queue: str) -> str | None:
        """The limit that holds a start back, in words; None admits the start and counts it.

        Raises:
            NoRoom: as for `admit`.
        """
        while (full := await self._full(tenant, queue)) is not None:
            if full.known:
                self._refuse(full)
                return full.words
            await asyncio.sleep(LOOK_S * random.uniform(0.5, 1.0))
        return None

    def _refuse(self, full: _Full) -> None:
        if self._limits.above == "refuse":
            raise NoRoom(
                f"{full.words}. Nothing was started.",
                cure="Start it again when one has ended, or raise the limit.",
            )

    async def _full(self, tenant: str | None, queue: str) -> _Full | None:
        """The limit that holds a start back; None admits the start and counts it."""
        limits = self._limits
        asked = {"total": limits.runs is not None}
        asked["own"] = limits.per_tenant is not None and tenant is not None
        total = f"{OPEN_ROOTS} AND TaskQueue = {quoted(queue)}"
        called = searched_tenant(self._facts.fairness(tenant)) or ""
        queries = {"total": total, "own": f"{total} AND {TENANT} = '{called}'"}
        wanted = [name for name, needed in asked.items() if needed]
        if not wanted:
            return None
        tenants = {"total": None, "own": called}
        answers = await asyncio.gather(
            *(self._counts.count(queries[name], tenant=tenants[name]) for name in wanted)
        )
        seen = dict(zip(wanted, (count for _, count in answers), strict=True))
        known = limits.start_refusal(tenant, total=seen.get("total", 0), own=seen.get("own", 0))
        if known is not None:
            return _Full(known, known=True)
        # No await from here to the append, so that the second of two starts counts the first.
        # By the oldest answer: it lacks the most starts.
        begun = self._begun_since(min(at for at, _ in answers) - SETTLED_S)
        words = limits.start_refusal(
            tenant,
            total=seen.get("total", 0) + len(begun),
            own=seen.get("own", 0) + begun.count(tenant),
        )
        if words is not None:
            # The index may have some of these starts already, so they may be counted twice. That
            # makes a start wait a moment, and must not refuse it.
            return _Full(words, known=False)
        self._begun.append((self._clock(), tenant))
        return None

    def _begun_since(self, moment: float) -> list[str | None]:
        """The tenants of starts that the server's answers may not include yet."""
        # Some are kept for longer than this answer needs them: another start may hold an older one.
        old = self._clock() - SETTLED_S - 2 * SHARED_S
        while self._begun and self._begun[0][0] < min(old, moment):
            self._begun.popleft()
        return [tenant for at, tenant in self._begun if at >= moment]


class SharedCounts:
    """Counts open runs; equal questions within a short time share one answer."""

    def __init__(
        self, server: Counting, *, unlisted: UnlistedRuns, clock: Callable[[], float]
    ) -> None:
        self._server = server
        self._unlisted = unlisted
        self._clock = clock
        self._asked: dict[str, tuple[float, asyncio.Task[int]]] = {}

    async def count(self, query: str, *, tenant: str | None) -> tuple[float, int]:
        """The time of the request, and the number of runs.

        Args:
            query: for those that the server's index has.
            tenant: whose runs count of those that it lacks; None: all.
        """
        now = self._clock()
        self._asked = {name: one for name, one in self._asked.items() if _serves(*one, now=now)}
        if query not in self._asked:
            self._asked[query] = (now, asyncio.create_task(self._count(query, tenant)))
        at, asking = self._asked[query]
        # Shielded: a caller that is cancelled must not cancel the request for the others.
        return at, await asyncio.shield(asking)

    async def _count(self, query: str, tenant: str | None) -> int:
        # Before the index is asked: what it gets in between is counted twice, and not missed.
        late = [look for look in await self._unlisted() if look.open]
        if tenant is not None:
            late = [look for look in late if look.text(TENANT) == tenant]
        return len(late) + await self._server.count(query)


def _serves(at: float, asking: asyncio.Task[int], *, now: float) -> bool:
    """Whether an answer may be shared: a pending one always, another while it is recent."""
    if not asking.done():
        return True
    return now - at < SHARED_S and not asking.cancelled() and asking.exception() is None
