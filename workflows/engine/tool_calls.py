"""The tool calls of one reply: refused, approved, asked or run, each with exactly one result.

The open calls are part of the turn state. So a run may wait days for an approval, continue as new
meanwhile, and go on with the calls that are left.
"""

import asyncio
from collections.abc import Sequence

from temporalio import workflow
from temporalio.workflow import ActivityHandle

from perdure.domain.budget import accounting as budgets
from perdure.domain.run.activity_messages import ToolCallReport
from perdure.domain.run.child_runs import hold_started
from perdure.domain.run.gates import Gate
from perdure.domain.tools.definitions import UNKNOWN_TOOL
from perdure.domain.turns import repeated_tool_calls as repeats
from perdure.domain.turns import tool_call_rules as callrules
from perdure.domain.turns.entries import ResultsEntry, SayEntry, ToolResultEntry
from perdure.domain.turns.prompts import pop_cut_notice
from perdure.domain.turns.records import ToolCallRecord
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.tool_call_rules import PlannedCall, RequestedCall
from perdure.domain.turns.turn import Batch, CallOutcome, Ending, TurnState
from perdure.workflows.engine.activity_tools import NO_WAVE_WITHOUT_TIME, ActivityTools, why_not_run
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.human_input import expired_to_end
from perdure.workflows.engine.policies import TurnPolicy
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.tool_call_gates import ToolCallQuestions
from perdure.workflows.engine.tool_call_steps import (
    WAVE,
    ToolCallSteps,
    newest_tree,
    seconds_of,
    settle,
)

# Patch: a call that lost its worker, or was completed by hand, counted for later calls as well.
EACH_CALL_COUNTS = "each call of a tool is counted by itself"
# Patch: a model's call of a tool that its strategy leaves out was made all the same.
ONLY_ON_OFFER = "only tools that were on offer are called"


class ToolCalls:
    """Carries out the tool calls of a reply."""

    def __init__(self, engine: Engine, policy: TurnPolicy) -> None:
        self.run = engine.run
        self.steps = engine.steps
        self.people = engine.people
        self.retries = engine.retries
        self.life = engine.life
        self.policy = policy
        self.calls = ToolCallSteps(engine.run, policy)
        self.questions = ToolCallQuestions(engine, self.calls)
        self.theirs = ActivityTools(engine.run, engine.steps)

    def plan_batch(
        self,
        state: TurnState,
        turns: Turns,
        asked: Sequence[RequestedCall],
        *,
        on_offer: tuple[str, ...],
    ) -> None:
        """Decide on every call of a reply; refused ones have their result at once.

        Args:
            state: of the turns.
            turns: their settings.
            asked: the calls, in order.
            on_offer: the tools that the reply could call.
        """
        granted = callrules.offered(
            self.run.state.terms,
            self.run.spec.tools.filter,
            iteration=state.iteration,
            tallies=state.tallies,
        )
        beyond = any(call.name in granted and call.name not in on_offer for call in asked)
        if not (beyond and workflow.patched(ONLY_ON_OFFER)):
            on_offer = granted
        planned = callrules.plan_calls(
            asked,
            terms=self.run.state.terms,
            on_offer=on_offer,
            tallies=state.tallies,
            max_repeat=turns.max_tool_repeat,
        )
        # From here the batch is in the state, so the run may continue as new at any point of it.
        state.batch = Batch(planned=list(planned))
        for entry in planned:
            if entry.verdict in {"illegal", "repeat", "unreadable"}:
                self.run.record_event("tool_refused", tool=entry.call.name, why=entry.verdict)
                settle(
                    state,
                    entry,
                    CallOutcome(call_id=entry.call.id, outcome="error", note=entry.message),
                )

    async def carry_out(self, state: TurnState, turns: Turns) -> Ending | None:
        """Work through the open batch and append its results; returns why the loop must end."""
        batch = state.batch or Batch()
        # Questions first, so that people can answer while the calls that need nobody run.
        await self.questions.open_gates(state)
        await self._run_ready(state, turns)
        ended = await self._await_people(state, turns)
        for entry in batch.pending_calls:
            note = why_not_run(self.run)
            settle(
                state, entry, CallOutcome(call_id=entry.call.id, outcome="interrupted", note=note)
            )
        looping = self._finish_batch(state, turns)
        return ended or looping

    async def _run_ready(self, state: TurnState, turns: Turns) -> None:
        batch = state.batch or Batch()
        ready = [entry for entry in batch.pending_calls if entry.verdict == "run"]
        for wave in self._waves(ready, turns):
            await self.life.wait_or_continue_as_new()
            if self.run.demanded_ending() is not None:
                return
            if self.run.ending() is not None and workflow.patched(NO_WAVE_WITHOUT_TIME):
                return
            allowed = self._permitted(state, wave)
            self.run.set_step(f"tools: {', '.join(entry.call.name for entry in allowed)}"[:180])
            started = [self.calls.start_call(state, entry) for entry in allowed]
            finished = await asyncio.gather(
                *(
                    self._finished(entry, name, handle)
                    for entry, (name, handle) in zip(allowed, started, strict=True)
                )
            )
            self.run.set_step(None)
            # Before one is made again: a folder made anew for it must have what others wrote.
            self.run.note_folder_tree(newest_tree(finished))
            for place, entry in enumerate(allowed):
                finished[place] = await self._again(state, entry, finished[place])
                self._take_result(state, entry, finished[place])
            longest = max((seconds_of(done) for done in finished), default=0.0)
            self.run.apply_budget(budgets.add_active_time(self.run.state.budget, longest))

    async def _finished(
        self, entry: PlannedCall, name: str, handle: ActivityHandle[ToolCallReport]
    ) -> Completed[ToolCallReport] | StepFailed:
        """The end of a call; a foreign activity begins once its arguments are read."""
        done = await self.steps.await_step(handle, activity_id=name)
        terms = self.calls.terms_of(entry)
        if terms.activity is None:
            return done
        return await self.theirs.run_call(entry.call, terms, done)

    def _waves(self, ready: list[PlannedCall], turns: Turns) -> list[list[PlannedCall]]:
        waves: list[list[PlannedCall]] = []
        size = WAVE if turns.parallel_tools else 1
        for entry in ready:
            alone = self.calls.terms_of(entry).exclusive
            if (
                not waves
                or len(waves[-1]) >= size
                or alone
                or self.calls.terms_of(waves[-1][-1]).exclusive
            ):
                waves.append([])
            waves[-1].append(entry)
        return waves

    def _permitted(self, state: TurnState, wave: list[PlannedCall]) -> list[PlannedCall]:
        """The calls that the budget still allows; the others get a result that says so."""
        left = self.run.state.budget.remaining("tool_calls")
        room = len(wave) if left is None else int(left)
        for entry in wave[room:]:
            note = "not run: the budget of tool calls is used up"
            settle(state, entry, CallOutcome(call_id=entry.call.id, outcome="error", note=note))
        allowed = wave[:room]
        self.run.state.budget = budgets.count(self.run.state.budget, tool_calls=len(allowed))
        return allowed

    async def _again(
        self, state: TurnState, entry: PlannedCall, done: Completed[ToolCallReport] | StepFailed
    ) -> Completed[ToolCallReport] | StepFailed:
        """Run a call again that has not begun, or an idempotent one without a result.

        One that lost its worker as long as a person wants that.
        """
        terms, first = self.calls.terms_of(entry), done
        while isinstance(done, StepFailed) and done.is_repeated(idempotent=terms.idempotent):
            if not await self.retries.prepare_retry(done, entry.call.name):
                break
            activity_id, handle = self.calls.start_call(state, entry)
            done = await self._finished(entry, activity_id, handle)
            # The newest by itself: the clock of another host begins elsewhere.
            self.run.note_folder_tree(newest_tree([done]))
        if done is not first and workflow.patched(EACH_CALL_COUNTS):
            self.retries.forget_losses(entry.call.name)
        return done

    def _take_result(
        self, state: TurnState, entry: PlannedCall, done: Completed[ToolCallReport] | StepFailed
    ) -> None:
        told = ""
        if isinstance(done, Completed):
            report, told = done.report, done.report.told
            if report.held is not None:
                self.run.apply_budget(hold_started(self.run.state.budget, report.held))
            settled = CallOutcome(
                call_id=entry.call.id,
                outcome=report.outcome,
                ref=report.ref,
                ms=round(report.seconds * 1000),
                number=report.number,
                gone=report.code == UNKNOWN_TOOL,
                attachments=report.attachments,
                note=self.calls.take_move_note(),
            )
        else:
            settled = self.calls.lost_call(entry, done)
        self.run.record_event(
            "tool_finished",
            tool=entry.call.name,
            label=entry.call.label or None,
            outcome=settled.outcome,
            result=told or None,
            ms=settled.ms,
        )
        settle(state, entry, settled)

    async def _await_people(self, state: TurnState, turns: Turns) -> Ending | None:
        """Wait for approvals and answers; each approved call runs as soon as it may."""
        batch = state.batch or Batch()
        while True:
            # An approved call that a stop held back is open still, and has had its answer.
            waiting = [
                entry
                for entry in batch.pending_calls
                if entry.call.id in batch.gates and entry.verdict != "run"
            ]
            if not waiting or self.run.interruption is not None:
                return None
            gate = await self.people.wait_for_answer(
                *(batch.gates[entry.call.id] for entry in waiting)
            )
            if gate is None:
                return None
            if expired_to_end(gate):
                return Ending(outcome="unanswered", reason="gate_expired", detail=gate.prompt[:200])
            entry = next(e for e in waiting if batch.gates[e.call.id] == gate.id)
            self._apply_answer(state, entry, gate)
            await self._run_ready(state, turns)

    def _apply_answer(self, state: TurnState, entry: PlannedCall, gate: Gate) -> None:
        answer, batch = gate.answer, state.batch or Batch()
        if answer is None:
            return
        if entry.verdict == "approve" and answer.choice == "approve":
            place = batch.planned.index(entry)
            batch.planned[place] = entry.model_copy(update={"verdict": "run"})
        elif entry.verdict == "approve":
            why = f": {answer.text}" if answer.text else ""
            note = f"a person denied this call{why}"
            settle(state, entry, CallOutcome(call_id=entry.call.id, outcome="denied", note=note))
        else:
            note = f"The person answered: {answer.words}"
            settle(state, entry, CallOutcome(call_id=entry.call.id, outcome="ok", note=note))

    def _finish_batch(self, state: TurnState, turns: Turns) -> Ending | None:
        """Append all results in call order; count violations and call volume."""
        batch = state.batch or Batch()
        results: list[ToolResultEntry] = []
        for entry in batch.planned:
            settled = batch.settled[entry.call.id]
            results.append(self._result_entry(state, entry, settled, turns))
        # In the order of the calls, whichever ended first: providers match results to calls, and a
        # stable order keeps the prompt cacheable.
        state.entries = [ResultsEntry(type="results", results=tuple(results))]
        if cut := pop_cut_notice(state):
            state.entries.append(SayEntry(type="say", text=cut))
        state.awaiting_results = True
        succeeded = [e.call.name for e in batch.planned if batch.settled[e.call.id].outcome == "ok"]
        meta = {term.name for term in self.run.state.terms if term.meta}
        repeats.note_iteration(
            state.tallies,
            is_illegal=any(
                entry.verdict == "illegal" or batch.settled[entry.call.id].gone
                for entry in batch.planned
            ),
            succeeded=succeeded,
            meta=meta,
        )
        state.tools_succeeded = state.tools_succeeded or bool(succeeded)
        self._record_batch(state, batch)
        state.batch = None
        return self._volume(state, turns)

    def _result_entry(
        self, state: TurnState, entry: PlannedCall, settled: CallOutcome, turns: Turns
    ) -> ToolResultEntry:
        note = settled.note
        if settled.ref is not None:
            repeats.note_number(state.tallies, entry.call.name, settled.number)
        if settled.ref is not None and self.calls.counts_result(entry, settled.ref, state.tallies):
            warning = repeats.note_result(
                state.tallies,
                entry.call.name,
                result_hash=settled.ref.hash,
                is_repeat=entry.repeated,
                max_repeat=turns.max_tool_repeat,
            )
            note = "\n".join(part for part in (note, warning and f"[{warning}]") if part)
        return ToolResultEntry(
            call_id=entry.call.id,
            name=entry.call.name,
            outcome=settled.outcome,
            ref=settled.ref,
            note=note,
            attachments=settled.attachments,
        )

    def _record_batch(self, state: TurnState, batch: Batch) -> None:
        if state.record is None:
            return
        rows = tuple(
            ToolCallRecord(
                id="" if entry.verdict == "repeat" else entry.call.id,
                name=entry.call.name,
                outcome="repeat"
                if entry.verdict == "repeat"
                else batch.settled[entry.call.id].outcome,
                ms=batch.settled[entry.call.id].ms,
            )
            for entry in batch.planned
        )
        counted = sum(1 for entry in batch.planned if entry.verdict != "repeat")
        blocked = any(entry.verdict == "repeat" for entry in batch.planned)
        state.record = state.record.model_copy(
            update={
                "calls": (*state.record.calls, *rows),
                "tool_calls": state.record.tool_calls + counted,
                "break_reason": "tool_loop" if blocked else state.record.break_reason,
            }
        )

    def _volume(self, state: TurnState, turns: Turns) -> Ending | None:
        level = repeats.note_volume_level(state.tallies, turns.tool_loop)
        if level is None:
            return None
        self.run.record_event(
            "tool_refused", tool=level.tool, why=f"tool_loop {level.level}", count=level.count
        )
        if level.level == "circuit_breaker":
            detail = f"{level.tool} brought nothing new in {level.count} calls"
            return Ending(outcome="tool_misuse", reason="tool_loop", detail=detail)
        if level.level != "critical":
            return None
        ending = self.policy.on_critical_loop(level)
        if ending is None:
            self.run.state.control.escalation = self.run.state.control.escalation or (
                f"{level.tool} was called {level.count} times without bringing anything new"
            )
        return ending
