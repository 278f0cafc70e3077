"""The activities `read_stage`, `ask_verdict` and `judge_goal`: outputs and verdicts of stages."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.run_storage import Frames
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.outputs.diff import output_hash
from perdure.domain.ports import BlobStore
from perdure.domain.projects.ports import ArtifactStore
from perdure.domain.projects.records import LOOP_OUTPUT, Artifact, Reach
from perdure.domain.roles.messages import (
    GoalReport,
    GoalRequest,
    ReadStageReport,
    ReadStageRequest,
    VerdictReport,
    VerdictRequest,
)
from perdure.domain.roles.prompts import GOAL_SYSTEM
from perdure.domain.roles.review_reply import (
    Verdict,
    read_verdict,
    review_of,
    verdict_line,
    verdict_schema,
)
from perdure.domain.roles.stage_reply import GoalVerdict, goal_schema, read_goal, read_signal
from perdure.domain.roles.state import StageQuestion
from perdure.domain.run.activity_messages import Frame

LINE_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class ReadStage:
    """Reads and stores the output of a stage, always the whole text."""

    blobs: BlobStore
    artifacts: ArtifactStore
    frames: Frames
    now: Callable[[], datetime]

    @activity.defn
    @translated
    async def read_stage(self, step: ReadStageRequest) -> ReadStageReport:
        """Store the text as an artifact and read its signals and verdict."""
        text = await self.blobs.get_text(step.text)
        signal = read_signal(text)
        # A question is no output of the stage, which goes on with the answer. The text of a child
        # run is all that there will be, whatever it begins with.
        if signal is None or step.measure:
            # Under an id made of run, iteration, stage and attempt, so that a retried step writes
            # it once. After a reset the stage is done again, and what it says then is what counts.
            output = self._artifact(step, await self.frames.load(step.frame), text)
            await self.artifacts.add_artifact(output, replaces=True)
        verdict = read_verdict(text) if step.gate else None
        return ReadStageReport(
            line=_line(text, verdict),
            question=None
            if signal is None
            else StageQuestion(kind=signal.kind, text=signal.question),
            review=None if verdict is None else review_of(verdict, text),
            # Storing it again costs nothing and measures it: a child's result names its text
            # without a size.
            text=await self.blobs.put_text(text) if step.measure else None,
            canonical=output_hash(text) if step.compare else None,
        )

    def _artifact(self, step: ReadStageRequest, frame: Frame, text: str) -> Artifact:
        # A dot, which no stage has in its name: another stage may be named `review-2`.
        again = f".{step.attempt}" if step.attempt > 1 else ""
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
            created_at=self.now(),
        )


def _line(text: str, verdict: Verdict | None) -> str:
    """One line about what a stage said: its verdict, or its first line."""
    if verdict is None or not (verdict.structured or verdict.problems):
        return first_line(text)
    return verdict_line(verdict)[:LINE_CHARACTERS]


def first_line(text: str) -> str:
    """The first line with content, at most 200 characters of it."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return next((line for line in lines if line), "")[:LINE_CHARACTERS]


NOTHING = GoalVerdict(achieved=False, clear=False)


class AskVerdict:
    """Asks for structured verdicts. An unreadable reply never approves anything."""

    def __init__(self, structured: StructuredCalls) -> None:
        self._structured = structured

    @activity.defn
    @translated
    async def ask_verdict(self, step: VerdictRequest) -> VerdictReport:
        """Ask the reviewing stage's model once more, in its own conversation."""
        answered = await self._structured.ask(step.call, schema=verdict_schema(), read=read_verdict)
        if answered.value is None:
            return VerdictReport(call=answered.call)
        return VerdictReport(call=answered.call, review=review_of(answered.value, answered.text))

    @activity.defn
    @translated
    async def judge_goal(self, step: GoalRequest) -> GoalReport:
        """Ask the goal judge, which sees the stages' outputs but none of their conversations."""
        answered = await self._structured.ask(
            step.call, schema=goal_schema(), read=read_goal, system=GOAL_SYSTEM
        )
        found = answered.value or NOTHING
        return GoalReport(
            call=answered.call,
            achieved=found.achieved,
            rationale=found.rationale,
            problems=found.problems,
            usable=bool(found.problems),
        )
