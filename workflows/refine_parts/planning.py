"""What a refine run does before its first draft: recall, tell a question from work, plan."""

from perdure.domain.foundation.names import short_model_name
from perdure.domain.memory.recall_messages import RecallReport
from perdure.domain.refine.planning import PlanReport, wants_plan
from perdure.domain.refine.question_detection import read_only_reason
from perdure.domain.refine.state import RecalledMemory, SingleAnswer
from perdure.domain.refine.token_shares import share_used
from perdure.domain.turns.entries import PlanEntry
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.turn import Limits, TurnState
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.recall_memory import recall_memory
from perdure.workflows.engine.step_attempts import AllModelsFailed, Called, Unpriced
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.engine.structured_replies import Planning
from perdure.workflows.refine_parts.drafting import Drafting

PLAN_TOKENS = 1_024
PLAN_PROMPT_TOKENS = 200
STEPS_SHOWN = 6
STEP_SHOWN = 60


class PlanningStage(Drafting):
    """Adds the phases that come once, before the iterations."""

    async def recall(self) -> None:
        """Look up what earlier runs left; memory is a help, so that the run goes on without."""
        if not self.spec.recall:
            return
        report = await recall_memory(self)
        if report is not None:
            self._take_recollection(report)

    def _take_recollection(self, report: RecallReport) -> None:
        core, blobs = self.core, (report.text, report.skills_text)
        core.recollection = RecalledMemory(
            text=report.text.hash if report.text else None,
            skills_text=report.skills_text.hash if report.skills_text else None,
            tokens=sum(blob.tokens.total for blob in blobs if blob is not None),
            skills=tuple(skill.name for skill in report.skills),
        )
        fixed = [skill.name for skill in report.skills if skill.requested and skill.deterministic]
        if fixed and self.spec.refine.classify != "off":
            why = f"the skill {fixed[0]} always does the same"
            core.answer_only = SingleAnswer(kind="deterministic", why=why)

    def classify(self) -> None:
        """Tell a question, which one answer settles, from work."""
        settings = self.spec.refine
        if settings.classify == "off" or self.core.answer_only is not None:
            return
        why = read_only_reason(
            self.spec.goal, writes=self.site.writable, rubric=self.rubric, settings=settings
        )
        if why is not None:
            self.core.answer_only = SingleAnswer(kind="read_only", why=why)

    async def plan(self) -> None:
        """Ask the planner; a plan is a help, so that the run goes on when there is none."""
        answer = self.core.answer_only
        if answer is None and self.spec.refine.plan == "off":
            return
        wanted, why_not = wants_plan(
            self.spec.refine.plan,
            max_iterations=self.spec.refine.hard_limit,
            answer_only=answer is not None,
            small_model=self.core.cards[self.spec.models.chain("planner")[0]].small,
        )
        if not wanted:
            reading = answer is not None and answer.kind == "read_only"
            self.record_event(
                "planned",
                skipped=why_not,
                read_only=reading or None,
                why=answer.why if answer else None,
            )
            return
        self.set_phase("planning")
        called = await self.call_structured(self._planning)
        if isinstance(called, PlanReport) and not called.problems:
            self.core.plan = called.plan
            titles = [step.title[:STEP_SHOWN] for step in called.plan.steps[:STEPS_SHOWN]]
            self.record_event("planned", steps=titles)
        else:
            self.record_event("planned", failed=_why_no_plan(called))

    async def answer_once(self, answer: SingleAnswer) -> None:
        """Take what was written as it is: nobody scores it."""
        draft = self.core.draft
        if draft.failure is not None or not draft.pieces:
            return
        draft.output, draft.kind = draft.pieces[0], answer.evaluation
        if len(draft.pieces) > 1:
            joined = await self.check_output(self._check_request(draft))
            draft.output = draft.output if isinstance(joined, StepFailed) else joined.output

    def _planning(self, problems: tuple[str, ...]) -> ModelCallSpec:
        known = self.core.recollection
        return ModelCallSpec(
            role="planner",
            phase="planning",
            summary="plan",
            entries=[
                PlanEntry(
                    type="plan",
                    recalled=known.text,
                    skills=known.skills_text,
                    problems=problems,
                )
            ],
            extra_tokens=self.core.task_tokens + known.tokens + PLAN_PROMPT_TOKENS,
            max_tokens=self.reply_tokens("planner", PLAN_TOKENS),
            tools_off=True,
            structured=Planning(),
        )

    def limits_of(self, state: TurnState, turns: Turns, *, role: str) -> Limits:
        """An iteration that used up its share of the tokens makes no further turn of tools."""
        limits = super().limits_of(state, turns, role=role)
        permitted = self.spec.refine.hard_limit
        used = share_used(self.core.budget, self.core.iteration, permitted=permitted)
        return limits.model_copy(update={"share_used": used})


def _why_no_plan(called: Called) -> str:
    match called:
        case PlanReport():
            return "; ".join(called.problems)[:300]
        case AllModelsFailed() | StepFailed():
            return f"{called.code}: {called.message}"[:300]
        case Unpriced():
            return f"nobody knows the price of {short_model_name(called.model)}"
        case _:
            return "it did not fit into the budget"
