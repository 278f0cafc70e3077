"""The activity `verify`: programs that evaluate the snapshot of one iteration."""

from temporalio import activity

from activities.beating import Finished, Interrupted, within
from activities.frames import Frames
from activities.stopwatch import Stopwatch
from activities.translate import translated
from perdure.domain.evaluation import DimensionScore
from perdure.domain.ports import BlobStore, Workspaces
from perdure.domain.refine.frame import refine_frame
from perdure.domain.refine.state import VerifyReport, VerifyRequest
from perdure.domain.rubric import Rubric
from perdure.domain.verification import Verifier


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
