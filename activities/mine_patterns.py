"""The activity `mine`: look for habits in the events of ended runs."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.domain.memory.entries import Event
from perdure.domain.memory.pattern_mining import MineReport, MineRequest, mined, proposable
from perdure.domain.memory.store import MemoryStore

EVENTS_LOOKED_AT = 20_000
PATTERNS_KEPT = 1_000


class Mine:
    """Finds patterns, and keeps those that are certain enough as proposals to a person."""

    def __init__(self, memory: MemoryStore) -> None:
        self._memory = memory

    @activity.defn
    @translated
    async def mine(self, step: MineRequest) -> MineReport:
        """Write new proposals, bring known patterns up to date, drop what time has faded.

        A pattern that a person has judged keeps that word, whatever is seen later.
        """
        events = await self._memory.list(kinds=("event",), limit=EVENTS_LOOKED_AT)
        known = await self._memory.list(kinds=("pattern",), limit=PATTERNS_KEPT)
        ids = {entry.id for entry in known}
        found = mined([entry for entry in events if isinstance(entry, Event)], now=step.now)
        for pattern in found:
            if pattern.id in ids or proposable(pattern):
                await self._memory.put(pattern)
        forgotten = await self._memory.forget_faded(step.now)
        return MineReport(
            events=len(events),
            found=len(found),
            proposed=sum(pattern.id not in ids and proposable(pattern) for pattern in found),
            forgotten=forgotten,
        )
