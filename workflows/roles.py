"""`RoleLoop`: runs the roles of a definition in order, iteration after iteration."""

from dataclasses import replace

from pydantic import JsonValue
from temporalio import workflow

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import LimitReached
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.messages import StageFrame
from perdure.domain.roles.result import returned, role_result
from perdure.domain.roles.state import RoleInput
from perdure.domain.roles.stop_rules import RoleDecision, RoleFacts, decide
from perdure.domain.run.result import RunResult
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.handlers import ControlHandlers
from perdure.workflows.engine.human_input import expired_to_end
from perdure.workflows.engine.metrics import count_decision
from perdure.workflows.engine.reframe import reframe
from perdure.workflows.engine.start_learning import finish_and_learn
from perdure.workflows.role_parts.nested_loops import NestedLoops
from perdure.workflows.role_parts.policies import StageModels, StageRequirements, StageTurns
from perdure.workflows.role_parts.run import RoleRun
from perdure.workflows.role_parts.stages import Stages
from perdure.workflows.role_parts.verdicts import Verdicts

# Patch: a stage never got an amended goal if the step that adopts it failed.
KEEPS_GOALS = "a goal that a stage could not adopt is kept"


@workflow.defn(name="RoleLoop")
class RoleLoop(ControlHandlers):
    """One run of a team of roles; it returns the team's best iteration."""

    @workflow.init
    def __init__(self, given: RoleInput) -> None:
        self.run = RoleRun(given)
        selection = StageModels(self.run)
        self.engine = Engine(
            self.run, selection=selection, requirements=StageRequirements(self.run)
        )
        self.control = self.engine.control
        self.turns = AgentTurns(self.engine, StageTurns(self.run, selection))
        self.stages = Stages(self.run, self.engine, self.turns)
        self.nested = NestedLoops(self.run, self.engine, self.stages)
        self.verdicts = Verdicts(self.run, self.engine, self.stages)

    @workflow.run
    async def execute(self, given: RoleInput) -> RunResult:
        """Run to the result; `__init__` has taken the input."""
        return await self.engine.life.run_to_end(self._loop)

    async def _loop(self) -> RunResult:
        """Open, then run stages, review and decide until a decision ends the run."""
        if self.run.state.frame is None:
            opened = await self.engine.setup.open(converses=False, extra=self._extra())
            if isinstance(opened, Ending):
                return await self._close(opened)
            self.stages.take_seats(opened)
        while True:
            # Not `checkpoint`: an iteration whose stages are all done is decided and recorded even
            # if the run must end now.
            await self.engine.life.wait_or_continue_as_new()
            await self._adopt_goal()
            # A deadline must not cut off an iteration whose stages are done: the table may accept
            # it.
            ending = None if self.run.state.doing == "decide" else self.run.ending()
            if ending is not None:
                return await self._cut_short(ending)
            result = await self._step()
            if result is not None:
                return result

    async def _adopt_goal(self) -> None:
        """Give every stage the new goal that a person set; it holds from its next turn on."""
        state, goal = self.run.state, self.run.state.control.goal
        if goal is None:
            return
        # Cleared before the steps below: a goal that is set meanwhile is another one.
        state.control.goal = None
        for name, seat in list(state.seats.items()):
            report = await reframe(
                self.engine, seat.frame, goal=goal, summary=f"new goal for {name}"
            )
            if report is not None:
                changed = seat.model_copy(update={"frame": report.frame})
                state.seats = {**state.seats, name: changed}
            elif workflow.patched(KEEPS_GOALS):
                # The next step tries again, and if none comes, the result names the goal as unread.
                state.control.goal = state.control.goal or goal

    async def _step(self) -> RunResult | None:
        """Run one step. `state.doing` says where a run that continued as new goes on."""
        state = self.run.state
        match state.doing:
            case "stage":
                if not state.begun:
                    rules.begin_iteration(self.run.state, now=workflow.now())
                    self.run.record_event("iteration_started")
                    self.run.sync_visibility()
                await self.nested.run_stage()
                # A stage may end the iteration early by changing `doing`, for example when it is
                # blocked.
                if state.stage >= len(self.run.definition.roles) and state.doing == "stage":
                    state.doing = "review"
            case "review":
                await self.verdicts.review()
                if self.run.interruption is None:
                    if state.cut is None:
                        rules.complete(state, self.run.definition, self.run.condition)
                    state.doing = "decide"
            case "decide":
                return await self._decide()
            case "ask":
                return await self._ask_person()
        return None

    async def _decide(self) -> RunResult | None:
        """Apply the decision table, unless a stop or an unanswered question ended the iteration."""
        state = self.run.state
        cut = self._stop_ending() or state.cut
        if state.failure is None and cut is None and state.control.escalation is not None:
            # A person escalated after the last stage; the decision waits for the answer.
            cut = await self.turns.escalate_to_person(state.turn)
        if state.failure is None and cut is not None and cut.outcome not in _TABLED:
            return await self._cut_short(cut)
        self.run.set_phase("deciding")
        facts = self._facts()
        # The facts are stale after the wait: the person may have raised a limit, or stopped the
        # run.
        if await self._ask_for_budget(facts):
            facts = self._facts()
        elif (stopped := self._stop_ending()) is not None:
            return await self._cut_short(stopped)  # told while people were asked for money
        decision = decide(facts)
        self._record(decision)
        if decision.outcome is not None and decision.reason is not None:
            detail = state.failure or ""
            ending = Ending(outcome=decision.outcome, reason=decision.reason, detail=detail)
            return await self._close(ending, explanation=decision.explanation)
        state.doing = "ask" if decision.row == "rework" else "stage"
        state.why_asked = decision.explanation
        return None

    def _stop_ending(self) -> Ending | None:
        ending = self.run.ending()
        return ending if ending is not None and ending.outcome == "stopped" else None

    def _facts(self) -> RoleFacts:
        state, wall = self.run.state, self.run.wall_time
        spent = budgets.exhausted_limit(state.budget, wall_time=wall)
        cut = state.cut
        return rules.facts(
            state,
            condition=self.run.condition,
            rework_limit=self.run.spec.roles.rework_limit,
            limit=self.run.round_limit,
            now=workflow.now(),
            wall_time=wall,
            exhausted=_budget(spent) or _tabled(cut, "out_of_budget"),
            out_of_time=_tabled(cut, "deadline") or _clock(self.run.ending(), spent),
            unheard=bool(state.control.inputs),
        )

    async def _ask_for_budget(self, facts: RoleFacts) -> bool:
        """Whether a person raised a spent budget; asked only if the run would go on with more."""
        spent = budgets.exhausted_limit(self.run.state.budget, wall_time=self.run.wall_time)
        if spent is None or facts.exhausted is None or self.run.state.cut is not None:
            return False
        if decide(replace(facts, exhausted=None)).ends:
            return False
        return await self.engine.limits.ask_for_budget(spent)

    def _record(self, decision: RoleDecision) -> None:
        """Record the decision and close the iteration's record; the next step writes it."""
        state = self.run.state
        count_decision(self.run.kind, decision.decision)
        self.run.record_event(
            "decided", decision=decision.decision, row=decision.row, why=decision.explanation
        )
        record = rules.close_iteration(state, decision, now=workflow.now())
        state.turn.unwritten = [*state.turn.unwritten, record]
        self.run.append_record(record)
        if decision.ends and decision.row in {"success", "condition"}:
            self.run.record_event("condition_met", condition=decision.row, reason=decision.reason)

    async def _ask_person(self) -> RunResult | None:
        """Ask a person after too many reworks; `retry` grants one more iteration."""
        state = self.run.state
        gate = await self.engine.people.ask("blocked", self._rework_prompt(), free_text=True)
        if gate is None or gate.answer is None:
            ending = self.run.ending() or Ending(outcome="stopped", reason="stopped")
            return await self._close(ending)
        if expired_to_end(gate):
            return await self._close(Ending(outcome="unanswered", reason="gate_expired"))
        if gate.answer.choice != "retry":
            ending = Ending(outcome="blocked", reason="rework_exhausted", detail=state.why_asked)
            return await self._close(ending)
        if gate.answer.text:
            state.control.guidance = [*state.control.guidance, gate.answer.text]
        # A granted retry starts the count of reworks anew; otherwise it would be asked about again
        # at once.
        state.rejections, state.topics, state.review = 0, (), None
        state.granted, state.doing = state.granted + 1, "stage"
        return None

    def _rework_prompt(self) -> str:
        review = self.run.state.last_review
        found = [f"- {one.title}" for one in review.findings] if review else []
        asked = "`retry` grants another iteration (your text is told to it), `end` ends the run."
        return "\n".join([self.run.state.why_asked, *found, asked])

    async def _cut_short(self, ending: Ending) -> RunResult:
        """End inside an iteration, or between two of them."""
        state = self.run.state
        if state.begun and state.turning:
            state.question = None
            await self.stages.end_stage(self.run.role, "cut", error=ending.reason)
        if state.begun:
            self._record(rules.cut_decision(ending))
        return await self._close(ending)

    async def _close(self, ending: Ending, *, explanation: str | None = None) -> RunResult:
        """Return the best iteration, whatever the reason."""
        # A stop that arrived meanwhile replaces the ending, and the decision's explanation with it.
        settled = self.engine.life.settle_ending(ending)
        ending, explanation = settled, explanation if settled is ending else None
        state, gate = self.run.state, self.run.reviewer
        kept = returned(state, gate=gate)
        tree = await self.engine.snapshots.deliver(kept.tree if kept else None)
        result = role_result(
            state,
            run=self.run.id,
            ending=ending,
            explanation=explanation,
            wall_time=self.run.wall_time,
            tree=tree,
            kept=kept,
        )
        return await finish_and_learn(self.engine, result, tuple(state.turn.unwritten))

    def _extra(self) -> dict[str, JsonValue]:
        frame = StageFrame(
            loop=self.run.definition.name,
            stage="goal",
            role="evaluator",
            task="",
            criteria=self.run.definition.criteria,
            parameters=self.run.snapshot.parameters,
        )
        return frame.model_dump(mode="json")


_TABLED = frozenset({"out_of_budget", "deadline"})


def _tabled(cut: Ending | None, outcome: str) -> tuple[str, str] | None:
    if cut is None or cut.outcome != outcome:
        return None
    return cut.reason, cut.detail


def _budget(spent: LimitReached | None) -> tuple[str, str] | None:
    if spent is None or spent.dimension in budgets.TIME_DIMENSIONS:
        return None
    return spent.dimension, spent.text


def _clock(ending: Ending | None, spent: LimitReached | None) -> tuple[str, str] | None:
    if ending is not None and ending.outcome == "deadline":
        return ending.reason, ending.detail
    if spent is not None and spent.dimension in budgets.TIME_DIMENSIONS:
        return spent.dimension, spent.text
    return None
