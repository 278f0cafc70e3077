"""The activity `judge`: ask a model to score an output, and read its verdict."""

import hashlib
import json
from functools import partial

from temporalio import activity

from perdure.activities.support.context_cache import Frames
from perdure.activities.support.error_mapping import translated
from perdure.activities.support.model_attempts import call_context
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.judge_cache import KeptVerdict, VerdictStore, kept, scope_of
from perdure.domain.evaluation.judge_reply import Asked, Judgement, read_judgement
from perdure.domain.evaluation.judge_reply_shape import judge_schema
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.llm.structured_replies import BadReply
from perdure.domain.refine.prompts import JUDGE_SYSTEM
from perdure.domain.refine.state import refine_frame
from perdure.domain.run.activity_messages import Frame, JudgeReport, JudgeRequest, ModelCallReport
from perdure.domain.turns.entries import JudgeEntry

KNOWN = "known verdict"


class Judge:
    """Judges in a context of its own; a reply that is no judgement is no score either.

    A usable reply is kept under its question: rubric, model, output and all else that the judge is
    shown. The same question gets the same answer, and nobody is paid for it again: within a run, or
    where the task says so in all runs of the installation. A script answers each run by itself.
    """

    def __init__(
        self,
        *,
        structured: StructuredCalls,
        frames: Frames,
        verdicts: VerdictStore,
        journal: Journal,
    ) -> None:
        self._structured = structured
        self._frames = frames
        self._verdicts = verdicts
        self._journal = journal

    @activity.defn
    @translated
    async def judge(self, step: JudgeRequest) -> JudgeReport:
        """Make the call with structured output, unless its answer is known; validate the reply."""
        frame = await self._frames.load(step.call.frame)
        key = question_key(step, frame)
        known = None if key is None else await self._known(step, frame, key)
        if known is not None:
            return known
        answered = await self._structured.ask(
            step.call,
            schema=judge_schema(step.dimensions),
            read=partial(_read, step),
            system=JUDGE_SYSTEM,
        )
        judged = answered.value
        if judged is None:
            return JudgeReport(call=answered.call, problems=answered.problems)
        if key is not None and not judged.slips:
            verdict = KeptVerdict(run=frame.run, reply=answered.text)
            await self._verdicts.put_verdict(key, verdict.model_dump_json())
        return JudgeReport(
            call=answered.call,
            problems=judged.slips,
            usable=bool(judged.slips),
            scores=judged.scores,
            resolved=judged.resolved,
        )

    async def _known(self, step: JudgeRequest, frame: Frame, key: str) -> JudgeReport | None:
        stored = await self._verdicts.verdict(key)
        verdict = None if stored is None else kept(stored)
        read = None if verdict is None else _read(step, verdict.reply)
        if verdict is None or not isinstance(read, Judgement):
            return None
        # An attempt of this very step may have asked before its worker died: that was paid for.
        context = call_context(step.call, run=frame.run)
        account = await self._journal.reconcile(context.key)
        call = ModelCallReport(
            status="replied", account=account, excerpt=KNOWN, stop_reason="end_turn"
        )
        return JudgeReport(
            call=call,
            scores=tuple(_from(verdict.run, score) for score in read.scores),
            resolved=read.resolved,
            cached=True,
            cached_from=verdict.run,
        )


def question_key(step: JudgeRequest, frame: Frame) -> str | None:
    """The hash of everything that a judge is shown; None for a question that is asked again."""
    entries = [entry for entry in step.call.append if isinstance(entry, JudgeEntry)]
    scope = scope_of(step.cache, run=frame.run, model=step.call.model)
    if len(entries) != 1 or entries[0].problems or scope is None:
        return None
    question = {
        "rubric": refine_frame(frame).rubric.digest,
        "model": step.call.model,
        "goal": frame.goal,
        "inputs": frame.inputs,
        "question": entries[0].model_dump(mode="json"),
        "pass_score": step.pass_score,
        "run": scope,
    }
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _from(run: str, score: DimensionScore) -> DimensionScore:
    return score.model_copy(update={"cached_from": run})


def _read(step: JudgeRequest, text: str) -> Judgement | BadReply:
    asked = Asked(
        dimensions=step.dimensions,
        open_findings=step.open_findings,
        next_finding=step.next_finding,
        pass_score=step.pass_score,
    )
    return read_judgement(text, asked)
