"""Starting the run that learns from this one, as a child that outlives it."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

from perdure.domain.foundation.names import learn_run_id
from perdure.domain.memory.learn_messages import LearnInput, learn_spec
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.base import Loop
from perdure.workflows.learn import LearnLoop

GOAL_CHARACTERS = 400


async def finish_and_learn(
    loop: Loop, result: RunResult, unwritten: tuple[IterationRecord, ...]
) -> RunResult:
    """End a run that may teach something; its result says whether a learning run started.

    Args:
        loop: the run.
        result: how it ends.
        unwritten: iteration records that the store does not have yet.
    """
    started = await _start_learning(loop, result, unwritten)
    return await loop.finish(result.model_copy(update={"learnings_started": started}), unwritten)


async def _start_learning(
    loop: Loop, result: RunResult, unwritten: Sequence[IterationRecord]
) -> bool:
    """Whether a learning run started; a run that never opened has nothing to teach."""
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
