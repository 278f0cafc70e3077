"""Calls an activity of a worker that is not Perdure's, as a tool or as a check."""

from collections.abc import Sequence

from pydantic import JsonValue
from pydantic_core import to_jsonable_python
from temporalio import workflow

from perdure.domain.foundation.json_extraction import with_named_numbers
from perdure.domain.tools.definitions import ActivityTarget
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed, StepRunner


async def call_foreign(
    run: AnyRun,
    steps: StepRunner,
    target: ActivityTarget,
    arguments: Sequence[JsonValue],
    *,
    summary: str,
    timeout_s: float,
) -> Completed[JsonValue] | StepFailed:
    """Schedule the activity on the queue of its owner; its value comes back as plain JSON."""
    activity_id = run.next_activity_id()
    handle: workflow.ActivityHandle[object] = workflow.start_activity(
        target.type,
        args=arguments,
        **activity_options.activity_tool(
            target, activity_id=activity_id, summary=summary, timeout_s=timeout_s
        ),
    )
    ended = await steps.await_step(handle, activity_id=activity_id, foreign=True)
    if isinstance(ended, StepFailed):
        return ended
    plain: JsonValue = to_jsonable_python(ended.report, fallback=repr, bytes_mode="base64")
    return Completed(with_named_numbers(plain))
