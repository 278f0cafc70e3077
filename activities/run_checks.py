"""The activity `check`: every deterministic check of one output at once."""

import asyncio

from temporalio import activity

from perdure.activities.support.context_cache import Frames
from perdure.activities.support.error_mapping import translated
from perdure.activities.support.timer import Stopwatch
from perdure.domain.evaluation.scores import Evaluation
from perdure.domain.outputs.compression import expand
from perdure.domain.outputs.diff import Changes, changes_between
from perdure.domain.outputs.duplicates import output_hash
from perdure.domain.outputs.finding_locations import touched_dimensions
from perdure.domain.outputs.parts import Version, merge_replies, part_reply, tidy_output
from perdure.domain.ports import BlobStore, CheckRunner
from perdure.domain.refine.state import CheckReport, CheckRequest, RefineFrame, refine_frame


class Check:
    """Runs checks in a thread, so that a slow one holds up no other step."""

    def __init__(self, *, blobs: BlobStore, frames: Frames, checks: CheckRunner) -> None:
        self._blobs = blobs
        self._frames = frames
        self._checks = checks

    @activity.defn
    @translated
    async def check(self, step: CheckRequest) -> CheckReport:
        """Join or merge the output, score it, and store it as it was scored."""
        watch = Stopwatch()
        frame = refine_frame(await self._frames.load(step.frame))
        pieces = [await self._blobs.get_text(piece) for piece in step.pieces]
        kept = None if step.kept is None else await self._blobs.get_text(step.kept)
        replies = {name: await self._blobs.get_text(ref) for name, ref in step.replies.items()}
        previous = None if step.previous is None else await self._blobs.get_text(step.previous)
        text = "".join(pieces)
        if previous is not None:
            # The model was shown a folded draft, and may have left passages folded that stay.
            text = expand(text, previous)
        # A stored output is tidy already: tidying again would close up its empty lines.
        tidy = text if step.stored else tidy_output(text, frame.rubric, frame.output.parts)
        if step.known is not None and output_hash(tidy, tree=step.tree) == step.known:
            version = Version(tidy, Evaluation())
        else:
            version = await asyncio.to_thread(
                self._score, frame, tidy, kept, step.kept_evaluation, replies
            )
        return CheckReport(
            output=await self._blobs.put_text(version.text),
            output_hash=output_hash(version.text, tree=step.tree),
            dimensions=version.evaluation.dimensions,
            changes=await self._changes(step, previous, version.text),
            seconds=watch.seconds,
        )

    async def _changes(self, step: CheckRequest, previous: str | None, text: str) -> Changes | None:
        if previous is None:
            return None
        changes = await asyncio.to_thread(changes_between, previous, text)
        touched = touched_dimensions(step.evidence, previous, changes.before)
        return changes.model_copy(update={"touched": touched})

    def _score(
        self,
        frame: RefineFrame,
        text: str,
        kept: str | None,
        kept_evaluation: Evaluation | None,
        replies: dict[str, str],
    ) -> Version:
        if kept is None or kept_evaluation is None:
            return Version(text, self._evaluate(frame, text))
        rubric, kind = frame.rubric, frame.output.parts
        parts = {
            part: part_reply(replies[str(part)], part, kind)
            for part in rubric.parts
            if str(part) in replies
        }
        return merge_replies(
            rubric,
            Version(kept, kept_evaluation),
            parts,
            kind=kind,
            evaluate=lambda merged: self._evaluate(frame, merged),
        )

    def _evaluate(self, frame: RefineFrame, text: str) -> Evaluation:
        return Evaluation(dimensions=self._checks.evaluate(frame.rubric, text, frame.output.parts))
