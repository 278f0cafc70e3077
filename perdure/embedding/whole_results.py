"""Results of awaited loops with their whole output, however long it is."""

from datetime import timedelta

from temporalio import workflow

from perdure.domain.run.output_request import ReadOutputRequest
from perdure.domain.run.result import RunResult, with_value

READ_RUN_OUTPUT = "read_run_output"
WITHIN = timedelta(minutes=1)


async def whole_result(result: RunResult, *, task_queue: str | None = None) -> RunResult:
    """The result of a loop with its whole output.

    A loop returns 16 KiB of its output (`PERDURE_INLINE_OUTPUT_BYTES`), marked as `excerpt` if that
    is not all. The rest is in the store of its installation, from which an activity reads it; the
    output then stands in the history of this workflow. A result that is whole already is returned
    as it is, without a step.

    Args:
        result: what `agent` or another one returned, or the `result` of a `LoopFailed`.
        task_queue: a queue on which loops of the installation are started; None is the queue of
            this workflow, which a worker with `PerdurePlugin` serves.

    Returns:
        The result; with an output schema, `value` too.

    Raises:
        ActivityError: the output is no longer in the store (the cause has the type `not_found`), or
            it takes more than 1.5 MB (`invalid_input`).
    """
    # Without a reference there is nothing to read, as for a loop that has no output.
    if result.output_ref is None or (result.output is not None and not result.excerpt):
        return result
    asked = ReadOutputRequest(run=result.id, address=result.output_ref)
    # By name and as JSON, whatever data converter the worker's client has.
    output: str = await workflow.execute_activity(
        READ_RUN_OUTPUT,
        asked.model_dump(mode="json"),
        result_type=str,
        task_queue=task_queue,
        start_to_close_timeout=WITHIN,
        summary=f"read the whole output of {result.id}",
    )
    return with_value(result.model_copy(update={"output": output, "excerpt": False}))
