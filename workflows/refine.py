"""`RefineLoop`: recall, plan, then execute, evaluate and decide until the draft is good enough."""

from dataclasses import replace

from temporalio import workflow

from perdure.domain.budget import accounting as budgets
from perdure.domain.refine.iteration_rules import (
    CONDITION_ROWS,
    cut_decision,
    end_detail,
    facts_of,
    note_draft,
    quality_met,
    record_of,
    take_rescored_best,
    with_rescored_best,
)
from perdure.domain.refine.planning import with_fix_steps
from perdure.domain.refine.result import refine_result
from perdure.domain.refine.state import BestDraft, RefineInput
from perdure.domain.refine.stop_rules import Decision, Facts, decide, passed
from perdure.domain.refine.token_savings import economized
from perdure.domain.run.hooks import HookFailure, failure_line
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.handlers import ControlHandlers
from perdure.workflows.engine.judging_costs import JudgingCosts
from perdure.workflows.engine.metrics import count_decision
from perdure.workflows.engine.scorer import Scorer
from perdure.workflows.engine.start_learning import finish_and_learn
from perdure.workflows.refine_parts.amendments import Amendments
from perdure.workflows.refine_parts.drafting import Drafting
from perdure.workflows.refine_parts.evaluation import EvaluationStage
from perdure.workflows.refine_parts.judging_reserve import JudgingReserve
from perdure.workflows.refine_parts.planning import PlanningStage
from perdure.workflows.refine_parts.policies import StrategyModels
from perdure.workflows.refine_parts.run import (
    RefineRequirements,
    RefineRun,
    RefineScoring,
    permitted_iterations,
)

NOT_EVALUATED = frozenset({"stopped", "unanswered"})
# Patch: a run that continued as new inside a draft, and was to end then, lost the draft's text.
ENDS_OPEN_DRAFTS = "open drafts are ended by their turns"
# Patch: a draft was accepted without what was amended while it was evaluated.
HEEDS_LATE_AMENDMENTS = "late amendments are heeded"
ACCEPTS = frozenset({"accept", "accept_best"})


@workflow.defn(name="RefineLoop")
class RefineLoop(ControlHandlers):
    """One run that improves a draft until its rubric is satisfied or a limit is reached."""

    @workflow.init
    def __init__(self, given: RefineInput) -> None:
        self.run = RefineRun(given)
        selection, scoring = StrategyModels(self.run), RefineScoring(self.run)
        # A draft that nobody can pay to judge is worthless, so every call of the drafting stage
        # leaves the judges' costs in the budget.
        reserve = JudgingReserve(self.run, selection, JudgingCosts(self.run, selection, scoring))
        self.engine = Engine(
            self.run, selection=selection, requirements=RefineRequirements(self.run), bounds=reserve
        )
        self.control = self.engine.control
        self.planning = PlanningStage(self.run, self.engine)
        self.drafting = Drafting(self.run, self.engine, selection, reserve)
        self.evaluation = EvaluationStage(self.run, Scorer(self.engine, scoring))
        self.amendments = Amendments(self.run, self.engine, self.evaluation)

    @workflow.run
    async def execute(self, given: RefineInput) -> RunResult:
        """Run to the result; `__init__` has taken the input."""
        return await self.engine.life.run_to_end(self._loop)

    async def _loop(self) -> RunResult:
        """Open, then run stage after stage until a decision ends the run."""
        # A run that continued as new carries its frame and goes straight on with its stage.
        if self.run.state.frame is None:
            opened = await self.engine.setup.open(
                converses=False, extra=self.run.frame_part(self.run.rubric)
            )
            if isinstance(opened, Ending):
                return await self._close(opened)
        while True:
            # The one place between stages where the run pauses, ends or continues as new.
            ending = await self.engine.life.checkpoint()
            if ending is not None and not self._has_open_draft():
                return await self._cut_short(ending)
            result = await self._step()
            if result is not None:
                return result

    def _has_open_draft(self) -> bool:
        """Whether a draft is open from before continue-as-new, which its own turns must end.

        They alone settle its open tool calls, and take or ask for its closing text.
        """
        state = self.run.state
        return state.stage == "execute" and state.turning and workflow.patched(ENDS_OPEN_DRAFTS)

    async def _step(self) -> RunResult | None:
        """Run one stage. `state.stage` says where a run that continued as new goes on."""
        state = self.run.state
        match state.stage:
            case "recall":
                await self.planning.recall()
                state.stage = "plan"
            case "plan":
                self.planning.classify()
                await self.planning.plan()
                state.stage = "execute"
            case "execute":
                await self.amendments.adopt()
                # Asked before the draft is paid for, not after.
                unjudgeable = await self.drafting.ask_or_end_if_unjudgeable()
                if unjudgeable is not None:
                    return await self._cut_short(unjudgeable)
                await self.drafting.execute()
                state.stage = "evaluate"
                if state.draft.cut is not None and state.draft.cut.outcome in NOT_EVALUATED:
                    return await self._cut_short(state.draft.cut)
            case "evaluate":
                # A person may have amended the rubric while the draft was written: it is scored by
                # the new one.
                await self.amendments.adopt()
                await self._judge_or_take()
                if state.draft.cut is not None and state.draft.cut.outcome == "unanswered":
                    return await self._cut_short(state.draft.cut)
                self._fold()
            case "decide":
                return await self._decide()
            case "ask":
                return await self._ask_person()
        return None

    async def _judge_or_take(self) -> None:
        """Score the draft; if the goal was only a question, take the answer unscored."""
        answer = self.run.state.answer_only
        await (
            self.evaluation.evaluate() if answer is None else self.evaluation.take_unscored(answer)
        )

    def _fold(self) -> None:
        """Update the score trajectory and the best draft; the loop may end right after."""
        state = self.run.state
        threshold = self.run.spec.refine.quality_threshold
        state.economy = economized(state, self.run.rubric, threshold=threshold)
        note_draft(state, self.run.rubric)
        state.stage = "decide"

    def _facts(self) -> Facts:
        return facts_of(
            self.run.state,
            settings=self.run.spec.refine,
            rubric=self.run.rubric,
            now=workflow.now(),
        )

    async def _decide(self) -> RunResult | None:
        """Apply the decision table and act on its first matching row."""
        self.run.set_phase("deciding")
        facts = self._facts()
        # The facts are stale after the wait: the person may have raised a limit, or stopped the
        # run.
        if await self._ask_for_budget(facts):
            facts = self._facts()
        facts, decision = await self._rejudge_if_amended(facts, decide(facts))
        decision = self._unless_told_more(decision)
        told = self.run.demanded_ending()
        if told is not None and decision.row == "budget":
            decision = cut_decision(told)  # whoever stops a run that asks for money ended it
        decision = await self._adapted(decision)
        self._record(decision)
        if decision.outcome is not None and decision.reason is not None:
            detail = end_detail(self.run.state, decision, wall_time=self.run.wall_time)
            ending = Ending(outcome=decision.outcome, reason=decision.reason, detail=detail)
            # A draft that passes is what was asked for, even if another has a higher score, or the
            # last of the budget was spent on it.
            return await self._close(
                ending,
                returned=self.run.state.newest if passed(facts) is not None else None,
                explanation=decision.explanation,
            )
        adapted = self.run.state.draft.adapted
        self.run.state.adaptation = self.run.state.adaptation if adapted is None else adapted
        self.run.state.plan = with_fix_steps(self.run.state.plan, self.run.state.draft.evaluation)
        asking = decision.decision == "escalate"
        if asking:
            self.run.state.question = self.run.state.control.escalation or decision.explanation
        self.run.state.stage = "ask" if asking else "execute"
        self.run.set_phase("refining")
        return None

    async def _adapted(self, decision: Decision) -> Decision:
        """Have the task's hook compute what changes before the next iteration, if one comes."""
        use, state = self.run.spec.hooks.adapt, self.run.state
        # An iteration without a score has nothing to adapt to.
        if use is None or decision.ends or state.trajectory.current is None:
            return decision
        adapted = await self.engine.hooks.adapt(self._record_of(decision), state.adaptation)
        if not isinstance(adapted, HookFailure):
            state.draft.adapted = adapted
            return decision
        state.draft.unadapted = failure_line(adapted)
        told = self.run.demanded_ending()
        if told is not None:
            return cut_decision(told)
        if use.on_error == "continue":
            return decision
        state.draft.failure = state.draft.unadapted
        failed = Ending(outcome="failed", reason="hook_failed", detail=state.draft.unadapted)
        return cut_decision(failed)

    async def _ask_for_budget(self, facts: Facts) -> bool:
        """Whether a person raised a spent budget; asked only if the run would go on with more."""
        state = self.run.state
        spent = budgets.exhausted_limit(state.budget, wall_time=self.run.wall_time)
        if spent is None or facts.exhausted is None or state.draft.cut is not None:
            return False
        return not decide(
            replace(facts, exhausted=None)
        ).ends and await self.engine.limits.ask_for_budget(spent)

    async def _rejudge_if_amended(self, facts: Facts, decision: Decision) -> tuple[Facts, Decision]:
        """Accept nothing by a rubric that was replaced meanwhile: score the best, decide anew."""
        state = self.run.state
        accepts = decision.decision in ACCEPTS and state.answer_only is None
        if not accepts or state.control.rubric is None or self.run.ending() is not None:
            return facts, decision
        # No draft was written for a new goal yet: it is adopted with the next one, if there is one.
        if (state.control.goal is not None and self._has_iterations_left) or not workflow.patched(
            HEEDS_LATE_AMENDMENTS
        ):
            return facts, decision
        await self.amendments.adopt()
        take_rescored_best(state)
        facts = facts_of(
            with_rescored_best(state),
            settings=self.run.spec.refine,
            rubric=self.run.rubric,
            now=workflow.now(),
        )
        decision = decide(facts)
        if decision.decision == "accept_best" and self._has_iterations_left:
            # How the scores moved by the old rubric says nothing of the new one.
            decision = Decision("continue", "input", "No iteration was written for the new rubric.")
        return facts, decision

    @property
    def _has_iterations_left(self) -> bool:
        return self.run.state.trajectory.completed < permitted_iterations(self.run.spec.refine)

    def _unless_told_more(self, decision: Decision) -> Decision:
        """Iterate once more instead of accepting, if something people said is unread."""
        if decision.decision not in ACCEPTS or not self._has_iterations_left:
            return decision
        control = self.run.state.control
        amended = control.guidance or control.goal is not None or control.rubric is not None
        if (
            control.inputs
            or self.run.state.turn.unread
            or (amended and workflow.patched(HEEDS_LATE_AMENDMENTS))
        ):
            return Decision("continue", "input", "Input arrived that no iteration has read yet.")
        return decision

    def _record(self, decision: Decision) -> None:
        """Record the decision and close the iteration's record; the next step writes it."""
        state = self.run.state
        count_decision(self.run.kind, decision.decision)
        self.run.record_event(
            "decided", decision=decision.decision, row=decision.row, why=decision.explanation
        )
        record = self._record_of(decision)
        state.turn.record = None
        state.turn.unwritten = [*state.turn.unwritten, record]
        self.run.append_record(record)
        if decision.ends and decision.row in CONDITION_ROWS:
            self.run.record_event("condition_met", condition=decision.row, reason=decision.reason)

    def _record_of(self, decision: Decision) -> IterationRecord:
        """What the store is to say of the iteration in progress."""
        state = self.run.state
        base = state.turn.record or IterationRecord(index=state.iteration)
        return record_of(
            state, base, decision=decision, rubric=self.run.rubric, settings=self.run.spec.refine
        )

    async def _ask_person(self) -> RunResult | None:
        """Ask a person; `continue` goes on, with the text as guidance."""
        state = self.run.state
        gate = await self.engine.people.ask("escalation", state.question, free_text=True)
        state.control.escalation, state.stage = None, "execute"
        ending = self.engine.limits.after_escalation(gate)
        if ending is None and not self._has_iterations_left:
            permitted = permitted_iterations(self.run.spec.refine)
            detail = f"{state.trajectory.completed} of {permitted}"
            ending = Ending(outcome="best_effort", reason="max_iterations", detail=detail)
        return None if ending is None else await self._close(ending)

    async def _cut_short(self, ending: Ending) -> RunResult:
        """End inside an iteration; what was written so far can still be the best draft."""
        state = self.run.state
        opinions = self.run.rubric.judged or self.run.rubric.human
        if state.stage == "evaluate" and self.run.interruption is None and not opinions:
            # Checks cost nothing, and a draft that nobody scored could not be returned as the best.
            await self.evaluation.evaluate()
        if state.turning or state.stage == "evaluate":
            self._fold()
        if state.stage == "decide":
            self._record(cut_decision(ending))
        return await self._close(ending)

    async def _close(
        self, ending: Ending, *, returned: BestDraft | None = None, explanation: str | None = None
    ) -> RunResult:
        """Return the best draft, whatever ended the run."""
        state, kept = self.run.state, returned or self.run.state.kept
        # A stop that arrived meanwhile replaces the ending; the explanation of the decision would
        # then explain the wrong one.
        settled = self.engine.life.settle_ending(ending)
        ending, explanation = settled, explanation if settled is ending else None
        tree = await self.engine.snapshots.deliver(kept.tree if kept else None)
        result = refine_result(
            state,
            run=self.run.id,
            ending=ending,
            explanation=explanation,
            returned=kept,
            met=quality_met(self.run.spec.refine, self.run.rubric, kept),
            wall_time=self.run.wall_time,
            tree=tree,
            evaluator_share=self.run.spec.refine.evaluator_share,
            structured=self.run.structured,
        )
        return await finish_and_learn(self.engine, result, tuple(state.turn.unwritten))
