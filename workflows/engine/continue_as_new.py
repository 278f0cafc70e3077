"""When a run continues as new, and which stages must not be cut in two by it."""

from collections.abc import Awaitable
from typing import TypeVar

from temporalio import workflow

from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.stored_terms import StoredTerms

T = TypeVar("T")
# A pinned run changes its version only here: the first task of the next execution chooses one, and
# is pinned to it.
AUTO_UPGRADE = workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE
# Patch: a run that was reset while it waited for people, and continued as new there, took nothing
# over: that it was reset is known to this execution alone.
TAKES_OVER_FIRST = "what was reset takes over before it continues as new"


class ContinueAsNew:
    """Starts a fresh history when a run's own has grown too long, or is to go on in other code."""

    def __init__(self, run: AnyRun, terms: StoredTerms, resets: Resets) -> None:
        self.run = run
        self.terms = terms
        self.resets = resets

    @property
    def _moves(self) -> bool:
        """Whether the run may move to the version that its deployment has chosen meanwhile."""
        return self.run.spec.upgrade == "auto"

    def due(self) -> bool:
        """Whether this execution's history has grown enough, or another version waits for it."""
        run, info, timing = self.run, workflow.info(), self.run.site.timing
        if run.in_one_piece:
            return False
        if not (run.steps_started or run.handled):
            return False  # without progress it would continue as new for ever
        return (
            info.is_continue_as_new_suggested()
            or (self._moves and info.is_target_worker_deployment_version_changed())
            or info.get_current_history_length() >= timing.roll_events
            or info.get_current_history_size() >= timing.roll_bytes
            or run.handled >= timing.roll_messages
        )

    async def continue_if_due(self) -> None:
        """Continue as new when it is due; callers have no open activity or child."""
        if not self.due():
            return
        await self.terms.wait()
        # The sender of an `amend` that was stored just now has no answer yet.
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self.resets.pending and workflow.patched(TAKES_OVER_FIRST):
            await self.resets.take_over()
            await self.continue_if_due()  # once more, as now there are terms to store anew
            return
        self.run.state.rolls += 1
        self.run.state = self.run.state.carried()
        workflow.continue_as_new(
            self.run.next_input(),
            memo=self.run.memo(),
            initial_versioning_behavior=AUTO_UPGRADE if self._moves else None,
        )

    async def run_in_one_piece(self, stage: Awaitable[T]) -> T:
        """Run a stage without continuing as new inside it, because it must not happen twice."""
        # Restored, not reset: such stages nest.
        before, self.run.in_one_piece = self.run.in_one_piece, True
        try:
            return await stage
        finally:
            self.run.in_one_piece = before
