"""Starting the run that learns from this one, as a child that outlives it."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

from perdure.domain.foundation.names import learn_run_id
from perdure.domain.memory.learn_messages import LearnInput, learn_spec
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.learn import LearnLoop

GOAL_CHARACTERS = 400


async def finish_and_learn(
    engine: Engine, result: RunResult, unwritten: tuple[IterationRecord, ...]
) -> RunResult:
    """End a run that may teach something; its result says whether a learning run started.

    Args:
        engine: of the run.
        result: how it ends.
        unwritten: iteration records that the store does not have yet.
    """
    started = await _start_learning(engine.run, result, unwritten)
    return await engine.life.finish(
        result.model_copy(update={"learnings_started": started}), unwritten
    )


async def _start_learning(
    run: AnyRun, result: RunResult, unwritten: Sequence[IterationRecord]
) -> bool:
    """Whether a learning run started; a run that never opened has nothing to teach."""
    if not run.spec.learn or run.state.frame is None:
        return False
    child = learn_run_id(run.id)
    spec = learn_spec(
        run.spec,
        result,
        frame=run.state.frame,
        unwritten=unwritten,
        started_at=run.state.started_at,
        now=workflow.now(),
    )
    site = run.site.model_copy(
        update={"root": child, "parent": run.id, "folder": None, "writable": False}
    )
    try:
        await workflow.start_child_workflow(
            LearnLoop.execute,
            LearnInput(run=child, site=site, spec=spec),
            id=child,
            task_queue=run.site.loops,
            # It lives on when this run is over, and when this run is cancelled.
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            static_summary=f"learn from {run.id}",
            memo={"goal": spec.goal[:GOAL_CHARACTERS]},
        )
    except WorkflowAlreadyStartedError:
        # A learning run of an earlier end of this run is still at work.
        return False
    return True
