"""The evaluate step of the refine loop: checks as one activity, then the judge for the rest."""

from collections.abc import Sequence

from temporalio import workflow

from activities.check import Check
from perdure.domain import budget as budgets
from perdure.domain.agent.failover import OVERFLOW_CODE
from perdure.domain.agent.turn import Ending
from perdure.domain.budget import Refused
from perdure.domain.evaluation import DimensionScore, Evaluation
from perdure.domain.names import short_model_name
from perdure.domain.refine.scoring import carried, combined, next_finding, unscored
from perdure.domain.refine.state import CheckReport, CheckRequest, Draft, Kept, RefineState
from perdure.domain.refs import Ref
from perdure.domain.rubric import Rubric
from perdure.domain.run import RefineSpec
from perdure.domain.steps import JudgeEntry, JudgeReport
from workflows import options
from workflows.model_calls import REPLY_TRIES, Ask, Called, Unanswered, Unpriced
from workflows.steps import Broken, Done
from workflows.structured import Judgement
from workflows.turns import Turning

JUDGE_TOKENS = 4_096
JUDGE_PROMPT_TOKENS = 400


class Evaluating(Turning):
    """Adds evaluation to a loop."""

    # Narrowed once, by `__init__`: nothing assigns a wider value afterwards.
    spec: RefineSpec  # pyright: ignore[reportIncompatibleVariableOverride]
    core: RefineState  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def rubric(self) -> Rubric:
        """The rubric in force: frozen at the start, replaced only by a person's `amend`."""
        return self.core.rubric or self.spec.rubric

    async def evaluate(self) -> None:
        """Score the draft; what cannot be scored is a failure of the iteration, never a number."""
        draft = self.core.draft
        if draft.failure is not None or not (draft.pieces or draft.replies):
            return
        self.enter("evaluating")
        checked = await self._check(self._check_request(draft))
        if isinstance(checked, Broken):
            self._unchecked(draft, checked)
        elif checked.output_hash is None:
            draft.pieces, draft.failure = [], "the model wrote nothing"
        else:
            draft.output, draft.output_hash = checked.output, checked.output_hash
            await self._score(draft, checked)
        scores = draft.evaluation.scores() if draft.evaluation else {}
        self.note("evaluated", kind=draft.kind, scores=scores, error=draft.failure)

    async def _score(self, draft: Draft, checked: CheckReport) -> None:
        newest, rubric, checks = self.core.newest, self.rubric, checked.dimensions
        before = newest.evaluation if newest else None
        if newest is not None and before is not None and newest.output_hash == draft.output_hash:
            draft.evaluation, draft.kind = before, "skipped_identical"
        elif not rubric.judged:
            draft.evaluation = combined(rubric, checks=checks, judged=(), before=before)
            draft.kind = "full"
        elif before is not None and self._is_confident(newest, checks):
            scores = carried(checks, before)
            draft.evaluation = combined(rubric, checks=scores, judged=(), before=before)
            draft.kind = "skipped_confident"
        else:
            await self._judge(draft, checks, before)
        missing = unscored(draft.evaluation) if draft.evaluation else None
        if missing and draft.failure is None and draft.cut is None:
            self._fail(draft, missing)

    def _is_confident(self, newest: Kept | None, checks: Sequence[DimensionScore]) -> bool:
        """Whether the last score was so high that passing checks vouch for the new output too."""
        sure = self.spec.refine.skip_eval_confidence
        if newest is None or newest.score is None or newest.iteration != self.iteration - 1:
            return False
        passed = all((item.capped or 0.0) >= 1.0 for item in checks)
        # Without a single check nobody would have looked at the new output at all.
        return bool(checks) and passed and newest.score >= sure

    async def _judge(
        self, draft: Draft, checks: Sequence[DimensionScore], before: Evaluation | None
    ) -> None:
        verdict = await self._ask_judge(draft.output, before)
        judged = verdict.scores if isinstance(verdict, JudgeReport) else None
        resolved = verdict.resolved if isinstance(verdict, JudgeReport) else ()
        draft.evaluation = combined(
            self.rubric, checks=checks, judged=judged, before=before, resolved=resolved
        )
        draft.kind = "failed" if judged is None else "full"
        if isinstance(verdict, Ending) and verdict.outcome == "failed":
            draft.overflow = OVERFLOW_CODE in verdict.detail
            self._fail(draft, verdict.detail)
        elif isinstance(verdict, Ending):
            draft.cut = verdict

    async def _ask_judge(
        self, output: Ref | None, before: Evaluation | None
    ) -> JudgeReport | Ending:
        """The verdict, asked for again once with what was wrong; else why there is none."""
        called = await self.call_structured(
            lambda problems: self._question(output, before, problems)
        )
        if not isinstance(called, JudgeReport):
            return self.uncalled(called)
        if not called.problems:
            return called
        detail = f"no usable verdict in {REPLY_TRIES} replies: {'; '.join(called.problems)}"
        return Ending(outcome="failed", reason="evaluator_failed", detail=detail[:500])

    def _question(
        self, output: Ref | None, before: Evaluation | None, problems: tuple[str, ...]
    ) -> Ask:
        """The judge's question, in a context of its own."""
        names = tuple(item.name for item in self.rubric.judged)
        findings = tuple(f for f in (before.findings if before else ()) if f.dimension in names)
        entry = JudgeEntry(
            type="judge",
            output=output.hash if output else "",
            dimensions=names,
            open_findings=findings,
            problems=problems,
        )
        size = output.tokens.total if output else 0
        return Ask(
            role="evaluator",
            phase="evaluating",
            summary=f"judge (iteration {self.iteration})",
            entries=[entry],
            extra_tokens=size + self.core.task_tokens + JUDGE_PROMPT_TOKENS,
            max_tokens=JUDGE_TOKENS,
            tools_off=True,
            structured=Judgement(
                dimensions=names,
                open_findings=tuple(finding.id for finding in findings),
                next_finding=next_finding(before),
                pass_score=self.spec.refine.quality_threshold or 1.0,
            ),
        )

    def uncalled(self, called: Called) -> Ending:
        """What a call that brought no reply means for the iteration."""
        match called:
            case Refused():
                return Ending(outcome="out_of_budget", reason=called.dimension, detail=called.text)
            case Unpriced(model=model):
                detail = f"nobody knows the price of {short_model_name(model)}"
                return Ending(outcome="out_of_budget", reason="unpriced_model", detail=detail)
            case Broken(code="interrupted"):
                return self._ending() or Ending(outcome="deadline", reason="active_time")
            case Unanswered() | Broken():
                detail = f"{called.code}: {called.message}"
                return Ending(outcome="failed", reason="model_error", detail=detail)
            case _:
                return Ending(outcome="failed", reason="internal", detail="no reply")

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
            )
        return CheckRequest(
            frame=frame,
            pieces=tuple(piece.hash for piece in draft.pieces),
            known=newest.output_hash if newest and newest.evaluation else None,
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
        verdict = await self._ask_judge(output, None) if self.rubric.judged else None
        judged = verdict.scores if isinstance(verdict, JudgeReport) else None
        return combined(
            self.rubric,
            checks=checked.dimensions,
            judged=judged if self.rubric.judged else (),
            before=None,
        )
