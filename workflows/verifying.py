"""Evaluation by programs and by people: the snapshot is verified, and a person gives scores."""

from temporalio import workflow

from activities.verify import Verify
from perdure.domain import budget as budgets
from perdure.domain.admission import Needs, needs_of
from perdure.domain.agent.turn import Ending
from perdure.domain.evaluation import DimensionScore
from perdure.domain.gates import Gate
from perdure.domain.refine.state import Draft, RefineState, VerifyReport, VerifyRequest
from perdure.domain.refs import Ref
from perdure.domain.review import BadScores, read_scores, review_prompt
from perdure.domain.rubric import Rubric
from perdure.domain.run import RefineSpec
from perdure.domain.steps import OpenWorkspaceReport
from workflows import options
from workflows.loop import expired_to_end
from workflows.steps import Broken, Done
from workflows.turns import Turning


class Verifying(Turning):
    """Adds commands, tests, linters and people to a loop that has a rubric."""

    # Narrowed once, by `__init__`: nothing assigns a wider value afterwards.
    spec: RefineSpec  # pyright: ignore[reportIncompatibleVariableOverride]
    core: RefineState  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def rubric(self) -> Rubric:
        """The rubric in force: frozen at the start, replaced only by a person's `amend`."""
        return self.core.rubric or self.spec.rubric

    def needs(self) -> Needs:
        """The programs and plugins that the rubric asks for."""
        return needs_of(self.rubric)

    def admitted(self, report: OpenWorkspaceReport) -> None:
        """Remember the checks of the worker, for a rubric that a person amends."""
        self.core.plugin_checks = report.checks

    async def verify(self, draft: Draft) -> tuple[DimensionScore, ...] | Broken:
        """The scores of commands, tests and linters on the draft's own snapshot."""
        return await self.verify_tree(draft.tree, draft.output)

    async def verify_tree(
        self, tree: str | None, output: Ref | None
    ) -> tuple[DimensionScore, ...] | Broken:
        """The same for a stored version."""
        if not self.rubric.verified:
            return ()
        activity_id = self.next_activity_id()
        summary = f"verify (iteration {self.iteration})"
        self.show(summary)
        handle = workflow.start_activity_method(
            Verify.verify,
            VerifyRequest(
                frame=self.core.frame or "",
                output=output.hash if output else None,
                tree=tree,
                active_time_s=self.active_time_left,
            ),
            **options.verification(self.site, activity_id=activity_id, summary=summary),
        )
        outcome = await self.watched(handle, activity_id=activity_id)
        self.show(None)
        return self._verified(outcome, activity_id)

    def _verified(
        self, outcome: Done[VerifyReport] | Broken, activity_id: str
    ) -> tuple[DimensionScore, ...] | Broken:
        if isinstance(outcome, Broken):
            return outcome
        report = outcome.report
        self.charge(budgets.work(self.core.budget, report.seconds))
        if report.interrupted is not None:
            return Broken(activity_id, "interrupted", f"ended early: {report.interrupted}")
        return report.dimensions

    async def score_by_person(self) -> tuple[DimensionScore, ...] | Ending:
        """The scores that a person gives the draft, asked for until they can be read."""
        names = tuple(item.name for item in self.rubric.human)
        prompt = review_prompt(
            self.rubric,
            iteration=self.iteration,
            output=self.core.draft.output,
            files=self.core.draft.tree,
        )
        gate = await self.ask("review", prompt, free_text=True, scores=names)
        return self._scores_in(gate, names)

    def _scores_in(
        self, gate: Gate | None, names: tuple[str, ...]
    ) -> tuple[DimensionScore, ...] | Ending:
        if gate is None or gate.answer is None:
            return self._ending() or Ending(outcome="stopped", reason="stopped")
        if expired_to_end(gate):
            return Ending(outcome="unanswered", reason="gate_expired")
        answer = gate.answer
        read = read_scores(" ".join(filter(None, (answer.choice, answer.text))), names)
        if isinstance(read, BadScores):
            # Only a default of the settings comes here: people are told at the door.
            detail = f"{answer.by} answered {gate.id} without scores: {read.problem}"
            return Ending(outcome="failed", reason="evaluator_failed", detail=detail)
        return read
