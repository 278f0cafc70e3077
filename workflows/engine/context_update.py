"""Writing a run's frame anew: a person amended the rubric or changed the goal."""

from pydantic import JsonValue
from temporalio import workflow

from perdure.activities.open_run import Reframe
from perdure.domain.refine.state import ReframeReport, ReframeRequest
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import StepFailed


async def reframed(
    engine: Engine,
    frame: str,
    *,
    goal: str | None,
    summary: str,
    extra: dict[str, JsonValue] | None = None,
) -> ReframeReport | None:
    """A frame with another goal, or with other demands of its kind; None when the step broke.

    Args:
        engine: of the run.
        frame: the old frame's address.
        goal: the new one; None keeps it.
        summary: of the step, for people.
        extra: what the kind of loop demands; None keeps it.
    """
    activity_id = engine.run.next_activity_id()
    handle = workflow.start_activity_method(
        Reframe.reframe,
        ReframeRequest(frame=frame, extra=extra, goal=goal),
        **activity_options.store_step(engine.run.site, activity_id=activity_id, summary=summary),
    )
    done = await engine.steps.await_step(handle, activity_id=activity_id)
    return None if isinstance(done, StepFailed) else done.report
