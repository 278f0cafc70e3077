"""`RefineLoop`: recall, plan, execute, evaluate, decide, refine until it is good enough."""

from dataclasses import replace

from pydantic import JsonValue, ValidationError
from temporalio import workflow

from perdure.domain.budget import envelope as budgets
from perdure.domain.budget.envelope import Budget, BudgetLimits
from perdure.domain.evaluation.condition_clocks import limits_with
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.rubric_requirements import needs_of, unknown_checks
from perdure.domain.foundation.problems import problems_of
from perdure.domain.refine.decision import Decision, Facts, decide, passed
from perdure.domain.refine.iteration_rules import (
    CONDITION_ROWS,
    cut_decision,
    end_detail,
    facts_of,
    fold,
    quality_met,
    record_of,
    rescored,
)
from perdure.domain.refine.planning import plan_lines, refined
from perdure.domain.refine.result import refine_result
from perdure.domain.refine.resume import between_iterations
from perdure.domain.refine.settings import settings_problems
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import BestDraft, RefineFrame, RefineInput, RefineState
from perdure.domain.refine.token_savings import economized
from perdure.domain.run.messages import Amend, AnyMessage
from perdure.domain.run.result import RunResult
from perdure.domain.run.resume import as_stored
from perdure.domain.scoring.combine import part_states
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.settings import resolve
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.context_update import reframed
from perdure.workflows.engine.metrics import count_decision
from perdure.workflows.engine.start_learning import finish_and_learn
from perdure.workflows.refine_parts.planning import PlanningStage

NOT_EVALUATED = frozenset({"stopped", "unanswered"})


@workflow.defn(name="RefineLoop")
class RefineLoop(PlanningStage):
    """One run: a goal and a rubric in, the best scored output out."""

    kind = "refine"

    @workflow.init
    def __init__(self, given: RefineInput) -> None:
        super().__init__(given)
        self.spec = given.spec
        self.turns = resolve(given.spec.agent)
        self.core = given.state or RefineState(
            started_at=workflow.now(), budget=Budget(limits=_limits(given.spec)), stage="recall"
        )

    @workflow.run
    async def run(self, given: RefineInput) -> RunResult:
        """Live to the end; the input is taken by `__init__`."""
        return await self.run_to_end()

    @property
    def iteration(self) -> int:
        """The iteration in progress, from 1."""
        return self.core.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The permitted iterations."""
        return self.spec.refine.planned_limit

    def parts(self) -> tuple[tuple[str, bool, str], ...]:
        """Parts (or dimensions) of the best output with what they still lack."""
        kept = self.core.kept
        return part_states(self.rubric, kept.evaluation if kept else None)

    def plan_lines(self) -> tuple[str, ...]:
        """The plan, its fix steps for the open findings last."""
        return plan_lines(self.core.plan)

    def iteration_state(self) -> dict[str, JsonValue]:
        """The state after the iteration before the one in progress."""
        return as_stored(between_iterations(self.core))

    def last_state(self) -> dict[str, JsonValue]:
        """The state after the last iteration."""
        return as_stored(between_iterations(self.core, ended=True))

    async def loop(self) -> RunResult:
        """Open, then execute, evaluate, decide, refine until a decision ends it."""
        if self.core.frame is None:
            opened = await self.open(converses=False, extra=self._extra(self.rubric))
            if isinstance(opened, Ending):
                return await self._close(opened)
        while True:
            ending = await self.checkpoint()
            if ending is not None:
                return await self._cut_short(ending)
            result = await self._step()
            if result is not None:
                return result

    async def _step(self) -> RunResult | None:
        """One stage of the pipeline; the stage says where a run that continued as new goes on."""
        core = self.core
        match core.stage:
            case "recall":
                await self.recall()
                core.stage = "plan"
            case "plan":
                self.classify()
                await self.plan()
                core.stage = "execute"
            case "execute":
                await self._adopt_rubric()
                await self.execute()
                core.stage = "evaluate"
                if core.draft.cut is not None and core.draft.cut.outcome in NOT_EVALUATED:
                    return await self._cut_short(core.draft.cut)
            case "evaluate":
                await self._adopt_rubric()
                await self._judge_or_take()
                if core.draft.cut is not None and core.draft.cut.outcome == "unanswered":
                    return await self._cut_short(core.draft.cut)
                self._fold()
            case "decide":
                return await self._decide()
            case "ask":
                return await self._ask_person()
        return None

    async def _judge_or_take(self) -> None:
        """Score the draft, or take it unscored where one answer settles the task."""
        answer = self.core.answer_only
        await (self.evaluate() if answer is None else self.answer_once(answer))

    def _fold(self) -> None:
        """Update the trajectory and the best, before the loop may end."""
        core = self.core
        threshold = self.spec.refine.quality_threshold
        core.economy = economized(core, self.rubric, threshold=threshold)
        fold(core, self.rubric)
        core.stage = "decide"

    def _facts(self) -> Facts:
        return facts_of(
            self.core, settings=self.spec.refine, rubric=self.rubric, now=workflow.now()
        )

    async def _decide(self) -> RunResult | None:
        """Obey the table."""
        self.set_phase("deciding")
        facts = self._facts()
        if await self._raised(facts):
            facts = self._facts()
        decision = self._unless_told_more(decide(facts))
        told = self._told_to_end()
        if told is not None and decision.row == "budget":
            decision = cut_decision(told)  # whoever stops a run that asks for money ended it
        self._record(decision)
        if decision.outcome is not None and decision.reason is not None:
            detail = end_detail(self.core, decision, wall_time=self.wall_time)
            ending = Ending(outcome=decision.outcome, reason=decision.reason, detail=detail)
            # What passes is what was asked for, also where another draft has the higher score, and
            # where the last of the money was spent on it.
            return await self._close(
                ending,
                returned=self.core.newest if passed(facts) is not None else None,
                explanation=decision.explanation,
            )
        self.core.plan = refined(self.core.plan, self.core.draft.evaluation)
        asking = decision.decision == "escalate"
        if asking:
            self.core.question = self.core.control.escalation or decision.explanation
        self.core.stage = "ask" if asking else "execute"
        self.set_phase("refining")
        return None

    async def _raised(self, facts: Facts) -> bool:
        """With the policy `ask`: whether a person raised the budget of a run that would go on."""
        core = self.core
        spent = budgets.exhausted(core.budget, wall_time=self.wall_time)
        if spent is None or facts.exhausted is None or core.draft.cut is not None:
            return False
        return not decide(replace(facts, exhausted=None)).ends and await self.budget_raised(spent)

    def _unless_told_more(self, decision: Decision) -> Decision:
        """Input that nobody has read yet keeps the loop going while iterations are left."""
        waiting = bool(self.core.control.inputs or self.core.turn.unread)
        left = self.core.trajectory.completed < self.spec.refine.hard_limit
        if decision.decision in {"accept", "accept_best"} and waiting and left:
            return Decision("continue", "input", "Input arrived that no iteration has read yet.")
        return decision

    def _record(self, decision: Decision) -> None:
        """Say what was decided, and close the iteration's record; the next step writes it."""
        core = self.core
        count_decision(self.kind, decision.decision)
        self.record_event(
            "decided", decision=decision.decision, row=decision.row, why=decision.explanation
        )
        base = core.turn.record or IterationRecord(index=core.iteration)
        record = record_of(
            core, base, decision=decision, rubric=self.rubric, settings=self.spec.refine
        )
        core.turn.record = None
        core.turn.unwritten = [*core.turn.unwritten, record]
        self.append_record(record)
        if decision.ends and decision.row in CONDITION_ROWS:
            self.record_event("condition_met", condition=decision.row, reason=decision.reason)

    async def _ask_person(self) -> RunResult | None:
        """Escalate; `continue` goes on with the text as guidance, while iterations are left."""
        core = self.core
        gate = await self.ask("escalation", core.question, free_text=True)
        core.control.escalation, core.stage = None, "execute"
        ending = self.after_escalation(gate)
        if ending is None and core.trajectory.completed >= self.spec.refine.hard_limit:
            detail = f"{core.trajectory.completed} of {self.spec.refine.hard_limit}"
            ending = Ending(outcome="best_effort", reason="max_iterations", detail=detail)
        return None if ending is None else await self._close(ending)

    def _refusal(self, message: AnyMessage) -> str | None:
        """A rubric that could not be used is refused at the door, not when it is adopted."""
        if isinstance(message, Amend) and message.rubric is not None:
            try:
                rubric = Rubric.model_validate(message.rubric)
            except ValidationError as error:
                return "; ".join(str(one) for one in problems_of(error, message.rubric))[:500]
            unknown = [name for name in rubric.judges if name and name not in self.core.cards]
            if unknown:
                return f"judge.model: {', '.join(unknown)} is none of the models of this run"
            known = {*self.core.plugin_checks, *needs_of(self.rubric).checks.values()}
            problems = (
                *settings_problems(self.spec.refine, rubric),
                *unknown_checks(rubric, known),
            )
            if problems:
                return "; ".join(str(problem) for problem in problems)[:500]
        return super()._refusal(message)

    def edit(self, message: Amend) -> None:
        """Prompts come from the frame, which takes a new goal before the next step."""
        super().edit(message)
        if message.goal is not None:
            self.core.control.goal = message.goal

    async def _adopt_rubric(self) -> None:
        """Take a rubric or goal that a person amended: new frame and hash, the best scored anew."""
        core, given = self.core, self.core.control.rubric
        if given is None and core.control.goal is None:
            return
        goal, core.control.goal, core.control.rubric = core.control.goal, None, None
        rubric = self.rubric if given is None else Rubric.model_validate(given)
        report = await reframed(
            self,
            core.frame or "",
            goal=goal,
            extra=self._extra(rubric),
            summary="adopt the rubric",
        )
        if report is None:
            return
        core.frame, core.task_tokens = report.frame, report.task_tokens
        if given is None:
            return
        core.rubric = rubric
        rescored(core, await self.rescore(core.kept.output) if core.kept else None, rubric)
        self.record_event(
            "amended", rubric=rubric.digest, score=core.best.score if core.best else None
        )

    async def _cut_short(self, ending: Ending) -> RunResult:
        """End inside an iteration: what was written still takes part in the choice of the best."""
        core = self.core
        opinions = self.rubric.judged or self.rubric.human
        if core.stage == "evaluate" and self.interruption is None and not opinions:
            # Checks cost nothing, and a draft that nobody scored could not be returned as the best.
            await self.evaluate()
        if core.turning or core.stage == "evaluate":
            self._fold()
        if core.stage == "decide":
            self._record(cut_decision(ending))
        return await self._close(ending)

    async def _close(
        self, ending: Ending, *, returned: BestDraft | None = None, explanation: str | None = None
    ) -> RunResult:
        """Return the best, whatever the reason."""
        core, kept = self.core, returned or self.core.kept
        settled = self.settled(ending)
        ending, explanation = settled, explanation if settled is ending else None
        tree = await self.final_snapshot(kept.tree if kept else None)
        result = refine_result(
            core,
            run=self.run_id,
            ending=ending,
            explanation=explanation,
            returned=kept,
            met=quality_met(self.spec.refine, self.rubric, kept),
            wall_time=self.wall_time,
            tree=tree,
            evaluator_share=self.spec.refine.evaluator_share,
            structured=self.structured,
        )
        return await finish_and_learn(self, result, tuple(core.turn.unwritten))

    def _extra(self, rubric: Rubric) -> dict[str, JsonValue]:
        frame = RefineFrame(rubric=rubric, output=self.spec.refine.output)
        return frame.model_dump(mode="json", by_alias=True)


def _limits(spec: RefineSpec) -> BudgetLimits:
    """The budget with the time limits of the task's own condition, which end a step in flight."""
    return limits_with(spec.refine.termination, spec.budget, started_at=workflow.now())
