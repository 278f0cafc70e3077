"""Replays histories of loops for a replayer that has the plugin."""

from collections import deque
from collections.abc import AsyncIterator

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, WorkflowReplayResult

from perdure.adapters.temporal.joined_converter import of_replays
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.names import is_loops_queue
from perdure.workflows.registry import WORKFLOWS, workflow_runner


class LoopHistories:
    """Replays histories of loops, and leaves the others to the given replayer.

    A loop and the workflow that opens its task have the same type; the queue tells them apart. Only
    `perdure replay` can read values that are kept in the store of an installation.
    """

    def __init__(self, replayer: Replayer, histories: AsyncIterator[WorkflowHistory]) -> None:
        self._histories = histories
        self._replayed = deque[WorkflowReplayResult]()
        self._converter = replayer.config(active_config=True).get("data_converter")

    async def of_others(self) -> AsyncIterator[WorkflowHistory]:
        """The histories that are of no loop; those of loops are replayed meanwhile."""
        replayer: Replayer | None = None
        async for history in self._histories:
            if not _is_of_loop(history):
                yield history
                continue
            # Made at the first loop: replayers without one need none of our workflows.
            replayer = replayer or self._of_loops()
            self._replayed.append(
                await replayer.replay_workflow(history, raise_on_replay_failure=False)
            )

    async def with_loops(
        self, results: AsyncIterator[WorkflowReplayResult]
    ) -> AsyncIterator[WorkflowReplayResult]:
        """The results of the others, together with those of loops."""
        async for result in results:
            while self._replayed:
                yield self._replayed.popleft()
            yield result
        # Again: loops behind the last history of others are replayed when `results` ends.
        while self._replayed:
            yield self._replayed.popleft()

    def _of_loops(self) -> Replayer:
        assert self._converter is not None  # the plugin configures one
        return Replayer(
            workflows=list(WORKFLOWS),
            workflow_runner=workflow_runner(),
            data_converter=of_replays(self._converter),
            workflow_failure_exception_types=[PerdureError],
            debug_mode=True,  # no limit of two seconds for a task, which a busy machine may need
        )


def _is_of_loop(history: WorkflowHistory) -> bool:
    if not history.events:
        return False
    begun = history.events[0].workflow_execution_started_event_attributes
    known = {one.__name__ for one in WORKFLOWS}
    return is_loops_queue(begun.task_queue.name) and begun.workflow_type.name in known
