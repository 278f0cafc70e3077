"""Snapshots: the working folder of a run that writes, stored as a tree and as a patch."""

from perdure.activities.run_lifecycle import Snapshot
from perdure.domain.run.bookkeeping_messages import SnapshotReport, SnapshotRequest
from perdure.workflows.engine.lost_worker_retries import LostWorkerRetries
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed

DELIVERY_S = 60.0
EVERYTHING = "all files"
WHY_CHARACTERS = 1_000


class Snapshots:
    """Takes snapshots of a run's working folder."""

    def __init__(self, run: AnyRun, retries: LostWorkerRetries) -> None:
        self.run = run
        self.retries = retries

    async def take(self, *, patch_to: str | None = None) -> SnapshotReport | None:
        """Store the working folder; None if the run does not write or the step failed.

        An event tells what is not stored, and why.
        """
        run = self.run
        # Only a run that may write has a working copy with a tree to start from.
        if run.state.base_tree is None:
            return None
        outcome = await self.retries.workspace_step(
            Snapshot.snapshot,
            lambda: SnapshotRequest(
                run=run.id,
                root=run.state.root,
                patch_from=run.state.base_tree if patch_to is not None else None,
                patch_to=patch_to or None,
            ),
            summary=f"snapshot (iteration {run.iteration})",
            # The snapshot that a run delivers is taken in spite of the interruption that ends it.
            patience=DELIVERY_S if patch_to is not None else 0.0,
        )
        if not isinstance(outcome, Completed):
            self._not_stored((f"{EVERYTHING}: {outcome.message}"[:WHY_CHARACTERS],))
            return None
        self._not_stored(outcome.report.left_out)
        run.note_folder_tree(outcome.report.tree.hash)
        return outcome.report

    async def deliver(self, tree: str | None) -> SnapshotReport | None:
        """Store the folder, and the patch from its first state to `tree` (by default, to now)."""
        # Empty, not None, which would ask for no patch at all.
        return await self.take(patch_to=tree or "")

    def _not_stored(self, files: tuple[str, ...]) -> None:
        """Tell which files are not stored, once until that changes; the result names the last."""
        if files and files != self.run.unsaved_files:
            self.run.record_event("files_unsaved", why="; ".join(files)[:WHY_CHARACTERS])
        self.run.unsaved_files = files
