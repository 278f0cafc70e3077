"""Replaces a run's frame after a person amended the rubric or the goal."""

from pydantic import JsonValue
from temporalio import workflow

from perdure.activities.open_run import Reframe
from perdure.domain.refine.state import ReframeReport, ReframeRequest
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import StepFailed


async def reframe(
    engine: Engine,
    frame: str,
    *,
    goal: str | None,
    summary: str,
    extra: dict[str, JsonValue] | None = None,
) -> ReframeReport | None:
    """Write a new frame with another goal, or with other settings of the loop's kind.

    Args:
        engine: that of the run.
        frame: the address of the old frame.
        goal: the new goal; None keeps the old one.
        summary: of the step, for people.
        extra: the settings of this kind of loop; None keeps the old ones.

    Returns:
        The new frame's address; None if the step failed.
    """
    # A frame is a blob named by its hash and never edited, so that earlier steps can still be
    # explained by the frame that they had.
    activity_id = engine.run.next_activity_id()
    handle = workflow.start_activity_method(
        Reframe.reframe,
        ReframeRequest(frame=frame, extra=extra, goal=goal),
        **activity_options.store_step(engine.run.site, activity_id=activity_id, summary=summary),
    )
    done = await engine.steps.await_step(handle, activity_id=activity_id)
    return None if isinstance(done, StepFailed) else done.report
