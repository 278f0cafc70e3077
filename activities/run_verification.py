"""The activity `verify`: programs that evaluate the snapshot of one iteration."""

from temporalio import activity

from perdure.activities.support.context_cache import Frames
from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Finished, Interrupted, within
from perdure.activities.support.timer import Stopwatch
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.evaluation.verifier_ports import Verifier
from perdure.domain.ports import BlobStore
from perdure.domain.refine.state import VerifyReport, VerifyRequest, refine_frame
from perdure.domain.tools.workspaces import Workspaces


class Verify:
    """Runs commands, tests and linters where the workspace is, on a copy made for that."""

    def __init__(
        self, *, blobs: BlobStore, frames: Frames, workspaces: Workspaces, verifier: Verifier
    ) -> None:
        self._blobs = blobs
        self._frames = frames
        self._workspaces = workspaces
        self._verifier = verifier

    @activity.defn
    @translated
    async def verify(self, step: VerifyRequest) -> VerifyReport:
        """Lay out the snapshot, score what programs evaluate, and remove it again."""
        watch = Stopwatch()
        frame = await self._frames.load(step.frame)
        rubric = refine_frame(frame).rubric
        work = self._scored(rubric, step, run=frame.run, root=frame.grant.root)
        match await within(work, seconds=step.active_time_s):
            case Finished(value=dimensions):
                return VerifyReport(dimensions=dimensions, seconds=watch.seconds)
            case Interrupted(by=reason):
                return VerifyReport(interrupted=reason, seconds=watch.seconds)

    async def _scored(
        self, rubric: Rubric, step: VerifyRequest, *, run: str, root: str
    ) -> tuple[DimensionScore, ...]:
        output = "" if step.output is None else await self._blobs.get_text(step.output)
        tree = step.tree
        if tree is None:
            # A run without write access reads the folder as it is: the copy is of that.
            tree = (await self._workspaces.snapshot(run=run, root=root)).hash
        async with self._workspaces.checkout(tree=tree) as folder:
            return await self._verifier.verify(rubric, folder=folder, output=output)
