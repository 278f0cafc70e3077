"""The activity `open_task`: from the task that a Temporal client sent to a run that can go on."""

from collections.abc import Awaitable, Callable

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.run_storage import inline_output
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import BlobStore
from perdure.domain.run.result import RunResult, with_value
from perdure.domain.run.task_start import OpenTaskReport, OpenTaskRequest

ReadTask = Callable[[str, OpenTaskRequest], Awaitable[OpenTaskReport]]


class OpenTask:
    """Prepares a run that a Temporal client started, as interfaces do before they start one.

    Args:
        read: checks the task and claims the run's row; for a task that cannot run it returns the
            result of a failed run.
        blobs: where the outputs of earlier runs are.
        inline: how many bytes of its output a run returns beside the address.
    """

    def __init__(self, read: ReadTask, *, blobs: BlobStore, inline: int) -> None:
        self._read = read
        self._blobs = blobs
        self._inline = inline

    @activity.defn
    @translated
    async def open_task(self, step: OpenTaskRequest) -> OpenTaskReport:
        """Open a run; a repeat finds the row of the attempt before."""
        run = activity.info().workflow_id
        if run is None:
            raise InvalidInput("open_task was started alone; it is a step of a workflow.")
        report = await self._read(run, step)
        if report.result is None:
            return report
        # The row keeps only the output's address; whoever waits for the run wants to read it.
        result = read(RunResult, report.result)
        output, excerpt = await inline_output(self._blobs, result.output_ref, self._inline)
        whole = with_value(result.model_copy(update={"output": output, "excerpt": excerpt}))
        return report.model_copy(update={"result": whole.model_dump_json()})
