"""The activity `reframe`: write a run's frame anew with an amended rubric or goal."""

from temporalio import activity

from perdure.activities.open_run import task_tokens
from perdure.activities.support.context_cache import Frames
from perdure.activities.support.error_mapping import translated
from perdure.domain.ports import BlobStore
from perdure.domain.refine.state import ReframeReport, ReframeRequest


class Reframe:
    """Changes what the loop kind put into the frame; tools, models and inputs stay as pinned."""

    def __init__(self, *, blobs: BlobStore, frames: Frames) -> None:
        self._blobs = blobs
        self._frames = frames

    @activity.defn
    @translated
    async def reframe(self, step: ReframeRequest) -> ReframeReport:
        """Store the new frame; the old one stays for whoever still names it."""
        old = await self._frames.load(step.frame)
        changed = {"extra": step.extra, "goal": step.goal}
        given = {name: value for name, value in changed.items() if value is not None}
        frame = old.model_copy(update=given)
        address = await self._blobs.put(frame.model_dump_json().encode())
        return ReframeReport(frame=address, task_tokens=task_tokens(frame))
