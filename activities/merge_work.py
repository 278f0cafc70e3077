"""The activity `merge_work`: what a worker changed in its copy goes into its manager's."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.timer import Stopwatch
from perdure.domain.delegation.messages import MergeReport, MergeRequest
from perdure.domain.tools.workspaces import Workspaces

PATHS_NAMED = 40


class MergeWork:
    """Merges where the working copy is; a repeat finds everything taken over already."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    @activity.defn
    @translated
    async def merge_work(self, step: MergeRequest) -> MergeReport:
        """Take the changes over path by path; where both changed the same lines, ours stay."""
        watch = Stopwatch()
        merged = await self._workspaces.merge(
            run=step.run, root=step.root, base=step.base, tree=step.tree
        )
        return MergeReport(
            changed=merged.changed[:PATHS_NAMED],
            conflicts=merged.conflicts[:PATHS_NAMED],
            tree=merged.tree,
            seconds=watch.seconds,
        )
