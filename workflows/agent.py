"""`AgentLoop`: model and tools until the model answers in text, or a limit forces it to."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue
from temporalio import workflow

from perdure.domain.agent.loop_tool_access import asks_for_loops
from perdure.domain.agent.result import agent_budget, agent_result
from perdure.domain.agent.resume import slim_agent
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentInput, AgentState
from perdure.domain.budget import envelope as budgets
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
from perdure.workflows.engine.final_answer import TurnsEnd
from perdure.workflows.engine.recall_memory import recall_memory
from perdure.workflows.engine.start_learning import finish_and_learn

PUBLISH_EVERY = 10
# Runs that began before agent runs had memory replay without it.
AGENT_MEMORY = "agent-memory"


@workflow.defn(name="AgentLoop")
class AgentLoop(AgentTurns):
    """One run: messages in, a text answer out, tools in between."""

    kind = "agent"

    @workflow.init
    def __init__(self, given: AgentInput) -> None:
        super().__init__(given)
        # Narrowed here, once: nothing assigns a wider value afterwards.
        self.spec: AgentSpec = given.spec  # pyright: ignore[reportIncompatibleVariableOverride]
        self.turns: Turns = resolve(given.spec.agent)
        fresh = AgentState(started_at=workflow.now(), budget=agent_budget(given.spec, self.turns))
        self.core: AgentState = given.state or fresh  # pyright: ignore[reportIncompatibleVariableOverride]

    @workflow.run
    async def run(self, given: AgentInput) -> RunResult:
        """Live to the end; the input is taken by `__init__`."""
        return await self.run_to_end()

    @property
    def iteration(self) -> int:
        """Model turns so far, the one in progress included."""
        return self.core.turn.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The permitted model turns."""
        return self.turns.max_iterations

    def edit(self, message: Amend) -> None:
        """Take the new limit; the conversation began with the old goal, so it is told the new."""
        super().edit(message)
        self.turns = resolve(self.spec.agent)
        if message.goal is not None:
            control = self.core.control
            control.guidance = [*control.guidance, GOAL_CHANGED.format(goal=message.goal)]

    def take_back(self, texts: Sequence[str]) -> None:
        """Say so in the conversation, which holds what was said."""
        control = self.core.control
        control.guidance = [*control.guidance, *(TAKEN_BACK.format(text=text) for text in texts)]

    def limits_of(self, state: TurnState, turns: Turns, *, role: str) -> Limits:
        """The limits as they stand now: the one of turns may have been edited."""
        return super().limits_of(state, self.turns, role=role)

    def orchestrates(self) -> bool:
        """A run that asks for it; never the worker of another."""
        return self.site.parent is None and asks_for_loops(self.spec.tools)

    async def loop(self) -> RunResult:
        """Open, turn, end."""
        if self.core.frame is None:
            turn = self.core.turn
            opened = await self.open(
                converses=True, extra={}, goes_on=bool(turn.entries), resume=turn.head
            )
            if isinstance(opened, Ending):
                return await self._close(
                    TurnsEnd(opened.outcome, opened.reason, fallback=True, detail=opened.detail)
                )
            self.core.turn = taken_up(turn, opened.head, opened.tallies)
            if self.spec.recall and turn.head is None and self._has_memory():
                await self._recall()
        end = await self.take_turns(
            self.core.turn, self.turns, role=self.site.role, phase="executing"
        )
        return await self._close(end)

    def _has_memory(self) -> bool:
        """Whether memory takes part: in runs of people, and in none that began without it.

        What a run is given to do by another is told, and learned from, there.
        """
        return self.site.parent is None and workflow.patched(AGENT_MEMORY)

    async def _recall(self) -> None:
        """Say what earlier runs left, before the first turn; a later one has read it already."""
        report = await recall_memory(self)
        if report is None:
            return
        self.core.recalled_skills = tuple(skill.name for skill in report.skills)
        self.core.turn.entries += [
            SayEntry(type="say", ref=blob.hash, tokens=blob.tokens.total)
            for blob in (report.text, report.skills_text)
            if blob is not None
        ]

    def last_state(self) -> dict[str, JsonValue]:
        """The conversation as it stands, with results that no model has seen yet."""
        return as_stored(slim_agent(self.core))

    async def _close(self, end: TurnsEnd) -> RunResult:
        """Take the last snapshot, and return what there is."""
        settled = self.settled(Ending(outcome=end.outcome, reason=end.reason, detail=end.detail))
        end = replace(end, outcome=settled.outcome, reason=settled.reason, detail=settled.detail)
        last = await self.final_snapshot(None)
        self.core.tree = last.tree.hash if last else self.core.tree
        result = agent_result(
            self.core,
            run=self.run_id,
            turns=self.turns,
            end=end,
            wall_time=self.wall_time,
            tree=last,
            structured=self.structured,
        )
        unwritten = tuple(self.core.turn.unwritten)
        if self.spec.learn and self._has_memory():
            return await finish_and_learn(self, result, unwritten)
        return await self.finish(result, unwritten)

    def begin_iteration(self, state: TurnState) -> None:
        """Count the turn, and open its record; a turn whose call was not made goes on."""
        if state.record is not None:
            return
        state.iteration += 1
        if self.core.budget.remaining("iterations") != 0:
            # The closing text after the last permitted iteration is not one more of them.
            self.core.budget = budgets.count(self.core.budget, iterations=1)
        state.record = IterationRecord(index=state.iteration, started_at=workflow.now())
        self.record_event("iteration_started")
        if state.iteration % PUBLISH_EVERY == 0:
            self.sync_visibility()

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Close the record; it is written by the next step, the last one at the end."""
        if state.record is None:
            return
        record = state.record.model_copy(
            update={
                "phase": self.core.phase,
                "break_reason": break_reason or state.record.break_reason,
                "error": error,
            }
        )
        state.record = None
        state.unwritten = [*state.unwritten, record]
        self.append_record(record)
