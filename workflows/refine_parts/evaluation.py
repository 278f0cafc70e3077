"""The evaluate stage of the refine loop: checks first, then the judge for the rest."""

from dataclasses import replace

from temporalio import workflow

from perdure.domain.evaluation.scores import DimensionScore, Evaluation
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.outputs.compression import UNCOMPRESSED_CHARACTERS
from perdure.domain.outputs.parts import bind_findings
from perdure.domain.refine.incremental import Scope, evidence_of, look_at, with_mode_and_drift
from perdure.domain.refine.state import BestDraft, CheckReport, CheckRequest, Draft, SingleAnswer
from perdure.domain.refine.stop_rules import NO_OUTPUT
from perdure.domain.scoring.combine import combined, why_not_scored, with_human_scores
from perdure.domain.scoring.judging import JudgesVerdict, Question
from perdure.domain.turns.failover import OVERFLOW_CODE
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.scorer import Scorer
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.refine_parts.run import RefineRun

SLIPS_KEPT = 8
# Patches: runs from before go on as they did.
# JSON that was only set out anew counted as the same output, whatever checks demand of its form.
FORM_COUNTS = "the form of an output counts"
# Of too many findings the oldest were kept, and a new blocker was lost with its cap.
WORST_STAY = "of too many findings the worst stay"


class EvaluationStage:
    """Scores drafts."""

    def __init__(self, run: RefineRun, scorer: Scorer) -> None:
        self.run = run
        self.scorer = scorer

    async def evaluate(self) -> None:
        """Score the draft. If that fails, the iteration fails; a failure never becomes a number."""
        draft = self.run.state.draft
        if draft.failure is not None or not (draft.pieces or draft.replies):
            return
        self.run.set_phase("evaluating")
        # A run that continued as new while a person scored has its checks and verdicts already.
        if not draft.reviewing:
            await self._evaluate(draft)
        if draft.reviewing:
            await self._review(draft)
        scores = draft.evaluation.scores() if draft.evaluation else {}
        self.run.record_event(
            "evaluated",
            kind=draft.kind,
            scores=scores,
            error=draft.failure,
            unexplained=list(draft.slips) or None,
        )

    async def take_unscored(self, answer: SingleAnswer) -> None:
        """Take the answer as it is, unscored."""
        draft = self.run.state.draft
        if draft.failure is not None or not draft.pieces:
            return
        draft.output, draft.kind = draft.pieces[0], answer.evaluation
        if len(draft.pieces) > 1:
            joined = await self.scorer.check_output(self._check_request(draft))
            draft.output = draft.output if isinstance(joined, StepFailed) else joined.output

    async def _evaluate(self, draft: Draft) -> None:
        """Run checks, programs and judges; sets `reviewing` if a person must score too."""
        # Looked up once: what is said from here on may reach the judge, but need not.
        draft.demands = self.run.demands
        checked = await self.scorer.check_output(self._check_request(draft))
        if isinstance(checked, StepFailed):
            self._note_broken_checks(draft, checked)
        elif checked.output_hash is None:
            draft.pieces, draft.failure = [], "the model wrote nothing"
            draft.failure_reason = NO_OUTPUT
        else:
            draft.output, draft.output_hash = checked.output, checked.output_hash
            await self._score(draft, checked)

    async def _review(self, draft: Draft) -> None:
        """Add a person's scores; the wait for them may outlast this execution."""
        given = await self.scorer.score_by_person(
            self.run.rubric, output=draft.output, tree=draft.tree
        )
        draft.reviewing = False
        if not isinstance(given, Ending) and draft.evaluation is not None:
            draft.evaluation = with_human_scores(self.run.rubric, draft.evaluation, given)
        elif isinstance(given, Ending) and given.outcome == "failed":
            self._fail(draft, given.detail)
        elif isinstance(given, Ending):
            draft.cut, draft.kind = given, "none"

    async def _score(self, draft: Draft, checked: CheckReport) -> None:
        """Combine checks and programs with the judge, asked only about what the change affects."""
        previous, rubric = self.run.state.newest, self.run.rubric
        before = previous.evaluation if previous else None
        # The same text gets the same scores: judging it again would cost money and might add noise.
        # Not so if another adaptation, goal or guidance was in force: then all is scored anew.
        same = self._is_alike(previous, draft)
        identical = same and previous is not None and self._is_identical(previous, checked)
        # Programs are run on the whole snapshot even for a small change: what they test has no
        # parts.
        if not identical:
            verified = await self.scorer.verify_tree(self.run.rubric, draft.tree, draft.output)
            if isinstance(verified, StepFailed):
                return self._note_broken_checks(draft, verified)
            every = (*checked.dimensions, *verified)
            checked = checked.model_copy(update={"dimensions": every})
        look = look_at(
            rubric,
            previous=previous,
            follows=same and previous is not None and previous.iteration == self.run.iteration - 1,
            checks=checked.dimensions,
            changes=checked.changes if same else None,
            identical=identical,
            # Shown whole, a long output would dominate each question about a small change.
            is_long=checked.output.bytes > UNCOMPRESSED_CHARACTERS,
            confidence=self.run.spec.refine.skip_eval_confidence,
            threshold=self.run.spec.refine.quality_threshold,
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
        draft.evaluation = with_mode_and_drift(draft.evaluation, look, before, checked.changes)
        missing = why_not_scored(draft.evaluation, rubric) if draft.evaluation else None
        if missing and draft.failure is None and draft.cut is None:
            self._fail(draft, missing)
        afresh = draft.failure is None and draft.cut is None and "skipped" not in draft.kind
        draft.reviewing = bool(rubric.human) and afresh
        return None

    def _is_identical(self, previous: BestDraft, checked: CheckReport) -> bool:
        """Whether an output is the previous one in each sign, with the same files."""
        if previous.output_hash != checked.output_hash:
            return False
        if previous.output.hash == checked.output.hash:
            return True
        # A worker before this version did not check it.
        unchecked = bool(self.run.rubric.checks) and not checked.dimensions
        return unchecked or not workflow.patched(FORM_COUNTS)

    async def _judge(
        self, draft: Draft, checked: CheckReport, before: Evaluation | None, look: Scope
    ) -> None:
        excerpt = checked.changes.spans if look.excerpt and checked.changes else ()
        verdict = await self._verdict(
            Question(
                output=checked.output,
                asked=look.asked,
                before=before,
                changed=excerpt,
                cut=draft.truncated,
                adaptation=self.run.state.adaptation,
            )
        )
        draft.evaluation = combined(
            self.run.rubric,
            checks=checked.dimensions,
            judged=None if verdict.ending else verdict.scores,
            before=before,
            resolved=verdict.resolved,
            asked=look.asked,
            worst_first=_worst_first,
        )
        draft.cached, draft.judge_prompt = verdict.cached, verdict.prompt_tokens
        draft.slips = verdict.slips[:SLIPS_KEPT]
        if verdict.cached:
            draft.kind = "cached"
        match verdict.ending:
            case None:
                pass
            case Ending(outcome="failed", detail=detail):
                draft.kind, draft.overflow = "failed", OVERFLOW_CODE in detail
                self._fail(draft, detail)
            case cut:
                draft.kind, draft.asked, draft.cut = "none", (), cut

    async def _verdict(self, question: Question) -> JudgesVerdict:
        """Ask the judges, and attach each finding to the part that it is about."""
        verdict = await self.scorer.ask_judges(self.run.rubric, question)
        kind = self.run.spec.refine.output.parts
        return replace(verdict, scores=bind_findings(verdict.scores, self.run.rubric, kind))

    def _check_request(self, draft: Draft) -> CheckRequest:
        kept, newest, frame = self.run.state.kept, self.run.state.newest, self.run.state.frame or ""
        if draft.replies and kept is not None:
            return CheckRequest(
                frame=frame,
                kept=kept.output.hash,
                kept_evaluation=kept.evaluation,
                replies=draft.replies,
                previous=newest.output.hash if newest else None,
                evidence=evidence_of(newest.evaluation if newest else None),
                adaptation=self.run.state.adaptation,
            )
        same = self._is_alike(newest, draft)
        return CheckRequest(
            frame=frame,
            pieces=tuple(piece.hash for piece in draft.pieces),
            known=newest.output_hash if newest and newest.evaluation and same else None,
            previous=newest.output.hash if newest else None,
            evidence=evidence_of(newest.evaluation if newest else None),
            tree=draft.tree,
            adaptation=self.run.state.adaptation,
        )

    def _is_alike(self, earlier: BestDraft | None, draft: Draft) -> bool:
        """Whether an earlier draft was scored as this one is: its scores say something of it."""
        if earlier is None or earlier.adaptation != self.run.state.adaptation:
            return False
        return draft.demands in {"", earlier.demands}

    def _note_broken_checks(self, draft: Draft, broken: StepFailed) -> None:
        draft.kind = "failed"
        if self.run.interruption is not None:
            draft.kind, draft.cut = "none", self.run.ending()
        else:
            self._fail(draft, f"the checks could not run: {broken.code}: {broken.message}")

    def _fail(self, draft: Draft, why: str) -> None:
        draft.failure = f"the evaluator failed: {why}"[:1_000]
        draft.failure_reason = "evaluator_failed"
        draft.kind = "failed"

    async def rescore(self, output: BlobRef) -> Evaluation | None:
        """Evaluate a stored output by the current rubric; None if the checks cannot run."""
        kept = self.run.state.kept
        adaptation = kept.adaptation if kept else {}
        request = CheckRequest(
            frame=self.run.state.frame or "",
            pieces=(output.hash,),
            stored=True,
            adaptation=adaptation,
        )
        checked = await self.scorer.check_output(request)
        if isinstance(checked, StepFailed):
            return None
        tree = kept.tree if kept else None
        verified = await self.scorer.verify_tree(self.run.rubric, tree, output)
        if isinstance(verified, StepFailed):
            return None
        names = tuple(item.name for item in self.run.rubric.judged)
        verdict = await self._verdict(Question(output=output, asked=names, adaptation=adaptation))
        return combined(
            self.run.rubric,
            checks=(*checked.dimensions, *verified, *self._given_before()),
            judged=None if verdict.ending else verdict.scores,
            before=None,
            worst_first=_worst_first,
        )

    def _given_before(self) -> tuple[DimensionScore, ...]:
        """What a person said of the best output stands under another rubric too."""
        kept = self.run.state.kept
        known = kept.evaluation if kept else None
        given = (known.get(item.name) for item in self.run.rubric.human) if known else ()
        return tuple(score for score in given if score is not None and score.source == "human")


def _worst_first() -> bool:
    return workflow.patched(WORST_STAY)
