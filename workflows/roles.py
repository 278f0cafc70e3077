"""`RoleLoop`: each role of a definition in order, again until its condition ends it."""

from dataclasses import replace

from pydantic import JsonValue
from temporalio import workflow

from perdure.domain.budget import envelope as budgets
from perdure.domain.budget.envelope import MAX_ITERATIONS, LimitReached
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.decision import RoleDecision, RoleFacts, decide
from perdure.domain.roles.limits import round_limit, with_rounds
from perdure.domain.roles.messages import StageFrame
from perdure.domain.roles.result import returned, role_result
from perdure.domain.roles.resume import between_iterations, first_state, last_state
from perdure.domain.roles.state import RoleInput
from perdure.domain.run.messages import Amend
from perdure.domain.run.result import RunResult
from perdure.domain.run.resume import as_stored
from perdure.domain.run.state import told_above
from perdure.domain.run.status import StageNow
from perdure.domain.turns.settings import resolve
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.base import expired_to_end
from perdure.workflows.engine.context_update import reframed
from perdure.workflows.engine.metrics import count_decision
from perdure.workflows.engine.start_learning import finish_and_learn
from perdure.workflows.role_parts.verdicts import Verdicts


@workflow.defn(name="RoleLoop")
class RoleLoop(Verdicts):
    """One run: a goal and a definition in, the best iteration of the team out."""

    kind = "roles"

    @workflow.init
    def __init__(self, given: RoleInput) -> None:
        super().__init__(given)
        self.spec = given.spec
        self.turns = resolve(given.spec.agent)
        if given.spec.roles.snapshot is None:
            raise InvalidInput("roles.definition: it was not resolved before the run started")
        self.snapshot_of = given.spec.roles.snapshot
        rounds = given.spec.roles.max_iterations
        self.condition = with_rounds(self.definition.termination_condition, rounds)
        fresh = first_state(given.spec, at=workflow.now())
        fresh.control = told_above(given.site.said)
        self.core = given.state or fresh

    @workflow.run
    async def run(self, given: RoleInput) -> RunResult:
        """Live to the end; the input is taken by `__init__`."""
        return await self.run_to_end()

    @property
    def iteration(self) -> int:
        """The iteration in progress, from 1."""
        return self.core.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The permitted iterations, with those that a person granted; None when only time ends."""
        limit = self._round_limit
        return None if limit >= MAX_ITERATIONS else limit + self.core.granted

    @property
    def _round_limit(self) -> int:
        return round_limit(self.condition, self.spec.roles.max_iterations)

    def stage_now(self) -> StageNow | None:
        """The stage in progress, for people."""
        core = self.core
        if not core.begun or core.doing != "stage":
            return None
        of = len(self.definition.roles)
        return StageNow(
            index=min(core.stage + 1, of),
            of=of,
            name=self.role.name,
            role=self.role.role,
            attempt=core.attempt,
        )

    def iteration_state(self) -> dict[str, JsonValue]:
        """The state after the iteration before the one in progress."""
        return as_stored(between_iterations(self.core))

    def last_state(self) -> dict[str, JsonValue]:
        """What the ended run can be taken up from."""
        return as_stored(last_state(self.core))

    def edit(self, message: Amend) -> None:
        """Count to the new limit; stages are told a new goal from the next one on."""
        super().edit(message)
        rounds = self.spec.roles.max_iterations
        self.condition = with_rounds(self.definition.termination_condition, rounds)
        if message.goal is not None:
            self.core.control.goal = message.goal

    async def loop(self) -> RunResult:
        """Open, then stages, review and decision until a decision ends it."""
        if self.core.frame is None:
            opened = await self.open(converses=False, extra=self._extra())
            if isinstance(opened, Ending):
                return await self._close(opened)
            self.take_seats(opened)
        while True:
            await self.wait_or_continue_as_new()
            await self._adopt_goal()
            ending = None if self.core.doing == "decide" else self._ending()
            if ending is not None:
                return await self._cut_short(ending)
            result = await self._step()
            if result is not None:
                return result

    async def _adopt_goal(self) -> None:
        """Tell every stage the goal that a person set, from its next turn on."""
        core, goal = self.core, self.core.control.goal
        if goal is None:
            return
        core.control.goal = None
        for name, seat in list(core.seats.items()):
            report = await reframed(self, seat.frame, goal=goal, summary=f"new goal for {name}")
            if report is not None:
                changed = seat.model_copy(update={"frame": report.frame})
                core.seats = {**core.seats, name: changed}

    async def _step(self) -> RunResult | None:
        """One step of the iteration; a run that continued as new goes on with the same."""
        core = self.core
        match core.doing:
            case "stage":
                if not core.begun:
                    self._begin()
                await self.run_stage()
                if core.stage >= len(self.definition.roles) and core.doing == "stage":
                    core.doing = "review"
            case "review":
                await self.review()
                if self.interruption is None:
                    if core.cut is None:
                        rules.complete(core, self.definition, self.condition)
                    core.doing = "decide"
            case "decide":
                return await self._decide()
            case "ask":
                return await self._ask_person()
        return None

    def _begin(self) -> None:
        rules.begin_iteration(self.core, now=workflow.now())
        self.record_event("iteration_started")
        self.sync_visibility()

    async def _decide(self) -> RunResult | None:
        """Obey the table, unless a person or a question without an answer ended the iteration."""
        core = self.core
        cut = self._stop() or core.cut
        if core.failure is None and cut is None:
            cut = await self._escalation()
        if core.failure is None and cut is not None and cut.outcome not in _TABLED:
            return await self._cut_short(cut)
        self.set_phase("deciding")
        facts = self._facts()
        if await self._raised(facts):
            facts = self._facts()
        elif (stopped := self._stop()) is not None:
            return await self._cut_short(stopped)  # told while people were asked for money
        decision = decide(facts)
        self._record(decision)
        if decision.outcome is not None and decision.reason is not None:
            detail = core.failure or ""
            ending = Ending(outcome=decision.outcome, reason=decision.reason, detail=detail)
            return await self._close(ending, explanation=decision.explanation)
        core.doing = "ask" if decision.row == "rework" else "stage"
        core.why_asked = decision.explanation
        return None

    async def _escalation(self) -> Ending | None:
        """Put to a person what came too late for the turns of a stage: the decision waits."""
        if self.core.control.escalation is None:
            return None
        return await self.escalated(self.core.turn)

    def _stop(self) -> Ending | None:
        ending = self._ending()
        return ending if ending is not None and ending.outcome == "stopped" else None

    def _facts(self) -> RoleFacts:
        core, wall = self.core, self.wall_time
        spent = budgets.exhausted(core.budget, wall_time=wall)
        cut = core.cut
        return rules.facts(
            core,
            condition=self.condition,
            rework_limit=self.spec.roles.rework_limit,
            limit=self._round_limit,
            now=workflow.now(),
            wall_time=wall,
            exhausted=_budget(spent) or _tabled(cut, "out_of_budget"),
            out_of_time=_tabled(cut, "deadline") or _clock(self._ending(), spent),
            unheard=bool(core.control.inputs),
        )

    async def _raised(self, facts: RoleFacts) -> bool:
        """With the policy `ask`: whether a person raised the budget of a run that would go on."""
        spent = budgets.exhausted(self.core.budget, wall_time=self.wall_time)
        if spent is None or facts.exhausted is None or self.core.cut is not None:
            return False
        if decide(replace(facts, exhausted=None)).ends:
            return False
        return await self.budget_raised(spent)

    def _record(self, decision: RoleDecision) -> None:
        """Say what was decided, and close the iteration's record; the next step writes it."""
        core = self.core
        count_decision(self.kind, decision.decision)
        self.record_event(
            "decided", decision=decision.decision, row=decision.row, why=decision.explanation
        )
        record = rules.close_iteration(core, decision, now=workflow.now())
        core.turn.unwritten = [*core.turn.unwritten, record]
        self.append_record(record)
        if decision.ends and decision.row in {"success", "condition"}:
            self.record_event("condition_met", condition=decision.row, reason=decision.reason)

    async def _ask_person(self) -> RunResult | None:
        """Ask whether to go on after so many reworks; `retry` grants another iteration."""
        core = self.core
        gate = await self.ask("blocked", self._rework_prompt(), free_text=True)
        if gate is None or gate.answer is None:
            ending = self._ending() or Ending(outcome="stopped", reason="stopped")
            return await self._close(ending)
        if expired_to_end(gate):
            return await self._close(Ending(outcome="unanswered", reason="gate_expired"))
        if gate.answer.choice != "retry":
            ending = Ending(outcome="blocked", reason="rework_exhausted", detail=core.why_asked)
            return await self._close(ending)
        if gate.answer.text:
            core.control.guidance = [*core.control.guidance, gate.answer.text]
        core.rejections, core.topics, core.review = 0, (), None
        core.granted, core.doing = core.granted + 1, "stage"
        return None

    def _rework_prompt(self) -> str:
        review = self.core.last_review
        found = [f"- {one.title}" for one in review.findings] if review else []
        asked = "`retry` grants another iteration (your text is told to it), `end` ends the run."
        return "\n".join([self.core.why_asked, *found, asked])

    async def _cut_short(self, ending: Ending) -> RunResult:
        """End inside an iteration, or between two of them."""
        core = self.core
        if core.begun and core.turning:
            core.question = None
            await self.end_stage(self.role, "cut", error=ending.reason)
        if core.begun:
            self._record(rules.cut_decision(ending))
        return await self._close(ending)

    async def _close(self, ending: Ending, *, explanation: str | None = None) -> RunResult:
        """Return the best iteration, whatever the reason."""
        settled = self.settled(ending)
        ending, explanation = settled, explanation if settled is ending else None
        core, gate = self.core, rules.reviewer(self.definition, self.condition)
        kept = returned(core, gate=gate)
        tree = await self.final_snapshot(kept.tree if kept else None)
        result = role_result(
            core,
            run=self.run_id,
            ending=ending,
            explanation=explanation,
            wall_time=self.wall_time,
            tree=tree,
            kept=kept,
        )
        return await finish_and_learn(self, result, tuple(core.turn.unwritten))

    def _extra(self) -> dict[str, JsonValue]:
        frame = StageFrame(
            loop=self.definition.name,
            stage="goal",
            role="evaluator",
            task="",
            criteria=self.definition.criteria,
            parameters=self.snapshot_of.parameters,
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
