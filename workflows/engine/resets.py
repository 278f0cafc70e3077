"""Resets: a run that was reset first takes over from its older executions.

The server signals a reset in the middle of a history by a new random seed. A reset to the very
first task brings none; there the execution's id tells. An execution that ran into Temporal's own
time limit begins again where its retry policy asks for it; that is a reset to its start.
"""

import asyncio

from temporalio import workflow

from perdure.activities.take_over import TakeOver
from perdure.domain.foundation.tolerance import read
from perdure.domain.run.result import RunResult
from perdure.domain.run.take_over import TakeOverRequest, take_over
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.other_workflows import cancel
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.stored_terms import StoredTerms

# Patches. A reset to the first task shows in the run id alone, not by a new random seed.
FROM_THE_START = "reset-to-the-start"
# Under a retry policy of the client, the server begins a run again with a copy of its input.
TRIED_AGAIN = "tried-again-by-the-server"


class Superseded(Exception):
    """This run ended before it was reset, and its parent has the result already."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(result.id)
        self.result = result


class Resets:
    """Notices that this execution replaces an older one, and takes over from it."""

    def __init__(self, run: AnyRun, terms: StoredTerms) -> None:
        self.run = run
        self.terms = terms
        self._was_reset = False
        self._taking = asyncio.Lock()

    def watch(self) -> None:
        """Start watching for a reset; called once, before anything else."""
        # A reset copies the old history and goes on from there. Only the new random seed shows it
        # to workflow code.
        workflow.register_random_seed_callback(self._reseeded)
        info = workflow.info()
        other = info.original_execution_run_id != info.run_id
        # While replaying, the marker alone tells: an execution that was reset to a later point
        # replays a beginning that took nothing over.
        if (other or workflow.unsafe.is_replaying()) and workflow.patched(FROM_THE_START):
            self._was_reset = True
        if info.attempt > 1 and workflow.patched(TRIED_AGAIN):
            self._was_reset = True
        beforehand = self.run.given.beforehand
        if beforehand is not None and beforehand.was_reset:
            self._was_reset = True

    @property
    def pending(self) -> bool:
        """Whether this execution has yet to take over from an older one."""
        return self._was_reset

    def _reseeded(self, seed: int) -> None:
        self._was_reset = True

    async def take_over(self) -> None:
        """End what older executions left running, and count what they spent.

        Raises:
            Superseded: this run is a child that ended before it was reset.
        """
        if not self._was_reset:
            return
        # Parallel steps all come through here; the second must wait for the first, not take over
        # again.
        async with self._taking:
            if not self._was_reset:
                return
            await self._take_over()
            self._was_reset = False

    async def _take_over(self) -> None:
        run, state = self.run, self.run.state
        report = await workflow.execute_activity_method(
            TakeOver.take_over,
            TakeOverRequest(
                run=run.id,
                root=run.site.root or run.id,
                before=_before(),
                children=state.children_started,
                records=state.record_count,
                dropped_calls=state.dropped_calls,
                held=tuple(state.budget.reserved),
                count_cache_reads=state.budget.limits.count_cache_reads,
            ),
            **activity_options.store_step(run.site, summary="take over after a reset"),
        )
        # A child that was reset after its end has nothing to give: its parent has read its result
        # and booked its spend.
        if report.ended is not None:
            raise Superseded(read(RunResult, report.ended))
        self.terms.store_anew()
        run.record_event("run_reset", **take_over(state, report))
        # Nobody waits for the results of these children any more.
        await asyncio.gather(*(cancel(one.id) for one in report.orphans if one.open))
        run.sync_visibility()


def _before() -> str:
    """The execution whose place this one takes."""
    info = workflow.info()
    tried_again = info.attempt > 1 and info.original_execution_run_id == info.run_id
    return (tried_again and info.continued_run_id) or info.original_execution_run_id
