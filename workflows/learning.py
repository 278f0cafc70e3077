"""Starting the run that learns from this one, as a child that outlives it."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

from perdure.domain.memory.learning import LearnInput, learn_spec
from perdure.domain.names import learn_run_id
from perdure.domain.result import IterationRecord, RunResult
from workflows.learn import LearnLoop
from workflows.loop import Loop

GOAL_CHARACTERS = 400


async def start_learning(
    loop: Loop, result: RunResult, unwritten: Sequence[IterationRecord] = ()
) -> bool:
    """Start the learning run of a run that is about to end; tell whether it started.

    A run that never opened has nothing to teach.

    Args:
        loop: the run.
        result: how it ends.
        unwritten: iteration records that the store may not have yet.
    """
    if not loop.spec.learn or loop.core.frame is None:
        return False
    child = learn_run_id(loop.run_id)
    spec = learn_spec(
        loop.spec,
        result,
        frame=loop.core.frame,
        unwritten=unwritten,
        started_at=loop.core.started_at,
        now=workflow.now(),
    )
    site = loop.site.model_copy(
        update={"root": child, "parent": loop.run_id, "folder": None, "writable": False}
    )
    try:
        await workflow.start_child_workflow(
            LearnLoop.run,
            LearnInput(run=child, site=site, spec=spec),
            id=child,
            task_queue=loop.site.loops,
            # It lives on when this run is over, and when this run is cancelled.
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            static_summary=f"learn from {loop.run_id}",
            memo={"goal": spec.goal[:GOAL_CHARACTERS]},
        )
    except WorkflowAlreadyStartedError:
        # A learning run of an earlier end of this run is still at work.
        return False
    return True
