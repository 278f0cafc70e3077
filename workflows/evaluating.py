"""The evaluate step of the refine loop: checks as one activity, then the judge for the rest."""

from dataclasses import replace

from temporalio import workflow

from activities.check import Check
from perdure.domain import budget as budgets
from perdure.domain.agent.failover import OVERFLOW_CODE
from perdure.domain.agent.turn import Ending
from perdure.domain.budget import Refused
from perdure.domain.evaluation import DimensionScore, Evaluation
from perdure.domain.refine.compression import UNCOMPRESSED_CHARACTERS
from perdure.domain.refine.economy import judge_room, share_spent
from perdure.domain.refine.incremental import Look, Question, Verdict, evidence_of, look_at, noted
from perdure.domain.refine.parts import bind_findings
from perdure.domain.refine.scoring import combined, completed, next_finding, unscored
from perdure.domain.refine.state import CheckReport, CheckRequest, Draft
from perdure.domain.refs import Ref
from perdure.domain.steps import JudgeEntry, JudgeReport
from workflows import options
from workflows.model_calls import REPLY_TRIES, Ask
from workflows.steps import Broken, Done
from workflows.structured import Judgement
from workflows.verifying import Verifying

JUDGE_TOKENS = 4_096
JUDGE_PROMPT_TOKENS = 400
LEAST_JUDGE_TOKENS = 256


class Evaluating(Verifying):
    """Adds evaluation to a loop."""

    def judges(self) -> tuple[str, ...]:
        """The models that the rubric names as judges."""
        return tuple(name for name in self.rubric.judges if name is not None)

    async def evaluate(self) -> None:
        """Score the draft; what cannot be scored is a failure of the iteration, never a number."""
        draft = self.core.draft
        if draft.failure is not None or not (draft.pieces or draft.replies):
            return
        self.enter("evaluating")
        if not draft.reviewing:
            await self._evaluate(draft)
        if draft.reviewing:
            await self._review(draft)
        scores = draft.evaluation.scores() if draft.evaluation else {}
        self.note("evaluated", kind=draft.kind, scores=scores, error=draft.failure)

    async def _evaluate(self, draft: Draft) -> None:
        """What code, programs and models say; `reviewing` is set when a person is to be asked."""
        checked = await self._check(self._check_request(draft))
        if isinstance(checked, Broken):
            self._unchecked(draft, checked)
        elif checked.output_hash is None:
            draft.pieces, draft.failure = [], "the model wrote nothing"
        else:
            draft.output, draft.output_hash = checked.output, checked.output_hash
            await self._score(draft, checked)

    async def _review(self, draft: Draft) -> None:
        """Add a person's scores; an evaluation that waits for them survives a roll."""
        given = await self.score_by_person()
        draft.reviewing = False
        if not isinstance(given, Ending) and draft.evaluation is not None:
            draft.evaluation = completed(self.rubric, draft.evaluation, given)
        elif isinstance(given, Ending) and given.outcome == "failed":
            self._fail(draft, given.detail)
        elif isinstance(given, Ending):
            draft.cut, draft.kind = given, "none"

    async def _score(self, draft: Draft, checked: CheckReport) -> None:
        """Checks and programs as they are; of the judge only what the change calls for."""
        previous, rubric = self.core.newest, self.rubric
        before = previous.evaluation if previous else None
        identical = previous is not None and previous.output_hash == draft.output_hash
        if not identical:
            verified = await self.verify(draft)
            if isinstance(verified, Broken):
                return self._unchecked(draft, verified)
            every = (*checked.dimensions, *verified)
            checked = checked.model_copy(update={"dimensions": every})
        look = look_at(
            rubric,
            previous=previous,
            follows=previous is not None and previous.iteration == self.iteration - 1,
            checks=checked.dimensions,
            changes=checked.changes,
            identical=identical,
            is_long=checked.output.bytes > UNCOMPRESSED_CHARACTERS,
            confidence=self.spec.refine.skip_eval_confidence,
            threshold=self.spec.refine.quality_threshold,
        )
        draft.kind, draft.asked, draft.changes = look.kind, look.asked, checked.changes
        if look.kind == "skipped_identical":
            draft.evaluation = before
        elif look.asked:
            await self._judge(draft, checked, before, look)
        else:
            draft.evaluation = combined(
                rubric, checks=checked.dimensions, judged=(), before=before, asked=()
            )
        draft.evaluation = noted(draft.evaluation, look, before, checked.changes)
        missing = unscored(draft.evaluation, rubric) if draft.evaluation else None
        if missing and draft.failure is None and draft.cut is None:
            self._fail(draft, missing)
        afresh = draft.failure is None and draft.cut is None and "skipped" not in draft.kind
        draft.reviewing = bool(rubric.human) and afresh
        return None

    async def _judge(
        self, draft: Draft, checked: CheckReport, before: Evaluation | None, look: Look
    ) -> None:
        excerpt = checked.changes.spans if look.excerpt and checked.changes else ()
        verdict = await self._ask_judges(
            Question(output=checked.output, asked=look.asked, before=before, changed=excerpt)
        )
        draft.evaluation = combined(
            self.rubric,
            checks=checked.dimensions,
            judged=None if verdict.ending else verdict.scores,
            before=before,
            resolved=verdict.resolved,
            asked=look.asked,
        )
        draft.cached, draft.judge_prompt = verdict.cached, verdict.prompt_tokens
        match verdict.ending:
            case None:
                pass
            case Ending(outcome="failed", detail=detail):
                draft.kind, draft.overflow = "failed", OVERFLOW_CODE in detail
                self._fail(draft, detail)
            case cut:
                draft.kind, draft.asked, draft.cut = "none", (), cut

    async def _ask_judges(self, question: Question) -> Verdict:
        """All that was asked, from each judge that the rubric names for a part of it."""
        verdict = Verdict()
        for part in question.by_judge(self.rubric):
            said = await self._ask_judge(replace(part, numbered=verdict.findings))
            if isinstance(said, Ending):
                return replace(verdict, ending=said)
            verdict = verdict.with_report(said)
        return verdict

    async def _ask_judge(self, question: Question) -> JudgeReport | Ending:
        """The verdict, asked for again once with what was wrong; else why there is none."""
        called = await self.call_structured(lambda problems: self._asked(question, problems))
        if not isinstance(called, JudgeReport):
            return self.uncalled(called)
        if not called.problems:
            scores = bind_findings(called.scores, self.rubric, self.spec.refine.output.parts)
            return called.model_copy(update={"scores": scores})
        detail = f"no usable verdict in {REPLY_TRIES} replies: {'; '.join(called.problems)}"
        return Ending(outcome="failed", reason="evaluator_failed", detail=detail[:500])

    def _asked(self, question: Question, problems: tuple[str, ...]) -> Ask | Refused:
        """The judge's question, in a context of its own, within the evaluator's share."""
        findings, share = question.findings, self.spec.refine.evaluator_share
        entry = JudgeEntry(
            type="judge",
            output=question.output.hash,
            dimensions=question.asked,
            open_findings=findings,
            problems=problems,
            changed=question.changed,
            earlier=question.earlier,
        )
        extra = question.output.tokens.total + self.core.task_tokens + JUDGE_PROMPT_TOKENS
        prompt = self.estimated(extra, role="evaluator", model=question.model)
        room = judge_room(self.core, share=share, prompt_tokens=prompt)
        if room is not None and room < LEAST_JUDGE_TOKENS:
            return share_spent(self.core, share)
        return Ask(
            role="evaluator",
            phase="evaluating",
            summary=f"judge (iteration {self.iteration})",
            entries=[entry],
            extra_tokens=extra,
            max_tokens=JUDGE_TOKENS if room is None else min(JUDGE_TOKENS, room),
            tools_off=True,
            model=question.model,
            structured=Judgement(
                dimensions=question.asked,
                open_findings=tuple(finding.id for finding in findings),
                next_finding=next_finding(question.before) + question.numbered,
                pass_score=self.spec.refine.quality_threshold or 1.0,
            ),
        )

    async def _check(self, request: CheckRequest) -> CheckReport | Broken:
        activity_id = self.next_activity_id()
        summary = f"checks (iteration {self.iteration})"
        self.show(summary)
        handle = workflow.start_activity_method(
            Check.check,
            request,
            **options.workspace_step(self.site, activity_id=activity_id, summary=summary),
        )
        outcome = await self.watched(handle, activity_id=activity_id)
        self.show(None)
        if isinstance(outcome, Done):
            self.charge(budgets.work(self.core.budget, outcome.report.seconds))
            return outcome.report
        return outcome

    def _check_request(self, draft: Draft) -> CheckRequest:
        kept, newest, frame = self.core.kept, self.core.newest, self.core.frame or ""
        if draft.replies and kept is not None:
            return CheckRequest(
                frame=frame,
                kept=kept.output.hash,
                kept_evaluation=kept.evaluation,
                replies=draft.replies,
                previous=newest.output.hash if newest else None,
                evidence=evidence_of(newest.evaluation if newest else None),
            )
        return CheckRequest(
            frame=frame,
            pieces=tuple(piece.hash for piece in draft.pieces),
            known=newest.output_hash if newest and newest.evaluation else None,
            previous=newest.output.hash if newest else None,
            evidence=evidence_of(newest.evaluation if newest else None),
            tree=draft.tree,
        )

    def _unchecked(self, draft: Draft, broken: Broken) -> None:
        draft.kind = "failed"
        if self.interruption is not None:
            draft.kind, draft.cut = "none", self._ending()
        else:
            self._fail(draft, f"the checks could not run: {broken.code}: {broken.message}")

    def _fail(self, draft: Draft, why: str) -> None:
        draft.failure = f"the evaluator failed: {why}"[:1_000]
        draft.failure_reason = "evaluator_failed"
        draft.kind = "failed"

    async def rescore(self, output: Ref) -> Evaluation | None:
        """The evaluation of a stored output under the rubric in force; None without checks."""
        request = CheckRequest(frame=self.core.frame or "", pieces=(output.hash,), stored=True)
        checked = await self._check(request)
        if isinstance(checked, Broken):
            return None
        verified = await self.verify_tree(self.core.kept.tree if self.core.kept else None, output)
        if isinstance(verified, Broken):
            return None
        names = tuple(item.name for item in self.rubric.judged)
        verdict = await self._ask_judges(Question(output=output, asked=names))
        return combined(
            self.rubric,
            checks=(*checked.dimensions, *verified, *self._given_before()),
            judged=None if verdict.ending else verdict.scores,
            before=None,
        )

    def _given_before(self) -> tuple[DimensionScore, ...]:
        """What a person said of the best output stands under another rubric too."""
        kept = self.core.kept
        known = kept.evaluation if kept else None
        given = (known.get(item.name) for item in self.rubric.human) if known else ()
        return tuple(score for score in given if score is not None and score.source == "human")
