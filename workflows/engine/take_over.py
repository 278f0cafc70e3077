"""A run that was reset: before anything else it takes over from the lives before it.

The server says that an execution began in the middle of an older one's history by a new random
seed. Only a reset to the very first task brings none: there the execution's id tells.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.activities.take_over import TakeOver
from perdure.domain.run.result import RunResult
from perdure.domain.run.take_over import Orphan, TakeOverRequest, take_over
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.step_runner import StepRunner

FROM_THE_START = "reset-to-the-start"


class Superseded(Exception):
    """The parent of a child that was reset has its result already: there is nothing to do."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(result.id)
        self.result = result


class TakingOver(StepRunner):
    """Adds taking over to the running of steps."""

    _was_reset: bool = False
    _taking: asyncio.Lock

    def watch_for_resets(self) -> None:
        """Notice that this execution replaces an older one; called once, first of all."""
        self._taking = asyncio.Lock()
        workflow.register_random_seed_callback(self._reseeded)
        info = workflow.info()
        other = info.original_execution_run_id != info.run_id
        # While replaying, the marker alone tells: an execution that was reset to a later point
        # replays a beginning that took nothing over.
        if (other or workflow.unsafe.is_replaying()) and workflow.patched(FROM_THE_START):
            self._was_reset = True

    def _reseeded(self, seed: int) -> None:
        self._was_reset = True

    async def wait_while_paused(self) -> bool:
        """Start no new step before the older lives are accounted for."""
        await self.take_over()
        return await super().wait_while_paused()

    async def take_over(self) -> None:
        """End what older lives left behind, and count what they spent.

        Raises:
            Superseded: this run ended in an older life, and works for another run.
        """
        if not self._was_reset:
            return
        async with self._taking:
            if not self._was_reset:
                return
            await self._take_over()
            self._was_reset = False

    async def _take_over(self) -> None:
        core = self.core
        report = await workflow.execute_activity_method(
            TakeOver.take_over,
            TakeOverRequest(
                run=self.run_id,
                root=self.site.root or self.run_id,
                before=workflow.info().original_execution_run_id,
                children=core.children_started,
                records=core.record_count,
                held=tuple(core.budget.reserved),
            ),
            **activity_options.store_step(self.site, summary="take over after a reset"),
        )
        if report.ended is not None:
            raise Superseded(RunResult.model_validate_json(report.ended))
        self.record_event("run_reset", **take_over(core, report))
        await asyncio.gather(*(_end(one) for one in report.orphans if one.open))
        self.sync_visibility()


async def _end(orphan: Orphan) -> None:
    """Ask a child of an older life to end; how it does is nobody's any more."""
    try:
        await workflow.get_external_workflow_handle(orphan.id).cancel()
    except FailureError:
        # It ended in this very moment.
        return
