"""Asking people about the tool calls of a reply: to approve them, or what a call itself asks."""

import asyncio

from temporalio import workflow

from perdure.domain.tools.definitions import CheckCallReport
from perdure.domain.turns.tool_call_rules import PlannedCall
from perdure.domain.turns.tool_questions import approval_prompt, question_of
from perdure.domain.turns.turn import Batch, CallOutcome, TurnState
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.human_input import CALLS_NOBODY
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.tool_call_steps import WAVE, ToolCallSteps, settle


class ToolCallQuestions:
    """Opens the gates of the calls that need a person."""

    def __init__(self, engine: Engine, calls: ToolCallSteps) -> None:
        self.run = engine.run
        self.steps = engine.steps
        self.people = engine.people
        self.retries = engine.retries
        self.life = engine.life
        self.calls = calls

    async def open_gates(self, state: TurnState) -> None:
        """Ask people about the calls that need it; those that could not run are told at once."""
        batch = state.batch or Batch()
        waiting = [entry for entry in batch.pending_calls if entry.call.id not in batch.gates]
        await self._ask_approvals(state, [one for one in waiting if one.verdict == "approve"])
        asks = [entry for entry in waiting if entry.verdict == "ask"]
        if asks and self.run.demanded_ending() is not None and workflow.patched(CALLS_NOBODY):
            return
        for entry in asks:
            question = question_of(entry.call)
            gate = self.people.open_gate(
                "question", question.text, choices=question.choices, free_text=True
            )
            batch.gates[entry.call.id] = gate.id

    async def _ask_approvals(self, state: TurnState, entries: list[PlannedCall]) -> None:
        """Check the calls first: nobody is asked to approve a call that could not run."""
        for start in range(0, len(entries), WAVE):
            wave = entries[start : start + WAVE]
            await self.life.wait_or_continue_as_new()
            if self.run.state.control.stop is not None or self.run.interruption is not None:
                return
            started = [self.calls.start_look(state, entry) for entry in wave]
            looks = await asyncio.gather(
                *(self.steps.await_step(handle, activity_id=name) for name, handle in started)
            )
            for entry, look in zip(wave, looks, strict=True):
                self._ask_or_refuse(state, entry, await self._looked(state, entry, look))

    async def _looked(
        self, state: TurnState, entry: PlannedCall, look: Completed[CheckCallReport] | StepFailed
    ) -> Completed[CheckCallReport] | StepFailed:
        """Repeat a check whose worker was stopped on purpose, or that nobody took."""
        while isinstance(look, StepFailed) and (look.stopped or look.not_taken or look.unreadable):
            if not await self.retries.prepare_retry(look, entry.call.name):
                break
            activity_id, handle = self.calls.start_look(state, entry)
            look = await self.steps.await_step(handle, activity_id=activity_id)
        return look

    def _ask_or_refuse(
        self, state: TurnState, entry: PlannedCall, look: Completed[CheckCallReport] | StepFailed
    ) -> None:
        call = entry.call
        if isinstance(look, StepFailed):
            settle(state, entry, self.calls.lost_call(entry, look, ran=False))
            return
        report = look.report
        if report.refused is not None:
            self.run.record_event("tool_refused", tool=call.name, why="it could not run")
            settled = CallOutcome(call_id=call.id, outcome=report.refused, ref=report.ref)
            settle(state, entry, settled)
            return
        gate = self.people.open_gate(
            "tool_approval",
            approval_prompt(call, report.shown, left_out=report.left_out, run=self.run.id),
            free_text=True,
            args_hash=call.args_hash,
            subject=call.name,
            details=report.ref,
        )
        (state.batch or Batch()).gates[call.id] = gate.id
