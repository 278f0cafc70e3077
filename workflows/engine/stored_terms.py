"""Keeps in the store what people change of a run: its limits, goal, iterations and metadata.

A retry and a fork start from the store alone, also when the server has lost the run. The run alone
writes, in the order in which it took the changes, whoever sent them; it answers an update when the
store has the change.
"""

from temporalio import workflow
from temporalio.exceptions import ActivityError

from perdure.activities.run_lifecycle import KeepTerms
from perdure.domain.run.bookkeeping_messages import KeepTermsRequest
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.run import AnyRun

# Patches. What a plain Temporal client amended was known to the run alone: a retry of one that the
# server had lost began with the old limits.
KEEPS_TERMS = "keeps terms"
# After a reset that left amendments out the store kept them, and a retry or fork began from them.
KEEPS_THEM_AFTER_A_RESET = "keeps terms after a reset"


class StoredTerms:
    """Stores changes one after another; many that come at once are stored as one."""

    def __init__(self, run: AnyRun) -> None:
        self.run = run
        self._limits = run.state.budget.limits
        self._storing = False
        self._anew = False

    @property
    def settled(self) -> bool:
        """Whether the store has all of them; until then the run neither ends nor goes on as new."""
        return not self._storing and not self._due

    def store_anew(self) -> None:
        """Store all terms as they are now: after a reset the store has those of the older life.

        Those may be newer, where the reset left out the messages that changed them.
        """
        self._anew = True

    @property
    def _due(self) -> bool:
        return self._anew or self._changed

    @property
    def _changed(self) -> bool:
        # By identity first: a condition is looked at many times in each task.
        limits = self.run.state.budget.limits
        return bool(self.run.edits) or (limits is not self._limits and limits != self._limits)

    async def wait(self) -> None:
        """Wait until the store has all changes."""
        if not self.settled:
            await workflow.wait_condition(lambda: self.settled)

    async def keep_up(self) -> None:
        """Store each change as it comes, until the run ends."""
        while True:
            await workflow.wait_condition(lambda: self._due)
            limits, edits = self.run.state.budget.limits, self.run.edits
            anew, changed = self._anew, self._changed
            # Before the step: what is changed while it runs is then stored by the next one.
            self._limits, self.run.edits, self._anew = limits, (), False
            # The history of an older version goes on as it did.
            if anew and workflow.patched(KEEPS_THEM_AFTER_A_RESET):
                spec = self.run.spec.model_dump(mode="json", by_alias=True)
                await self._keep(KeepTermsRequest(run=self.run.id, limits=limits, spec=spec))
            elif changed and workflow.patched(KEEPS_TERMS):
                await self._keep(KeepTermsRequest(run=self.run.id, limits=limits, edits=edits))

    async def _keep(self, request: KeepTermsRequest) -> None:
        self._storing = True
        try:
            await workflow.execute_activity_method(
                KeepTerms.keep_terms,
                request,
                **activity_options.store_step(self.run.site, summary="keep what was amended"),
            )
        except ActivityError as error:
            # The run has taken the change, and must not end over a copy of it.
            workflow.logger.warning("what was amended could not be stored: %s", error.cause)
        finally:
            self._storing = False
