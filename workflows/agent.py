"""`AgentLoop`: model and tools until the model answers in text, or a limit forces it to."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue
from temporalio import workflow

from perdure.domain.agent.result import agent_budget, agent_result
from perdure.domain.agent.spec import AgentSpec, asks_for_loops
from perdure.domain.agent.state import AgentInput, AgentState, slim_agent
from perdure.domain.budget import accounting as budgets
from perdure.domain.run.amend_spec import GOAL_CHANGED
from perdure.domain.run.messages import Amend
from perdure.domain.run.result import RunResult
from perdure.domain.run.resume import as_stored, taken_up
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import TAKEN_BACK
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.settings import Turns, resolve
from perdure.domain.turns.turn import Ending, Limits, TurnState
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.final_answer import TurnsEnd
from perdure.workflows.engine.handlers import ControlHandlers
from perdure.workflows.engine.policies import Requirements, TurnPolicy
from perdure.workflows.engine.recall_memory import recall_memory
from perdure.workflows.engine.run import Run
from perdure.workflows.engine.start_learning import finish_and_learn

PUBLISH_EVERY = 10
# Runs that began before agent runs had memory replay without it.
AGENT_MEMORY = "agent-memory"
# Runs that were asked to escalate in their last call ended without asking.
ASKED_BEFORE_THE_END = "asked-before-the-end"
# Their explanations spoke of a best result where there was none.
NOTHING_TO_SHOW = "nothing-to-show"


@workflow.defn(name="AgentLoop")
class AgentLoop(ControlHandlers):
    """One run of a model with tools, from its first message to its answer."""

    @workflow.init
    def __init__(self, given: AgentInput) -> None:
        self.run = AgentRun(given)
        self.engine = Engine(self.run, requirements=AgentRequirements(self.run))
        self.control = self.engine.control
        self.turns = AgentTurns(self.engine, CountedTurns(self.run))

    @workflow.run
    async def execute(self, given: AgentInput) -> RunResult:
        """Run to the result; `__init__` has taken the input."""
        return await self.engine.life.run_to_end(self._loop)

    async def _loop(self) -> RunResult:
        """Open the run, take turns, close it."""
        # Without a frame nothing has been opened yet. A run that continued as new carries its
        # frame, and goes straight on with its turns.
        if self.run.state.frame is None:
            turn = self.run.state.turn
            opened = await self.engine.setup.open(
                converses=True, extra={}, goes_on=bool(turn.entries), resume=turn.head
            )
            if isinstance(opened, Ending):
                return await self._close(
                    TurnsEnd(opened.outcome, opened.reason, fallback=True, detail=opened.detail)
                )
            # A fork or a retry begins with the transcript of another run. Its tool counters are
            # counted again from that transcript, so that a loop of tool calls is noticed across the
            # seam.
            self.run.state.turn = taken_up(turn, opened.head, opened.tallies)
            if self.run.spec.recall and turn.head is None and self._has_memory():
                await self._recall()
        end = await self.turns.take_turns(
            self.run.state.turn, self.run.turns, role=self.run.site.role, phase="executing"
        )
        return await self._close(end)

    def _has_memory(self) -> bool:
        """Whether this run recalls and learns.

        A run that works for another run does neither: its parent does both.
        """
        return self.run.site.parent is None and workflow.patched(AGENT_MEMORY)

    async def _recall(self) -> None:
        """Put what earlier runs learned in front of the first turn."""
        # Memory helps but is never needed: if the step fails, the run goes on without it.
        report = await recall_memory(self.engine)
        if report is None:
            return
        self.run.state.recalled_skills = tuple(skill.name for skill in report.skills)
        self.run.state.turn.entries += [
            SayEntry(type="say", ref=blob.hash, tokens=blob.tokens.total)
            for blob in (report.text, report.skills_text)
            if blob is not None
        ]

    async def _close(self, end: TurnsEnd) -> RunResult:
        """Take the last snapshot and return the result, whatever ended the run."""
        # From here on no control verb is accepted, so no verb can be accepted without effect.
        settled = self.engine.life.settle_ending(
            Ending(outcome=end.outcome, reason=end.reason, detail=end.detail)
        )
        end = replace(end, outcome=settled.outcome, reason=settled.reason, detail=settled.detail)
        # The snapshot comes before the result, because the result names its tree and patch.
        last = await self.engine.snapshots.deliver(None)
        self.run.state.tree = last.tree.hash if last else self.run.state.tree
        result = agent_result(
            self.run.state,
            run=self.run.id,
            turns=self.run.turns,
            end=end,
            wall_time=self.run.wall_time,
            tree=last,
            structured=self.run.structured,
            says_nothing=end.text is None and workflow.patched(NOTHING_TO_SHOW),
        )
        unwritten = tuple(self.run.state.turn.unwritten)
        if self.run.spec.learn and self._has_memory():
            return await finish_and_learn(self.engine, result, unwritten)
        return await self.engine.life.finish(result, unwritten)


class AgentRun(Run[AgentSpec, AgentState]):
    """A conversation; its turns are its iterations."""

    def __init__(self, given: AgentInput) -> None:
        # Profiles are resolved anew in each execution, never stored: the specification is the only
        # source, and `amend` may have replaced it.
        self.turns: Turns = resolve(given.spec.agent)
        fresh = AgentState(started_at=workflow.now(), budget=agent_budget(given.spec, self.turns))
        super().__init__(given, kind="agent", spec=given.spec, state=given.state, fresh=fresh)

    @property
    def iteration(self) -> int:
        """Model turns so far, the one in progress included."""
        return self.state.turn.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The largest number of model turns."""
        return self.turns.max_iterations

    @property
    def in_counted_iteration(self) -> bool:
        """Whether a turn is in progress."""
        return self.state.turn.record is not None

    def last_state(self) -> dict[str, JsonValue]:
        """The conversation so far, with tool results that no model has read yet."""
        return as_stored(slim_agent(self.state))

    def edit(self, message: Amend) -> None:
        """Apply an amendment; a message tells the running conversation the new goal."""
        super().edit(message)
        self.turns = resolve(self.spec.agent)
        if message.goal is not None:
            control = self.state.control
            # The transcript is append-only and begins with the old goal, so the new one can only be
            # said.
            control.guidance = [*control.guidance, GOAL_CHANGED.format(goal=message.goal)]

    def take_back(self, texts: Sequence[str]) -> None:
        """Say so in the conversation, which holds what was said."""
        control = self.state.control
        control.guidance = [*control.guidance, *(TAKEN_BACK.format(text=text) for text in texts)]


class AgentRequirements(Requirements):
    """Lets a run start and steer loops if its task asks for that; never a run below another."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run

    def orchestrates(self) -> bool:
        """Whether the run's model may start and steer loops."""
        return self.run.site.parent is None and asks_for_loops(self.run.spec.tools)


class CountedTurns(TurnPolicy):
    """Turns that count as iterations: each has its own record."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run

    def turn_limit(self, turns: Turns) -> int:
        """The permitted turns as they stand now: a person may have edited them."""
        return self.run.turns.max_iterations

    def bounded(self, limits: Limits) -> Limits:
        """A text is no answer yet while a person is to be asked; the next turn asks them."""
        asked = self.run.state.control.escalation is not None
        if not asked or limits.inputs_waiting or not workflow.patched(ASKED_BEFORE_THE_END):
            return limits
        return limits.model_copy(update={"inputs_waiting": True})

    def begin_iteration(self, state: TurnState) -> None:
        """Count the turn and open its record, unless the last turn's call was never made."""
        # A record is still open when the call before it was not made: a person raised the budget,
        # and the same iteration goes on.
        if state.record is not None:
            return
        run = self.run
        state.iteration += 1
        if run.state.budget.remaining("iterations") != 0:
            # The closing text after the last permitted iteration is not one more of them.
            run.state.budget = budgets.count(run.state.budget, iterations=1)
        state.record = IterationRecord(index=state.iteration, started_at=workflow.now())
        run.record_event("iteration_started")
        # Each update of the search attributes is an event in the history. Agents take many short
        # turns, so only every tenth one pays for it.
        if state.iteration % PUBLISH_EVERY == 0:
            run.sync_visibility()

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Close the record; the next step writes it, so it costs no step of its own."""
        if state.record is None:
            return
        record = state.record.model_copy(
            update={
                "phase": self.run.state.phase,
                "break_reason": break_reason or state.record.break_reason,
                "error": error,
            }
        )
        state.record = None
        state.unwritten = [*state.unwritten, record]
        self.run.append_record(record)
