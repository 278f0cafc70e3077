"""The activities `check`, `verify` and `judge`: rules, programs and models that score an output."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from temporalio import activity

from perdure.activities.support.aside import Aside
from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Finished, Interrupted, Stopwatch, within
from perdure.activities.support.prepared_attempt import call_context
from perdure.activities.support.run_storage import Frames
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.judge_cache import KeptVerdict, VerdictStore, kept, scope_of
from perdure.domain.evaluation.judge_reply import Asked, Judgement, judge_schema, read_judgement
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation
from perdure.domain.evaluation.verifier_ports import Verifier
from perdure.domain.llm.structured_replies import BadReply
from perdure.domain.outputs.compression import expand
from perdure.domain.outputs.diff import Changes, changes_between, output_hash
from perdure.domain.outputs.finding_locations import touched_dimensions
from perdure.domain.outputs.parts import Version, merge_replies, part_reply, tidy_output
from perdure.domain.ports import BlobStore, CheckRunner
from perdure.domain.refine.prompts import JUDGE_SYSTEM
from perdure.domain.refine.state import (
    CheckReport,
    CheckRequest,
    ReadVerdictsReport,
    ReadVerdictsRequest,
    RefineFrame,
    VerifyReport,
    VerifyRequest,
    refine_frame,
)
from perdure.domain.run.activity_messages import Frame, JudgeReport, JudgeRequest, ModelCallReport
from perdure.domain.run.hooks import Adapted
from perdure.domain.tools.workspaces import Workspaces
from perdure.domain.turns.entries import JudgeEntry

R = TypeVar("R")


class Waiting(Protocol):
    """Repeats an operation for as long as what it needs is unavailable."""

    async def __call__(self, operation: Callable[[], Awaitable[R]]) -> R:
        """Run the operation until it succeeds or fails for good."""
        ...


@dataclass(frozen=True, kw_only=True)
class Check:
    """Runs checks in a thread of their own: one that never ends holds up no other step."""

    blobs: BlobStore
    frames: Frames
    checks: CheckRunner
    waiting: Waiting
    aside: Aside

    @activity.defn
    @translated
    async def check(self, step: CheckRequest) -> CheckReport:
        """Join or merge the output, score it, and store it as it was scored."""
        watch = Stopwatch()
        frame = refine_frame(await self.frames.load(step.frame))
        pieces = [await self.blobs.get_text(piece) for piece in step.pieces]
        kept = None if step.kept is None else await self.blobs.get_text(step.kept)
        replies = {name: await self.blobs.get_text(ref) for name, ref in step.replies.items()}
        previous = None if step.previous is None else await self.blobs.get_text(step.previous)
        text = "".join(pieces)
        if previous is not None:
            # The model was shown a folded draft, and may have left passages folded that stay.
            text = expand(text, previous)
        # A stored output is tidy already: tidying again would close up its empty lines.
        tidy = text if step.stored else tidy_output(text, frame.rubric, frame.output.parts)
        # The same value in another form is scored: a check may demand the form.
        same = tidy == previous and output_hash(tidy, tree=step.tree) == step.known
        if step.known is not None and same:
            version = Version(tidy, Evaluation())
        else:
            version = await self.waiting(
                lambda: self.aside(
                    lambda: self._score(
                        frame, tidy, kept, step.kept_evaluation, replies, step.adaptation
                    )
                )
            )
        # The kept output has its verdicts already, and a known output is not scored again.
        asked = version.text != kept and version.evaluation.dimensions
        return CheckReport(
            output=await self.blobs.put_text(version.text),
            output_hash=output_hash(version.text, tree=step.tree),
            dimensions=version.evaluation.dimensions,
            changes=await self._changes(step, previous, version.text),
            activities=self.checks.activities(
                frame.rubric, version.text, frame.output.parts, adaptation=step.adaptation
            )
            if asked
            else (),
            seconds=watch.seconds,
        )

    @activity.defn
    @translated
    async def read_verdicts(self, step: ReadVerdictsRequest) -> ReadVerdictsReport:
        """Turn the results of checks that are activities into scores."""
        frame = refine_frame(await self.frames.load(step.frame))
        text = await self.blobs.get_text(step.output)
        scores = self.checks.judged(frame.rubric, text, frame.output.parts, verdicts=step.verdicts)
        return ReadVerdictsReport(dimensions=scores)

    async def _changes(self, step: CheckRequest, previous: str | None, text: str) -> Changes | None:
        if previous is None:
            return None
        # A long output takes seconds, in which the worker would send no heartbeats.
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
        adaptation: Adapted,
    ) -> Version:
        if kept is None or kept_evaluation is None:
            return Version(text, self._evaluate(frame, text, adaptation))
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
            evaluate=lambda merged: self._merged(frame, merged, kept_evaluation, adaptation),
        )

    def _merged(
        self, frame: RefineFrame, text: str, kept: Evaluation, adaptation: Adapted
    ) -> Evaluation:
        """Score a merged output; checks that are activities keep their score until they run."""
        scored = self._evaluate(frame, text, adaptation)
        asked = self.checks.activities(
            frame.rubric, text, frame.output.parts, adaptation=adaptation
        )
        names = {one.dimension for one in asked}
        known = (kept.get(one.name) if one.name in names else one for one in scored.dimensions)
        return Evaluation(
            dimensions=tuple(old or new for old, new in zip(known, scored.dimensions, strict=True))
        )

    def _evaluate(self, frame: RefineFrame, text: str, adaptation: Adapted) -> Evaluation:
        scores = self.checks.evaluate(frame.rubric, text, frame.output.parts, adaptation=adaptation)
        return Evaluation(dimensions=scores)


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Runs commands, tests and linters where the workspace is, on a copy made for that."""

    blobs: BlobStore
    frames: Frames
    workspaces: Workspaces
    verifier: Verifier

    @activity.defn
    @translated
    async def verify(self, step: VerifyRequest) -> VerifyReport:
        """Check out the snapshot, run the programs of the rubric, and remove it again."""
        watch = Stopwatch()
        frame = await self.frames.load(step.frame)
        rubric = refine_frame(frame).rubric
        work = self._scored(rubric, step, run=frame.run, root=frame.grant.root)
        # Test suites have no natural end. The run's own time bounds them, besides the limit of each
        # program.
        match await within(work, seconds=step.active_time_s):
            case Finished(value=dimensions):
                return VerifyReport(dimensions=dimensions, seconds=watch.seconds)
            case Interrupted(by=reason):
                return VerifyReport(interrupted=reason, seconds=watch.seconds)

    async def _scored(
        self, rubric: Rubric, step: VerifyRequest, *, run: str, root: str
    ) -> tuple[DimensionScore, ...]:
        output = "" if step.output is None else await self.blobs.get_text(step.output)
        tree = step.tree
        if tree is None:
            # A run without write access has no snapshot yet: copy the folder as it is now.
            tree = (await self.workspaces.snapshot(run=run, root=root)).tree.hash
        async with self.workspaces.checkout(tree=tree) as folder:
            return await self.verifier.verify(rubric, folder=folder, output=output)


KNOWN = "known verdict"


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Asks a judge in a context of its own. An unreadable reply gives no score.

    A verdict is cached under a hash of everything that the judge was shown: rubric, model, output,
    and so on. The same question gets the same verdict without another call, within the run or, if
    the task says so, in the whole installation. Scripted models answer each run anew.
    """

    structured: StructuredCalls
    frames: Frames
    verdicts: VerdictStore
    journal: Journal

    @activity.defn
    @translated
    async def judge(self, step: JudgeRequest) -> JudgeReport:
        """Ask for a verdict, unless it is cached, and validate the reply."""
        frame = await self.frames.load(step.call.frame)
        key = question_key(step, frame)
        known = None if key is None else await self._known(step, frame, key)
        if known is not None:
            return known
        answered = await self.structured.ask(
            step.call,
            schema=judge_schema(step.dimensions),
            read=partial(_read, step),
            system=JUDGE_SYSTEM,
        )
        judged = answered.value
        if judged is None:
            return JudgeReport(call=answered.call, problems=answered.problems)
        # Only a clean verdict is kept. One with slips was usable once, but must not be repeated for
        # ever.
        if key is not None and not judged.slips:
            verdict = KeptVerdict(run=frame.run, reply=answered.text)
            await self.verdicts.put_verdict(key, verdict.model_dump_json())
        return JudgeReport(
            call=answered.call,
            problems=judged.slips,
            usable=bool(judged.slips),
            scores=judged.scores,
            resolved=judged.resolved,
        )

    async def _known(self, step: JudgeRequest, frame: Frame, key: str) -> JudgeReport | None:
        stored = await self.verdicts.verdict(key)
        verdict = None if stored is None else kept(stored)
        # The reply is kept as it came, and read anew: a stricter reader of a later version applies
        # to it too.
        read = None if verdict is None else _read(step, verdict.reply)
        if verdict is None or not isinstance(read, Judgement):
            return None
        # An attempt of this very step may have asked before its worker died: that was paid for.
        context = call_context(step.call, run=frame.run)
        account = await self.journal.reconcile(context.key)
        call = ModelCallReport(
            status="replied", account=account, excerpt=KNOWN, stop_reason="end_turn"
        )
        return JudgeReport(
            call=call,
            scores=tuple(
                score.model_copy(update={"cached_from": verdict.run}) for score in read.scores
            ),
            resolved=read.resolved,
            cached=True,
            cached_from=verdict.run,
        )


def question_key(step: JudgeRequest, frame: Frame) -> str | None:
    """The hash of everything that the judge is shown; None if the verdict must not be cached."""
    entries = [entry for entry in step.call.append if isinstance(entry, JudgeEntry)]
    scope = scope_of(step.cache, run=frame.run, model=step.call.model)
    if len(entries) != 1 or entries[0].problems or scope is None:
        return None
    question: dict[str, object] = {
        "rubric": refine_frame(frame).rubric.digest,
        "model": step.call.model,
        "goal": frame.goal,
        "inputs": frame.inputs,
        "question": entries[0].model_dump(mode="json"),
        "pass_score": step.pass_score,
        "run": scope,
    }
    # Left out where there are none, so that verdicts of earlier versions are still found.
    if frame.attachments:
        question["attachments"] = [one.ref for one in frame.attachments]
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _read(step: JudgeRequest, text: str) -> Judgement | BadReply:
    asked = Asked(
        dimensions=step.dimensions,
        open_findings=step.open_findings,
        next_finding=step.next_finding,
        pass_score=step.pass_score,
    )
    return read_judgement(text, asked)
