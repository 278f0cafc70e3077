"""After the last stage: ask again for an unclear verdict, then ask the goal judge."""

from temporalio import workflow

from perdure.domain.budget.accounting import LimitReached
from perdure.domain.foundation.names import short_model_name
from perdure.domain.foundation.tokens import estimate
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.messages import GoalReport, VerdictReport
from perdure.domain.roles.prompts import VERDICT_QUESTION
from perdure.domain.roles.resume import JUDGE_FAILED
from perdure.domain.roles.spec import wants_goal_judge, wants_verdict
from perdure.domain.roles.state import Review
from perdure.domain.turns.entries import GoalEntry, SayEntry
from perdure.domain.turns.guidance import demands, in_force
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.metrics import count_verdict
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_call_tries import AllModelsFailed, Called, Unpriced
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.engine.structured_replies import goal_verdict, review_verdict
from perdure.workflows.role_parts.run import RoleRun
from perdure.workflows.role_parts.stages import BASE, Stages

VERDICT_TOKENS = 2_048
GOAL_TOKENS = 1_024
JUDGE = "evaluator"
# Patch: a run whose active time ended while its goal judge was asked ended as failed.
TIME_IS_NO_FAILURE = "a goal judge that is cut short has not failed"


class Verdicts:
    """Takes each verdict once, also across continue-as-new."""

    def __init__(self, run: RoleRun, engine: Engine, stages: Stages) -> None:
        self.run = run
        self.fitting = engine.fitting
        self.limits = engine.limits
        self.models = engine.models
        self.stages = stages

    async def review(self) -> None:
        """Take the verdict of the reviewing stage, then ask whether the goal is achieved."""
        self.run.set_phase("evaluating")
        # A run that continued as new between the two questions must not ask the first one again.
        taken = {verdict.by for verdict in self.run.state.verdicts}
        if wants_verdict(self.run.condition) and self.run.definition.review_stage.name not in taken:
            await self._take_verdict()
        if wants_goal_judge(self.run.condition) and self.run.state.achieved is None:
            await self._judge_goal()

    async def _take_verdict(self) -> None:
        state, gate = self.run.state, self.run.definition.review_stage
        review = state.review or Review(word="unclear")
        if review.word == "unclear":
            asked = await self._ask_again()
            if self.run.interruption is not None:
                return
            review = asked or review
        text = next((one.ref for one in state.done if one.record.name == gate.name), None)
        rules.take_review(state, review, by=gate.name, text=text.hash if text else None)
        count_verdict(review.word, rework=state.rejections > 1)
        self.run.record_event(
            "verdict",
            verdict=review.word,
            by=gate.name,
            open=review.open or None,
            text=review.rationale[:200] or None,
            rejections=state.rejections or None,
        )

    async def _ask_again(self) -> Review | None:
        """Ask the reviewer again, in its own conversation; None without an answer."""
        state, gate = self.run.state, self.run.definition.review_stage
        done = next((one for one in state.done if one.record.name == gate.name), None)
        if done is None or done.head is None:
            return None
        # In the reviewer's own conversation, with its frame: the judge below sees no conversation
        # at all.
        self.stages.bind_stage(gate.name)
        # While this is set, the models of the reviewing stage answer, not those of the last one.
        state.reviewing = True
        called = await self.models.call_model(
            ModelCallSpec(
                role=gate.role,
                phase="evaluating",
                summary=f"verdict asked again (iteration {state.iteration})",
                head=done.head,
                entries=(SayEntry(type="say", text=VERDICT_QUESTION),),
                tools_off=True,
                max_tokens=self.fitting.reply_tokens(gate.role, VERDICT_TOKENS),
                structured=review_verdict(),
            )
        )
        state.reviewing = False
        if not isinstance(called, VerdictReport) or called.review is None:
            return None
        return called.review.model_copy(update={"asked_again": True})

    async def _judge_goal(self) -> None:
        self.stages.bind_stage(BASE)
        called = await self.models.call_structured(self._judge_call_spec)
        if self.run.interruption is not None or self._end_if_judge_failed(called):
            return
        self._take_goal(called)
        kind = self.run.state.verdicts[-1].kind
        count_verdict(kind, rework=False)
        self.run.record_event(
            "verdict",
            verdict=kind,
            by=JUDGE,
            text=self.run.state.verdicts[-1].rationale[:200] or None,
        )

    def _judge_call_spec(self, problems: tuple[str, ...]) -> ModelCallSpec:
        state = self.run.state
        said = tuple(in_force(state.control.standing))
        entry = GoalEntry(
            type="goal",
            iteration=state.iteration,
            done=rules.shown_stages(state),
            said=said,
            problems=problems,
        )
        return ModelCallSpec(
            role=JUDGE,
            phase="evaluating",
            summary=f"goal judge (iteration {state.iteration})",
            entries=(entry,),
            extra_tokens=rules.shown_tokens(state) + estimate(demands(said)).total,
            tools_off=True,
            max_tokens=self.fitting.reply_tokens(JUDGE, GOAL_TOKENS),
            structured=goal_verdict(),
        )

    def _end_if_judge_failed(self, called: Called) -> bool:
        """Whether the judge failed or was cut short, which ends the run."""
        if not isinstance(called, AllModelsFailed | StepFailed):
            return False
        if called.code == "interrupted" and workflow.patched(TIME_IS_NO_FAILURE):
            self.run.state.cut = self.limits.ending_of(called)
            return True
        why = f"{called.code}: {called.message}"[:300]
        self.run.state.cut = Ending(outcome="failed", reason=JUDGE_FAILED, detail=why)
        return True

    def _take_goal(self, called: Called) -> None:
        """Take the judge's answer. No answer counts as not achieved."""
        match called:
            case GoalReport():
                achieved, why = called.achieved, called.rationale
            case LimitReached():
                achieved, why = False, f"nobody was asked: {called.text}"
            case Unpriced():
                achieved, why = False, f"the price of {short_model_name(called.model)} is unknown"
            case _:
                achieved, why = False, "the reply was no verdict"
        rules.take_goal(self.run.state, achieved=achieved, rationale=why, by=JUDGE)
