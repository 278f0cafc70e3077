"""What a refine run does before its first draft: recall, tell a question from work, plan."""

from temporalio import workflow

from activities.recall import Recall
from perdure.domain import budget as budgets
from perdure.domain.agent.settings import Turns
from perdure.domain.agent.turn import Limits, TurnState
from perdure.domain.memory.steps import RecallReport, RecallRequest
from perdure.domain.memory.telling import recall_allowance
from perdure.domain.names import short_model_name
from perdure.domain.refine.classification import read_only_reason
from perdure.domain.refine.planning import PlanReport, wants_plan
from perdure.domain.refine.shares import share_used
from perdure.domain.refine.state import AnswerOnly, Recollection
from perdure.domain.steps import PlanEntry
from workflows import options
from workflows.executing import Executing
from workflows.model_calls import Ask
from workflows.steps import Broken, Done
from workflows.structured import Planning
from workflows.tries import Called, Unanswered, Unpriced

PLAN_TOKENS = 1_024
PLAN_PROMPT_TOKENS = 200
STEPS_SHOWN = 6
STEP_SHOWN = 60


class Preparing(Executing):
    """Adds the phases that come once, before the iterations."""

    async def recall(self) -> None:
        """Look up what earlier runs left; memory is a help, so that the run goes on without."""
        if not self.spec.recall:
            return
        self.enter("recalling")
        activity_id = self.next_activity_id()
        request = RecallRequest(
            run=self.run_id,
            goal=self.spec.goal,
            category=self.spec.category,
            token_limit=recall_allowance(self.spec.budget.tokens or None),
            skills=self.spec.skills,
            now=workflow.now(),
        )
        handle = workflow.start_activity_method(
            Recall.recall,
            request,
            **options.store_step(self.site, activity_id=activity_id, summary="recall"),
        )
        outcome = await self.watched(handle, activity_id=activity_id)
        if isinstance(outcome, Done):
            self._take_recollection(outcome.report)
        else:
            self.note("recalled", failed=f"{outcome.code}: {outcome.message}"[:300])

    def _take_recollection(self, report: RecallReport) -> None:
        core, blobs = self.core, (report.text, report.skills_text)
        core.recollection = Recollection(
            text=report.text.hash if report.text else None,
            skills_text=report.skills_text.hash if report.skills_text else None,
            tokens=sum(blob.tokens.total for blob in blobs if blob is not None),
            skills=tuple(skill.name for skill in report.skills),
        )
        self.charge(budgets.work(core.budget, report.seconds))
        self.note(
            "recalled",
            text=report.summary,
            missing=list(report.missing) or None,
            left_out=list(report.left_out) or None,
        )
        fixed = [skill.name for skill in report.skills if skill.requested and skill.deterministic]
        if fixed and self.spec.refine.classify != "off":
            why = f"the skill {fixed[0]} always does the same"
            core.answer_only = AnswerOnly(kind="deterministic", why=why)

    def classify(self) -> None:
        """Tell a question, which one answer settles, from work."""
        settings = self.spec.refine
        if settings.classify == "off" or self.core.answer_only is not None:
            return
        why = read_only_reason(
            self.spec.goal, writes=self.site.writable, rubric=self.rubric, settings=settings
        )
        if why is not None:
            self.core.answer_only = AnswerOnly(kind="read_only", why=why)

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
            self.note(
                "planned",
                skipped=why_not,
                read_only=reading or None,
                why=answer.why if answer else None,
            )
            return
        self.enter("planning")
        called = await self.call_structured(self._planning)
        if isinstance(called, PlanReport) and not called.problems:
            self.core.plan = called.plan
            titles = [step.title[:STEP_SHOWN] for step in called.plan.steps[:STEPS_SHOWN]]
            self.note("planned", steps=titles)
        else:
            self.note("planned", failed=_why_no_plan(called))

    async def answer_once(self, answer: AnswerOnly) -> None:
        """Take what was written as it is: nobody scores it."""
        draft = self.core.draft
        if draft.failure is not None or not draft.pieces:
            return
        draft.output, draft.kind = draft.pieces[0], answer.evaluation
        if len(draft.pieces) > 1:
            joined = await self.check_output(self._check_request(draft))
            draft.output = draft.output if isinstance(joined, Broken) else joined.output

    def _planning(self, problems: tuple[str, ...]) -> Ask:
        known = self.core.recollection
        return Ask(
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
        case Unanswered() | Broken():
            return f"{called.code}: {called.message}"[:300]
        case Unpriced():
            return f"nobody knows the price of {short_model_name(called.model)}"
        case _:
            return "it did not fit into the budget"
