"""The activity `collect`: garbage collection by a worker."""

from collections.abc import Awaitable, Callable

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.domain.retention.messages import CollectReport, CollectRequest


class Collect:
    """Collects garbage.

    Args:
        collect: applies the rules of retention of this worker, and drops what nothing needs.
    """

    def __init__(self, collect: Callable[[], Awaitable[CollectReport]]) -> None:
        self._collect = collect

    @activity.defn
    @translated
    async def collect(self, step: CollectRequest) -> CollectReport:
        """Collect once; a retried attempt goes on where the one before it ended.

        Runs are dropped one by one and blobs in parts, so nothing is dropped twice. What is still
        needed is looked up from the beginning, because it may have changed.
        """
        del step
        return await self._collect()
