"""Scoring a stored output by a rubric: checks, programs, judges and people, each in a step."""

from dataclasses import replace
from functools import partial

from temporalio import workflow

from perdure.activities.evaluation import Check, Verify
from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import LimitReached
from perdure.domain.evaluation.human_scores import BadScores, read_scores, review_prompt
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.refine.state import CheckReport, CheckRequest, VerifyRequest
from perdure.domain.run.activity_messages import JudgeReport
from perdure.domain.scoring.judging import (
    JudgesVerdict,
    Question,
    evaluator_share_refusal,
    highest_number,
    judge_room,
)
from perdure.domain.turns.entries import JudgeEntry
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.activity_checks import ActivityChecks
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.human_input import expired_to_end
from perdure.workflows.engine.judging_costs import LEAST_JUDGE_TOKENS, JudgingCosts
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_caller import REPLY_TRIES
from perdure.workflows.engine.policies import Scoring
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.structured_replies import judgement

JUDGE_TOKENS = 4_096
NO_VERDICT = "no usable verdict"
NUMBERS_STAY = "finding-numbers-stay"


class Scorer:
    """Runs the parts of an evaluation. A failed part never becomes a number.

    All parts use the rubric in the run's frame. `unshared` counts tokens of evaluation that do not
    count towards the judges' share.
    """

    def __init__(self, engine: Engine, scoring: Scoring) -> None:
        self.run = engine.run
        self.people = engine.people
        self.retries = engine.retries
        self.limits = engine.limits
        self.selection = engine.selection
        self.fitting = engine.fitting
        self.models = engine.models
        self.activities = ActivityChecks(engine)
        self.scoring = scoring
        self.costs = JudgingCosts(engine.run, engine.selection, scoring)
        self.unshared = 0

    async def check_output(self, request: CheckRequest) -> CheckReport | StepFailed:
        """Run the deterministic checks on a text."""
        summary = f"checks (iteration {self.run.iteration})"
        self.run.set_step(summary)
        outcome = await self.retries.workspace_step(
            Check.check, lambda: request, summary=summary, in_folder=False
        )
        self.run.set_step(None)
        if isinstance(outcome, Completed):
            self.run.apply_budget(
                budgets.add_active_time(self.run.state.budget, outcome.report.seconds)
            )
            return await self.activities.scored(request.frame, outcome.report)
        return outcome

    async def verify_tree(
        self, rubric: Rubric, tree: str | None, output: BlobRef | None
    ) -> tuple[DimensionScore, ...] | StepFailed:
        """Run commands, tests and linters on a snapshot."""
        if not rubric.verified:
            return ()
        summary = f"verify (iteration {self.run.iteration})"
        self.run.set_step(summary)
        request = VerifyRequest(
            frame=self.run.state.frame or "",
            output=output.hash if output else None,
            tree=tree,
            active_time_s=self.run.active_time_left,
        )
        outcome = await self.retries.run_with_retries(
            lambda activity_id: workflow.start_activity_method(
                Verify.verify,
                request,
                **activity_options.verification(
                    self.run.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )
        self.run.set_step(None)
        if isinstance(outcome, StepFailed):
            return outcome
        report = outcome.report
        self.run.apply_budget(budgets.add_active_time(self.run.state.budget, report.seconds))
        if report.interrupted is not None:
            return StepFailed("", "interrupted", f"ended early: {report.interrupted}")
        return report.dimensions

    async def ask_judges(self, rubric: Rubric, question: Question) -> JudgesVerdict:
        """Ask each judge of the rubric for its part and join their verdicts."""
        verdict = JudgesVerdict()
        # States of older releases do not say which numbers are given: what is open does.
        known = question.before.findings if question.before else ()
        given = highest_number(known, least=self.run.state.findings_given)
        # One after another: each judge numbers its findings behind those of the one before.
        for part in question.by_judge(rubric):
            said = await self._ask_judge(replace(part, given=given))
            if isinstance(said, Ending):
                return replace(verdict, ending=said)
            new = (one for item in said.scores for one in item.findings)
            given = highest_number(new, least=given)
            if workflow.patched(NUMBERS_STAY):
                self.run.state.findings_given = given
            verdict = verdict.with_report(said)
        return verdict

    async def _ask_judge(self, question: Question) -> JudgeReport | Ending:
        """Ask a judge, and once more if its verdict was unusable; returns why there is none.

        If a judge gives no usable verdict, the run's next evaluator model is asked. Judges that the
        rubric names have no substitute.
        """
        called = await self.models.call_structured(
            lambda problems: self._judge_call_spec(question, problems)
        )
        # As the task names it; a report has the provider's name.
        asked = self.selection.model_of("evaluator")
        for other in self._other_judges(question):
            if not isinstance(called, JudgeReport) or not called.problems or called.usable:
                break
            self.run.record_event("model_failed_over", failed=asked, to=other, why=NO_VERDICT)
            # By model, not by moving the chain on: a judge without a verdict has answered, and may
            # do better next time.
            instead = replace(question, model=other)
            called = await self.models.call_structured(partial(self._judge_call_spec, instead))
            asked = other
        if not isinstance(called, JudgeReport):
            return self.limits.ending_of(called)
        if not called.problems or called.usable:
            return called
        detail = f"no usable verdict in {REPLY_TRIES} replies: {'; '.join(called.problems)}"
        return Ending(outcome="failed", reason="evaluator_failed", detail=detail[:500])

    def _other_judges(self, question: Question) -> tuple[str, ...]:
        if question.model is not None:
            return ()
        index = self.run.state.chain_index.get(self.selection.chain_key("evaluator"), 0)
        return tuple(self.selection.chain("evaluator")[index + 1 :])

    def _judge_call_spec(
        self, question: Question, problems: tuple[str, ...]
    ) -> ModelCallSpec | LimitReached:
        """The call to a judge: in a context of its own, within the evaluator's share."""
        findings, share = question.findings, self.scoring.evaluator_share
        said = in_force(self.run.state.control.standing)
        entry = JudgeEntry(
            type="judge",
            output=question.output.hash,
            dimensions=question.asked,
            open_findings=findings,
            problems=problems,
            changed=question.changed,
            earlier=question.earlier,
            said=tuple(said),
            cut=question.cut,
            adaptation=dict(question.adaptation),
        )
        extra = self.costs.prompt(question.output.tokens.total)
        prompt = self.fitting.estimated(extra, role="evaluator", model=question.model)
        prompt += self.costs.shown([question.model or self.selection.model_of("evaluator")])
        # Judging has a share of its own, so that a talkative judge cannot use up the drafts'
        # tokens.
        room = judge_room(self.run.state, share=share, prompt_tokens=prompt, apart=self.unshared)
        if room is not None and room < LEAST_JUDGE_TOKENS:
            return evaluator_share_refusal(
                self.run.state, share, setting=self.scoring.share_setting, apart=self.unshared
            )
        wanted = self.fitting.reply_tokens("evaluator", JUDGE_TOKENS)
        return ModelCallSpec(
            role="evaluator",
            phase="evaluating",
            summary=f"judge (iteration {self.run.iteration})",
            entries=[entry],
            extra_tokens=extra,
            max_tokens=wanted if room is None else min(wanted, room),
            most_tokens=room,
            tools_off=True,
            model=question.model,
            structured=judgement(
                question.asked,
                open_findings=tuple(finding.id for finding in findings),
                next_finding=question.given + 1,
                pass_score=self.scoring.pass_score or 1.0,
                cache=self.scoring.judge_settings.cache,
            ),
        )

    async def score_by_person(
        self, rubric: Rubric, *, output: BlobRef | None, tree: str | None
    ) -> tuple[DimensionScore, ...] | Ending:
        """Ask a person for scores through a gate."""
        names = tuple(item.name for item in rubric.human)
        prompt = review_prompt(rubric, iteration=self.run.iteration, output=output, files=tree)
        gate = await self.people.ask("review", prompt, free_text=True, scores=names, details=output)
        if gate is None or gate.answer is None:
            return self.run.ending() or Ending(outcome="stopped", reason="stopped")
        if expired_to_end(gate):
            return Ending(outcome="unanswered", reason="gate_expired")
        answer = gate.answer
        # Whether they are clear was asked when the answer came: before, none were refused for it.
        read = read_scores(answer.words, names, strictly=False)
        if isinstance(read, BadScores):
            # Only the default answer of an expired gate comes here: an interface refuses a person's
            # answer without scores.
            detail = f"{answer.by} answered {gate.name} without scores: {read.problem}"
            return Ending(outcome="failed", reason="evaluator_failed", detail=detail)
        return read
