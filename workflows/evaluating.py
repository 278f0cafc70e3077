"""The evaluate step of the refine loop: checks as one activity, then the judge for the rest."""

from collections.abc import Sequence

from temporalio import workflow

from activities.check import Check
from perdure.domain import budget as budgets
from perdure.domain.evaluation import DimensionScore, Evaluation
from perdure.domain.refine.scoring import combined, next_finding
from perdure.domain.refine.state import CheckReport, CheckRequest, Draft, RefineState
from perdure.domain.refs import Ref
from perdure.domain.rubric import Rubric
from perdure.domain.run import RefineSpec
from perdure.domain.steps import JudgeEntry, JudgeReport
from workflows import options
from workflows.model_calls import Ask, Judgement
from workflows.steps import Broken, Done
from workflows.turns import Turning

JUDGE_TRIES = 2
JUDGE_TOKENS = 4_096


class Evaluating(Turning):
    """Adds evaluation to a loop."""

    spec: RefineSpec  # pyright: ignore[reportIncompatibleVariableOverride]
    core: RefineState  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def rubric(self) -> Rubric:
        """The rubric in force: frozen at the start, replaced only by a person's `amend`."""
        return self.core.rubric or self.spec.rubric

    async def evaluate(self) -> None:
        """Score the draft; what cannot be scored is a failure of the iteration, never a number."""
        draft = self.core.draft
        self.enter("evaluating")
        checked = await self._check(self._check_request(draft))
        if isinstance(checked, Broken):
            self._fail(draft, checked)
            return
        draft.output, draft.output_hash = checked.output, checked.output_hash
        if draft.output_hash is None:
            draft.failure, draft.failure_reason = "the model wrote nothing", "model_error"
            return
        if self._is_identical(draft):
            return
        await self._judged(draft, checked.dimensions)
        self.note("evaluated", kind=draft.kind, scores=_scores(draft.evaluation))

    def _is_identical(self, draft: Draft) -> bool:
        newest = self.core.newest
        if newest is None or newest.evaluation is None or newest.score is None:
            return False
        last = self.core.seen.hashes[-1:] == (draft.output_hash,)
        if not last:
            return False
        draft.evaluation, draft.kind = newest.evaluation, "skipped_identical"
        self.core.evaluations_skipped += 1
        self.core.judge_calls_saved += 1 if self.rubric.judged else 0
        return True

    async def _judged(self, draft: Draft, checks: Sequence[DimensionScore]) -> None:
        before = self.core.newest.evaluation if self.core.newest else None
        if not self.rubric.judged:
            draft.evaluation = combined(self.rubric, checks=checks, judged=(), before=before)
            draft.kind = "full"
            return
        verdict = await self._ask_judge(draft.output, before)
        if isinstance(verdict, JudgeReport):
            draft.evaluation = combined(
                self.rubric,
                checks=checks,
                judged=verdict.scores,
                before=before,
                resolved=verdict.resolved,
            )
            draft.kind = "full"
            return
        draft.evaluation = combined(self.rubric, checks=checks, judged=None, before=before)
        draft.kind = "failed"
        draft.failure, draft.failure_reason = f"the evaluator failed: {verdict}", "evaluator_failed"

    async def _ask_judge(self, output: Ref | None, before: Evaluation | None) -> JudgeReport | str:
        """The verdict, asked for again once with what was wrong; else why there is none."""
        problems: tuple[str, ...] = ()
        findings = tuple(
            f for f in (before.findings if before else ()) if self._is_judged(f.dimension)
        )
        names = tuple(item.name for item in self.rubric.judged)
        for _ in range(JUDGE_TRIES):
            called = await self.call_model(
                Ask(
                    role="evaluator",
                    phase="evaluating",
                    summary=f"judge (iteration {self.iteration})",
                    entries=[
                        JudgeEntry(
                            type="judge",
                            output=output.hash if output else "",
                            dimensions=names,
                            open_findings=findings,
                            problems=problems,
                        )
                    ],
                    extra_tokens=(output.tokens.total if output else 0) + 400,
                    max_tokens=JUDGE_TOKENS,
                    tools_off=True,
                    judgement=Judgement(
                        dimensions=names,
                        open_findings=tuple(finding.id for finding in findings),
                        next_finding=next_finding(before),
                        pass_score=self.spec.refine.quality_threshold or 1.0,
                    ),
                )
            )
            if not isinstance(called, JudgeReport):
                return _why(called)
            if not called.problems:
                return called
            problems = called.problems
        return "; ".join(problems)[:500]

    def _is_judged(self, name: str) -> bool:
        return any(item.name == name for item in self.rubric.judged)

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
        kept = self.core.kept
        if draft.replies and kept is not None:
            return CheckRequest(
                frame=self.core.frame or "",
                kept=kept.output.hash,
                kept_evaluation=kept.evaluation,
                replies=draft.replies,
            )
        return CheckRequest(frame=self.core.frame or "", pieces=tuple(draft.pieces))

    def _fail(self, draft: Draft, broken: Broken) -> None:
        draft.failure = f"the checks could not run: {broken.code}: {broken.message}"
        draft.failure_reason = "evaluator_failed"
        draft.kind = "failed"

    async def rescore(self, output: Ref) -> Evaluation | None:
        """The evaluation of a stored output under the rubric in force."""
        request = CheckRequest(frame=self.core.frame or "", pieces=(output.hash,), stored=True)
        checked = await self._check(request)
        if isinstance(checked, Broken):
            return None
        if not self.rubric.judged:
            return combined(self.rubric, checks=checked.dimensions, judged=(), before=None)
        verdict = await self._ask_judge(output, None)
        judged = verdict.scores if isinstance(verdict, JudgeReport) else None
        return combined(self.rubric, checks=checked.dimensions, judged=judged, before=None)


def _why(called: object) -> str:
    return getattr(called, "message", None) or getattr(called, "text", None) or "no reply"


def _scores(evaluation: Evaluation | None) -> dict[str, float]:
    return evaluation.scores() if evaluation else {}
