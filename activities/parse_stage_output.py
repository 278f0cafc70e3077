"""The activity `read_stage`: keep what a stage said, and read what follows from it."""

from collections.abc import Callable
from datetime import datetime

from temporalio import activity

from perdure.activities.support.context_cache import Frames
from perdure.activities.support.error_mapping import translated
from perdure.domain.outputs.duplicates import output_hash
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import LOOP_OUTPUT, Artifact
from perdure.domain.projects.scope import Reach
from perdure.domain.roles.blocked_signal import read_signal
from perdure.domain.roles.messages import ReadStageReport, ReadStageRequest
from perdure.domain.roles.review_record import review_of, verdict_line
from perdure.domain.roles.state import StageQuestion
from perdure.domain.roles.verdict import Verdict, read_verdict
from perdure.domain.run.activity_messages import Frame

LINE_CHARACTERS = 200


class ReadStage:
    """Reads whole texts, never an excerpt; nothing is cut in what is kept."""

    def __init__(
        self,
        *,
        blobs: BlobStore,
        artifacts: ArtifactStore,
        frames: Frames,
        now: Callable[[], datetime],
    ) -> None:
        self._blobs = blobs
        self._artifacts = artifacts
        self._frames = frames
        self._now = now

    @activity.defn
    @translated
    async def read_stage(self, step: ReadStageRequest) -> ReadStageReport:
        """Keep the text as the run's artifact, under the same id when this is tried again."""
        text = await self._blobs.get_text(step.text)
        signal = read_signal(text)
        frame = await self._frames.load(step.frame)
        await self._artifacts.add_artifact(self._artifact(step, frame, text))
        verdict = read_verdict(text) if step.gate else None
        return ReadStageReport(
            line=_line(text, verdict),
            question=None
            if signal is None
            else StageQuestion(kind=signal.kind, text=signal.question),
            review=None if verdict is None else review_of(verdict, text),
            text=await self._blobs.put_text(text) if step.measure else None,
            canonical=output_hash(text) if step.compare else None,
        )

    def _artifact(self, step: ReadStageRequest, frame: Frame, text: str) -> Artifact:
        again = f"-{step.attempt}" if step.attempt > 1 else ""
        reach = Reach(run=step.run, session=frame.grant.session, project=frame.grant.project)
        return Artifact(
            id=f"{step.run}-{step.iteration}-{step.stage}{again}",
            belongs=reach.belonging(),
            run=step.run,
            iteration=step.iteration,
            stage=step.stage,
            kind=LOOP_OUTPUT,
            name=f"{step.stage} (iteration {step.iteration})",
            ref=step.text,
            bytes=len(text.encode()),
            created_at=self._now(),
        )


def _line(text: str, verdict: Verdict | None) -> str:
    """What a stage said in one line; of a structure, the verdict that it holds."""
    if verdict is None or not (verdict.structured or verdict.problems):
        return first_line(text)
    return verdict_line(verdict)[:LINE_CHARACTERS]


def first_line(text: str) -> str:
    """The first line with content, at most 200 characters of it."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return next((line for line in lines if line), "")[:LINE_CHARACTERS]
