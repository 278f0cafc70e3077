"""The runs of an experiment's trials: started as child runs and seen to their end."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from perdure.domain.experiments.messages import OpenTrialReport
from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.run.messages import Stop
from perdure.domain.run.result import RunResult
from perdure.workflows.engine.other_workflows import Handle, send
from perdure.workflows.task_start import INPUTS

STOP = Stop(mode="now", by="the experiment")
LOOK_AGAIN = timedelta(seconds=10)
# Each look makes the history longer, which the server limits.
LONGEST_PAUSE = timedelta(minutes=10)
# Patch: an experiment that was to stop now waited on for a run that was no child of it.
LEAVES_OTHERS = "leaves-runs-of-other-executions"


class TrialRuns:
    """Sees runs to their end.

    Args:
        stopped: whether all is to stop now.
    """

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self.children: dict[str, Handle] = {}
        self._asked: set[str] = set()

    async def run(
        self, opened: OpenTrialReport, again: Callable[[], Awaitable[OpenTrialReport]]
    ) -> bool:
        """See a run to its end, whatever that is; the store knows how it ended.

        Args:
            opened: the run.
            again: opens it once more, after somebody else had started it.

        Returns:
            False if it is no child and open still when all is to stop.
        """
        pause = LOOK_AGAIN
        while opened.run is not None and opened.input is not None:
            try:
                await self._child(opened.run, opened)
            except WorkflowAlreadyStartedError:
                # An execution of this experiment that was ended or reset had started it, and the
                # server has asked it to end. It may wait for days for a worker.
                if await self._wait_for_stop(opened.run, pause):
                    return False
                pause = min(2 * pause, LONGEST_PAUSE)
                opened = await again()
            else:
                break
        return True

    async def _child(self, run: str, opened: OpenTrialReport) -> None:
        handle: Handle = await workflow.start_child_workflow(
            WORKFLOW_TYPES[opened.kind],
            read_value(INPUTS[opened.kind], opened.input),
            id=run,
            task_queue=opened.queue,
            memo=opened.memo,
            result_type=RunResult,
            # A run that is cancelled stops with the best it has; one that is abandoned spends on.
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
        )
        self.children[run] = handle
        try:
            await handle
        except ChildWorkflowError:
            pass  # a failed run has a result, and a terminated one has a journal
        finally:
            del self.children[run]

    async def _wait_for_stop(self, run: str, pause: timedelta) -> bool:
        """Wait before another look at a run that is no child; True once all is to stop."""
        if not workflow.patched(LEAVES_OTHERS):
            await workflow.sleep(pause)
            return False
        with suppress(TimeoutError):
            await workflow.wait_condition(
                self._stopped, timeout=pause, timeout_summary=f"look at {run} again"
            )
            return True
        return False

    async def stop_children(self) -> None:
        """Ask each child that is open to stop, once."""
        # A copy: a run may end while another is asked.
        for run, handle in list(self.children.items()):
            if run not in self._asked:
                self._asked.add(run)
                await send(handle, "stop", STOP)
