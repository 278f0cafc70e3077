"""The model-and-tools turn loop, used by every kind of run.

It is resumable at each checkpoint: whatever it must remember lies in `TurnState`, so that a run
may continue as new between any two steps, also in the middle of a batch of approvals.
"""

from typing import assert_never

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import LimitReached
from perdure.domain.foundation.names import short_model_name
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.domain.run.control import Phase
from perdure.domain.turns import tool_call_rules as callrules
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.output_schema import NOT_LOOKED_AT
from perdure.domain.turns.prompts import note_calls, note_unfinished
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.turn import (
    SCHEMA_UNMET,
    AnswerWith,
    Continue,
    Ending,
    ForceText,
    Limits,
    Refuse,
    Reply,
    RunCalls,
    TurnState,
    Why,
    after_calls,
    after_reply,
)
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.final_answer import CallInput, FinalAnswer, TurnsEnd
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_call_tries import AllModelsFailed, Called
from perdure.workflows.engine.policies import TurnPolicy, last_call
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.engine.tool_calls import ToolCalls


class AgentTurns:
    """Takes turns of a model with its tools; a `TurnPolicy` says what differs per kind of loop."""

    def __init__(self, engine: Engine, policy: TurnPolicy) -> None:
        self.run = engine.run
        self.life = engine.life
        self.people = engine.people
        self.limits = engine.limits
        self.models = engine.models
        self.policy = policy
        self.tools = ToolCalls(engine, policy)
        self.answers = FinalAnswer(engine, policy)

    async def take_turns(
        self, state: TurnState, turns: Turns, *, role: str, phase: Phase
    ) -> TurnsEnd:
        """Take turns until the model answers in text or a limit forces it to."""
        end = await self._turned(state, turns, role=role, phase=phase)
        # A transcript that ends with open tool calls is refused by providers, so no fork could use
        # it.
        await self.answers.paired(state)
        return end

    async def _turned(self, state: TurnState, turns: Turns, *, role: str, phase: Phase) -> TurnsEnd:
        # The run continued as new inside a batch, for example while it waited for an approval.
        if state.batch is not None:
            forced = await self._carry_on(state, turns, role=role)
            if forced is not None:
                return await self.answers.force(state, forced, role=role)
        while True:
            ending = await self.life.checkpoint() or await self._heard(state)
            if ending is not None:
                return await self.answers.end(state, ending, role=role)
            following = await self._turn(state, turns, role=role, phase=phase)
            if isinstance(following, TurnsEnd):
                return following
            if isinstance(following, ForceText):
                return await self.answers.force(state, following, role=role)

    async def _turn(
        self, state: TurnState, turns: Turns, *, role: str, phase: Phase
    ) -> TurnsEnd | ForceText | None:
        """Take one turn: call the model, settle the cost, then run tools or answer. None: go on."""
        # Checked before the call, so that a limit names itself instead of failing a reservation.
        spent = await self.limits.ask_or_end_if_spent()
        if spent is not None:
            return await self.answers.end(state, spent, role=role)
        if state.awaiting_results and last_call(self.policy.budget_of(self.run.state.budget)):
            # The last permitted call must answer: nobody could read results of more tool calls.
            ending = Ending(outcome="out_of_budget", reason="model_calls")
            return ForceText(type="force_text", ending=ending)
        self.policy.begin_iteration(state)
        self.run.set_phase(phase)
        # The tools that the next call may use.
        names = callrules.offered(
            self.run.state.terms,
            self.run.spec.tools.filter,
            iteration=state.iteration,
            tallies=state.tallies,
        )
        on_offer = self.policy.offered(names)
        called, sent = await self.answers.recorded_call(
            state,
            self._call_spec(state, turns, on_offer, role=role, phase=phase),
            tools_offered=len(on_offer),
        )
        if not isinstance(called, ModelCallReport):
            return await self._uncalled(state, called, role=role)
        return await self._follow(state, turns, called, sent, on_offer=on_offer, role=role)

    async def _follow(
        self,
        state: TurnState,
        turns: Turns,
        called: ModelCallReport,
        sent: CallInput,
        *,
        on_offer: tuple[str, ...],
        role: str,
    ) -> TurnsEnd | ForceText | None:
        if called.calls and called.text is not None and turns.defer_mixed_text:
            # Text beside tool calls is not the answer yet, but it is all there is if no better text
            # follows.
            state.deferred, state.deferred_cut = called.text, False
        reply = Reply(
            text=called.text,
            calls=called.calls,
            stop_reason=called.stop_reason,
            cut_call=called.cut_call,
            misfits=called.misfits,
        )
        limits = self._limits_of(state, turns, role=role)
        following = after_reply(reply, state, limits=limits, turns=turns)
        match following:
            case RunCalls():
                note_calls(state, reply)
                # As it was offered: what the call itself spent may have changed what is left.
                self.tools.plan_batch(state, turns, called.calls, on_offer=on_offer)
                return await self._carry_on(state, turns, role=role)
            case AnswerWith():
                return self._answered(state, reply, called, sent, following)
            case ForceText():
                if following.drop_calls:
                    self.answers.drop_reply(state, called, sent)
                else:
                    note_unfinished(state, reply, why="cut_call" if reply.cut_call else "cut_text")
                # The forced call below is an iteration of its own, with a record of its own.
                self.policy.complete_iteration(state, break_reason=following.ending.reason)
                return following
            case Continue():
                self._go_on(state, turns, reply, why=following.why)
                return None
            case Refuse():
                return self._refused(state, called, sent, role=role)
            case _:
                assert_never(following)

    async def _carry_on(self, state: TurnState, turns: Turns, *, role: str) -> ForceText | None:
        """Finish the open tool calls, then check violations, volume and iterations."""
        trouble = await self.tools.carry_out(state, turns)
        if trouble is not None:
            forced = ForceText(type="force_text", ending=trouble)
        else:
            limits = self._limits_of(state, turns, role=role)
            forced = after_calls(state, limits=limits, turns=turns)
        self.policy.complete_iteration(state, break_reason=forced.ending.reason if forced else None)
        return forced

    def _answered(
        self,
        state: TurnState,
        reply: Reply,
        called: ModelCallReport,
        sent: CallInput,
        answer: AnswerWith,
    ) -> TurnsEnd:
        text = {"reply": called.text, "deferred": state.deferred, "fallback": None}[answer.source]
        if called.calls:
            self.answers.drop_reply(state, called, sent)
        cut = {"reply": reply.unfinished, "deferred": state.deferred_cut, "fallback": False}
        truncated = cut[answer.source]
        self.run.record_event("text_answered", source=answer.source, truncated=truncated or None)
        self.policy.complete_iteration(
            state, break_reason=None if answer.outcome == "accepted" else answer.reason
        )
        return TurnsEnd(
            outcome=answer.outcome,
            reason=answer.reason,
            text=text,
            fallback=text is None,
            truncated=truncated,
            partial=truncated or (answer.outcome != "accepted" and answer.source != "reply"),
            detail="; ".join(state.misfits_of(text)) if answer.reason == SCHEMA_UNMET else "",
        )

    def _go_on(self, state: TurnState, turns: Turns, reply: Reply, *, why: Why) -> None:
        """Go on with another call; keep the text so far in case nothing better follows."""
        prompt = note_unfinished(state, reply, why=why)
        match why:
            case "nudge":
                state.nudged = True
                state.entries.append(SayEntry(type="say", text=turns.nudge_prompt))
            case "pause_turn":
                self.run.record_event("context_pressure", stop_reason="pause_turn")
            case "input":
                self.run.record_event("text_answered", source="reply", continued=True)
            case "misfit":
                misfits = "; ".join(reply.misfits or NOT_LOOKED_AT)
                self.run.record_event(
                    "text_answered", source="reply", continued=True, misfits=misfits
                )
            case _:
                cure = "asked again" if why == "lost_call" else "asked again with twice the room"
                self.run.record_event("context_pressure", stop_reason=reply.stop_reason, cure=cure)
        if prompt:
            state.entries.append(SayEntry(type="say", text=prompt))
        self.policy.complete_iteration(state, break_reason=why)

    def _refused(
        self, state: TurnState, called: ModelCallReport, sent: CallInput, *, role: str
    ) -> TurnsEnd | None:
        """Ask the next model what this one refused; without one, the run fails."""
        self.policy.complete_iteration(state, break_reason="refusal")
        # A refusal is a full reply that was paid for, not an error. The same model would refuse
        # again.
        if not self.models.move_past_refusal(role):
            return TurnsEnd(
                outcome="failed",
                reason="refusal",
                text=called.text,
                fallback=called.text is None,
                truncated=state.answer is not None,
                detail=f"model_refusal: {short_model_name(called.model)} refused",
            )
        self.answers.drop_reply(state, called, sent)
        return None

    async def _uncalled(self, state: TurnState, called: Called, *, role: str) -> TurnsEnd | None:
        """Handle a call that was not made or not answered. None: go on, with a raised budget."""
        match called:
            case LimitReached() if await self.limits.ask_for_budget(called):
                return None
            case AllModelsFailed() | StepFailed() if called.code != "interrupted":
                self.policy.complete_iteration(
                    state, break_reason="model_error", error=called.message
                )
                return await self.answers.recovered(state, called)
            case _:
                return await self.answers.end(state, self.limits.ending_of(called), role=role)

    def _call_spec(
        self, state: TurnState, turns: Turns, on_offer: tuple[str, ...], *, role: str, phase: Phase
    ) -> ModelCallSpec:
        last = self._limits_of(state, turns, role=role).last_iteration
        # None stands for all tools: naming them in every request would grow each scheduled event.
        whole = len(on_offer) == len(self.run.state.terms)
        return ModelCallSpec(
            role=role,
            phase=phase,
            summary=f"{role}: turn {state.iteration} (iteration {self.run.iteration})",
            head=state.head,
            entries=tuple(state.entries),
            on_offer=None if whole else on_offer,
            tools_off=state.reasked,
            # With tools, the schema is asked for in words first. Enforced, it would also force each
            # text beside a tool call to be JSON.
            shaped=self.run.structured and state.answer is None and (state.reasked or not on_offer),
            records=tuple(state.unwritten),
            max_tokens=self.policy.output_cap(),
            raised=state.cuts,
            continues=state.answer,
            seam=state.seam,
            followed=False if last else self.policy.begins_again(),
        )

    async def _heard(self, state: TurnState) -> Ending | None:
        """Take escalations, input and guidance that arrived meanwhile."""
        control = self.run.state.control
        if control.escalation is not None:
            # First, because its answer may be guidance for the very next prompt.
            ending = await self.escalate_to_person(state)
            if ending is not None:
                return ending
        state.entries += [SayEntry.of(given) for given in control.inputs]
        for text in control.guidance:
            state.entries.append(SayEntry(type="say", text=f"Guidance: {text}", pinned=True))
        # Kept until a model has read them: a call that fails or is dropped must offer them again.
        state.unread = [*state.unread, *control.inputs]
        control.inputs, control.guidance = [], []
        return None

    async def escalate_to_person(self, state: TurnState) -> Ending | None:
        """Put an escalation to a person; `continue` goes on with the text as guidance."""
        control = self.run.state.control
        if not self.policy.asks_inside:
            return None
        gate = await self.people.ask("escalation", control.escalation or "", free_text=True)
        control.escalation = None
        return self.limits.after_escalation(gate)

    def _limits_of(self, state: TurnState, turns: Turns, *, role: str) -> Limits:
        """The limits that decide what follows a reply, as they stand now."""
        budget, wall = self.run.state.budget, self.run.wall_time
        spent = budgets.exhausted_limit(budget, wall_time=wall, within_iteration=True)
        # The whole is not spent before what ordinary calls see of it.
        whole = spent and budgets.exhausted_limit(
            budget, wall_time=wall, within_iteration=True, wrap_up=True
        )
        control = self.run.state.control
        limits = Limits(
            last_iteration=state.iteration >= self.policy.turn_limit(turns),
            spent=_not_time(spent),
            spent_whole=_not_time(whole),
            # Only a spent budget needs to know this, and it is expensive to compute.
            wrap_up=spent is None or self.answers.wrap_up_fits(state, role=role),
            inputs_waiting=bool(control.inputs or control.guidance),
            continues=self.policy.continues_cuts(),
            structured=self.run.structured,
        )
        return self.policy.bounded(limits)


def _not_time(spent: LimitReached | None) -> str | None:
    # The checkpoint looks at the clocks: they end a run as `deadline`, not as `out_of_budget`.
    if spent is None or spent.dimension in budgets.TIME_DIMENSIONS:
        return None
    return spent.dimension
