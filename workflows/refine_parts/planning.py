"""What a refine run does before its first draft: recall, classify the goal, plan."""

from perdure.domain.memory.recall import RecallReport
from perdure.domain.refine.planning import PlanReport, plan_choice, read_only_reason
from perdure.domain.refine.state import RecalledMemory, SingleAnswer
from perdure.domain.turns.entries import PlanEntry
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_call_tries import why_unusable
from perdure.workflows.engine.recall_memory import recall_memory
from perdure.workflows.engine.structured_replies import plan_steps
from perdure.workflows.refine_parts.run import RefineRun, permitted_iterations

PLAN_TOKENS = 1_024
PLAN_PROMPT_TOKENS = 200
STEPS_SHOWN = 6
STEP_SHOWN = 60


class PlanningStage:
    """The steps that happen once, before the iterations."""

    def __init__(self, run: RefineRun, engine: Engine) -> None:
        self.run = run
        self.engine = engine
        self.fitting = engine.fitting
        self.models = engine.models

    async def recall(self) -> None:
        """Look up what earlier runs learned; the run goes on without it if that fails."""
        if not self.run.spec.recall:
            return
        report = await recall_memory(self.engine)
        if report is not None:
            self._take_recollection(report)

    def _take_recollection(self, report: RecallReport) -> None:
        state, blobs = self.run.state, (report.text, report.skills_text)
        state.recollection = RecalledMemory(
            text=report.text.hash if report.text else None,
            skills_text=report.skills_text.hash if report.skills_text else None,
            tokens=sum(blob.tokens.total for blob in blobs if blob is not None),
            skills=tuple(skill.name for skill in report.skills),
        )
        # Only skills that the task names: whoever proposes a skill that is merely recalled could
        # switch the judge off.
        fixed = [skill.name for skill in report.skills if skill.requested and skill.deterministic]
        # A deterministic skill gives the same output each time, so iterating could not improve it.
        if fixed and self.run.spec.refine.classify != "off":
            why = f"the skill {fixed[0]} always does the same"
            state.answer_only = SingleAnswer(kind="deterministic", why=why)

    def classify(self) -> None:
        """Decide whether the goal is only a question, which one answer settles."""
        settings = self.run.spec.refine
        if settings.classify == "off" or self.run.state.answer_only is not None:
            return
        why = read_only_reason(
            self.run.spec.goal,
            writes=self.run.site.writable,
            rubric=self.run.rubric,
            settings=settings,
        )
        if why is not None:
            self.run.state.answer_only = SingleAnswer(kind="read_only", why=why)

    async def plan(self) -> None:
        """Ask the planner; the run goes on without a plan if that fails."""
        answer = self.run.state.answer_only
        if answer is None and self.run.spec.refine.plan == "off":
            return
        wanted, why_not = plan_choice(
            self.run.spec.refine.plan,
            max_iterations=permitted_iterations(self.run.spec.refine),
            answer_only=answer is not None,
            small_model=self.run.state.cards[self.run.spec.models.chain("planner")[0]].small,
        )
        if not wanted:
            reading = answer is not None and answer.kind == "read_only"
            self.run.record_event(
                "planned",
                skipped=why_not,
                read_only=reading or None,
                why=answer.why if answer else None,
            )
            return
        self.run.set_phase("planning")
        called = await self.models.call_structured(self._call_spec)
        if isinstance(called, PlanReport) and not called.problems:
            self.run.state.plan = called.plan
            titles = [step.title[:STEP_SHOWN] for step in called.plan.steps[:STEPS_SHOWN]]
            self.run.record_event("planned", steps=titles)
        else:
            why = why_unusable(called) or "it did not fit into the budget"
            self.run.record_event("planned", failed=why)

    def _call_spec(self, problems: tuple[str, ...]) -> ModelCallSpec:
        known = self.run.state.recollection
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
                    adaptation=self.run.state.adaptation,
                )
            ],
            extra_tokens=self.run.state.task_tokens + known.tokens + PLAN_PROMPT_TOKENS,
            max_tokens=self.fitting.reply_tokens("planner", PLAN_TOKENS),
            tools_off=True,
            structured=plan_steps(),
        )
