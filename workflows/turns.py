"""The model-and-tools turn loop, used by every kind of run.

It is resumable at each checkpoint: whatever it must remember lies in `TurnState`, so that a run
may continue as new between any two steps, also in the middle of a batch of approvals.
"""

from dataclasses import dataclass
from typing import assert_never

from perdure.domain import budget as budgets
from perdure.domain.agent import calls as callrules
from perdure.domain.agent.settings import FORCED_TEXT_PROMPT, Turns
from perdure.domain.agent.turn import (
    AnswerWith,
    Ending,
    ForceText,
    GoOn,
    Limits,
    Refuse,
    Reply,
    RunCalls,
    TurnState,
    after_calls,
    after_reply,
    must_end,
)
from perdure.domain.budget import Refused
from perdure.domain.control import Phase
from perdure.domain.gates import Gate
from perdure.domain.outcomes import Outcome
from perdure.domain.refs import Ref
from perdure.domain.result import IterationRecord
from perdure.domain.steps import ModelCallReport, SayEntry
from perdure.domain.usage import add_cost
from workflows.batch import Batches
from workflows.model_calls import Ask, Called, Unanswered, Unpriced
from workflows.steps import Broken

WRAP_UP_TOKENS = 64


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn loop ended; `text` is None when only the fallback text is left."""

    outcome: Outcome
    reason: str
    text: Ref | None = None
    fallback: bool = False
    truncated: bool = False
    partial: bool = False
    detail: str = ""


class Turning(Batches):
    """Adds turns to a loop; the subclass owns the `TurnState` and the iteration count."""

    async def take_turns(
        self, state: TurnState, turns: Turns, *, role: str, phase: Phase
    ) -> TurnEnd:
        """Turn until the model answers in text or a limit forces it to."""
        if state.batch is not None:
            forced = await self._carry_on(state, turns)
            if forced is not None:
                return await self._force(state, turns, forced, role=role, phase=phase)
        while True:
            ending = await self.checkpoint() or await self._heard(state)
            if ending is not None:
                return await self._end(state, turns, ending, role=role, phase=phase)
            following = await self._turn(state, turns, role=role, phase=phase)
            if isinstance(following, TurnEnd):
                return following
            if isinstance(following, ForceText):
                return await self._force(state, turns, following, role=role, phase=phase)

    async def _turn(
        self, state: TurnState, turns: Turns, *, role: str, phase: Phase
    ) -> TurnEnd | ForceText | None:
        """One iteration: call, account, then tools or text; None goes on."""
        spent = budgets.exhausted(self.core.budget, wall_time=self.wall_time)
        if spent is not None:
            more = await self.budget_raised(spent)
            if not more:
                ending = Ending(
                    outcome=_time_or_budget(spent), reason=spent.dimension, detail=spent.text
                )
                return await self._end(state, turns, ending, role=role, phase=phase)
        self.begin_iteration(state)
        self.enter(phase)
        called = await self.call_model(self._ask(state, turns, role=role, phase=phase))
        if not isinstance(called, ModelCallReport):
            return await self._uncalled(state, turns, called, role=role, phase=phase)
        state.head, state.entries = called.before, []
        state.unwritten = []
        self._record_call(state, called)
        return await self._follow(state, turns, called, role=role, phase=phase)

    async def _follow(
        self,
        state: TurnState,
        turns: Turns,
        called: ModelCallReport,
        *,
        role: str,
        phase: Phase,
    ) -> TurnEnd | ForceText | None:
        reply = Reply(text=called.text, calls=called.calls, stop_reason=called.stop_reason)
        following = after_reply(reply, state, limits=self._limits(state, turns), turns=turns)
        match following:
            case RunCalls():
                state.head = called.head
                if called.text is not None and turns.defer_mixed_text:
                    state.deferred = called.text
                return await self._tools(state, turns, called)
            case AnswerWith():
                return self._answered(state, called, following)
            case ForceText():
                if called.text is not None:
                    state.deferred = called.text
                self.complete_iteration(state, break_reason=following.ending.reason)
                return following
            case GoOn():
                self._go_on(state, turns, called, why=following.why)
                return None
            case Refuse():
                return self._refused(state, called, role=role)
            case _:
                assert_never(following)

    async def _tools(
        self, state: TurnState, turns: Turns, called: ModelCallReport
    ) -> ForceText | TurnEnd | None:
        self.plan_batch(state, turns, called.calls)
        return await self._carry_on(state, turns)

    async def _carry_on(self, state: TurnState, turns: Turns) -> ForceText | None:
        """Finish the open batch, then look at strikes, volume and the iteration limit."""
        trouble = await self.carry_out(state, turns)
        limits = self._limits(state, turns)
        if trouble is not None:
            self.complete_iteration(state, break_reason=trouble.reason)
            return ForceText(type="force_text", ending=trouble)
        forced = after_calls(state, limits=limits, turns=turns)
        self.complete_iteration(state, break_reason=forced.ending.reason if forced else None)
        return forced

    def _answered(self, state: TurnState, called: ModelCallReport, answer: AnswerWith) -> TurnEnd:
        text = {"reply": called.text, "deferred": state.deferred, "fallback": None}[answer.source]
        state.head = called.head or state.head
        truncated = called.stop_reason == "max_tokens" and answer.source == "reply"
        self.note("text_answered", source=answer.source, truncated=truncated or None)
        self.complete_iteration(
            state, break_reason=None if answer.outcome == "accepted" else answer.reason
        )
        return TurnEnd(
            outcome=answer.outcome,
            reason=answer.reason,
            text=text,
            fallback=text is None,
            truncated=truncated,
            partial=answer.outcome != "accepted" and answer.source != "reply",
        )

    def _go_on(self, state: TurnState, turns: Turns, called: ModelCallReport, *, why: str) -> None:
        state.head = called.head
        state.awaiting_results = False
        match why:
            case "nudge":
                state.nudged = True
                state.entries.append(SayEntry(type="say", text=turns.nudge_prompt))
            case "pause_turn":
                self.note("context_pressure", stop_reason="pause_turn")
            case _:
                self.note("text_answered", source="reply", continued=True)
        self.complete_iteration(state, break_reason=why)

    def _refused(self, state: TurnState, called: ModelCallReport, *, role: str) -> TurnEnd | None:
        self.complete_iteration(state, break_reason="refusal")
        chain = self.spec.models.chain(role)
        index = self.core.chain_index.get(role, 0)
        if index + 1 < len(chain):
            self.core.chain_index = {**self.core.chain_index, role: index + 1}
            self.note("model_failed_over", failed=called.model, to=chain[index + 1], why="refusal")
            return None
        return TurnEnd(outcome="failed", reason="refusal", text=called.text, fallback=False)

    async def _uncalled(
        self, state: TurnState, turns: Turns, called: Called, *, role: str, phase: Phase
    ) -> TurnEnd | None:
        """The iteration's call was not made or not answered; None goes on, with more budget."""
        match called:
            case Refused():
                if await self.budget_raised(called):
                    self.complete_iteration(state, break_reason="budget_raised")
                    return None
                ending = Ending(
                    outcome="out_of_budget", reason=called.dimension, detail=called.text
                )
            case Unpriced(model=model):
                ending = Ending(
                    outcome="out_of_budget",
                    reason="unpriced_model",
                    detail=f"nobody knows the price of {model}",
                )
            case Broken(code="interrupted"):
                ending = self._interrupted()
            case Unanswered() | Broken():
                self.complete_iteration(state, break_reason="model_error", error=called.message)
                return await self._recovered(state, called, phase=phase)
            case _:
                ending = Ending(outcome="failed", reason="internal")
        self.complete_iteration(state, break_reason=ending.reason)
        return await self._end(state, turns, ending, role=role, phase=phase)

    def _interrupted(self) -> Ending:
        return self._ending() or Ending(outcome="deadline", reason="active_time")

    async def _recovered(
        self, state: TurnState, called: Unanswered | Broken, *, phase: Phase
    ) -> TurnEnd:
        """All models failed: a recovery model may write the closing text, if work was done."""
        detail = f"{called.code}: {called.message}"
        if not state.tools_succeeded or not self.spec.models.chain("recovery"):
            return TurnEnd(
                outcome="failed", reason="model_error", text=state.deferred, detail=detail
            )
        ask = Ask(
            role="recovery",
            phase="wrapping_up",
            summary=f"recovery text (iteration {self.iteration})",
            head=state.head,
            entries=[*state.entries, SayEntry(type="say", text=FORCED_TEXT_PROMPT)],
            tools_off=True,
            wrap_up=True,
        )
        answer = await self.call_model(ask)
        text = answer.text if isinstance(answer, ModelCallReport) else None
        return TurnEnd(
            outcome="failed", reason="model_error", text=text, partial=True, detail=detail
        )

    async def _end(
        self, state: TurnState, turns: Turns, ending: Ending, *, role: str, phase: Phase
    ) -> TurnEnd:
        """End without another ordinary call: wrap up if that helps and fits."""
        allowed = (
            self.interruption is None
            and ending.outcome != "deadline"
            and not self.core.budget.complete_output
        )
        following = must_end(
            state,
            ending,
            wrap_up=allowed and self._wrap_up_fits(state) and ending.reason != "output_tokens",
        )
        if isinstance(following, ForceText):
            return await self._force(state, turns, following, role=role, phase=phase)
        text = state.deferred if following.source == "deferred" else None
        return TurnEnd(
            outcome=ending.outcome,
            reason=ending.reason,
            text=text,
            fallback=text is None,
            partial=True,
            detail=ending.detail,
        )

    async def _force(
        self, state: TurnState, turns: Turns, forced: ForceText, *, role: str, phase: Phase
    ) -> TurnEnd:
        """One call with tools off, recorded as an iteration of its own; else the fallback text."""
        ending = forced.ending
        text: Ref | None = None
        if state.awaiting_results:
            self.begin_iteration(state)
            self.enter("wrapping_up")
            called = await self.call_model(self._forced_ask(state, turns, role=role))
            if isinstance(called, ModelCallReport):
                state.head, state.entries, state.unwritten = called.head, [], []
                self._record_call(state, called)
                text = called.text
            self.complete_iteration(state, break_reason=ending.reason)
        text = text or state.deferred
        self.note("text_answered", source="forced" if text else "fallback")
        return TurnEnd(
            outcome=ending.outcome,
            reason=ending.reason,
            text=text,
            fallback=text is None,
            partial=True,
            detail=ending.detail,
        )

    def _forced_ask(self, state: TurnState, turns: Turns, *, role: str) -> Ask:
        return Ask(
            role=role,
            phase="wrapping_up",
            summary=f"closing text, tools off (iteration {self.iteration})",
            head=state.head,
            entries=[*state.entries, SayEntry(type="say", text=FORCED_TEXT_PROMPT)],
            tools_off=True,
            wrap_up=True,
            records=tuple(state.unwritten),
        )

    def _ask(self, state: TurnState, turns: Turns, *, role: str, phase: Phase) -> Ask:
        names = callrules.offered(
            self.core.terms,
            self.spec.tools.filter,
            iteration=state.iteration,
            tallies=state.tallies,
        )
        whole = len(names) == len(self.core.terms)
        return Ask(
            role=role,
            phase=phase,
            summary=f"{role}: turn {state.iteration} (iteration {self.iteration})",
            head=state.head,
            entries=tuple(state.entries),
            on_offer=None if whole else names,
            records=tuple(state.unwritten),
        )

    async def _heard(self, state: TurnState) -> Ending | None:
        """Take input, guidance and escalations that arrived meanwhile."""
        control = self.core.control
        for given in control.inputs:
            state.entries.append(
                SayEntry(
                    type="say",
                    text=given.text,
                    ref=given.ref.hash if given.ref else None,
                    tokens=given.ref.tokens.total if given.ref else 0,
                    pinned=True,
                )
            )
        for text in control.guidance:
            state.entries.append(SayEntry(type="say", text=f"Guidance: {text}", pinned=True))
        if control.inputs or control.guidance:
            state.awaiting_results = False
        control.inputs, control.guidance = [], []
        if control.escalation is None:
            return None
        return await self.escalated(state)

    async def escalated(self, state: TurnState) -> Ending | None:
        """Put an escalation to a person; `continue` goes on with the text as guidance."""
        control = self.core.control
        gate = await self.ask("escalation", control.escalation or "", free_text=True)
        control.escalation = None
        return self.after_escalation(gate, state)

    def after_escalation(self, gate: Gate | None, state: TurnState) -> Ending | None:
        """What the answer to an escalation means for the loop."""
        raise NotImplementedError

    def begin_iteration(self, state: TurnState) -> None:
        """Count an iteration and open its record."""
        raise NotImplementedError

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Close the record of the iteration in progress."""
        raise NotImplementedError

    def _record_call(self, state: TurnState, called: ModelCallReport) -> None:
        record = state.record or IterationRecord(index=max(1, self.iteration))
        account = called.account
        state.record = record.model_copy(
            update={
                "usage": record.usage + account.total_usage,
                "cost_usd": add_cost(record.cost_usd, account.total_cost_usd),
                "model_calls": record.model_calls + account.attempts,
                "model": called.model,
                "request_id": called.request_id,
                "stop_reason": called.stop_reason,
                "tools_offered": len(self.core.terms),
                "transcript": called.head.hash if called.head else None,
                "has_tool_calls": bool(called.calls),
                "duration_s": round(record.duration_s + account.seconds, 3),
                "output_ref": called.text.hash if called.text else None,
            }
        )

    def _limits(self, state: TurnState, turns: Turns) -> Limits:
        budget, wall = self.core.budget, self.wall_time
        spent = budgets.exhausted(budget, wall_time=wall, within_iteration=True)
        whole = budgets.exhausted(budget, wall_time=wall, within_iteration=True, wrap_up=True)
        control = self.core.control
        return Limits(
            last_iteration=state.iteration >= turns.max_iterations,
            spent=_not_time(spent),
            spent_whole=_not_time(whole),
            wrap_up=self._wrap_up_fits(state),
            inputs_waiting=bool(control.inputs or control.guidance),
        )

    def _wrap_up_fits(self, state: TurnState) -> bool:
        model = self.spec.models.chain("executor")[0]
        card = self.core.cards.get(model)
        prompt = (state.head.tokens.total if state.head else 0) + self.core.system_tokens
        fit = budgets.fit_call(
            self.core.budget,
            prompt_tokens=prompt,
            wanted=WRAP_UP_TOKENS,
            price=card.price if card else None,
            wrap_up=True,
        )
        return not isinstance(fit, Refused)


def _not_time(spent: Refused | None) -> str | None:
    # A spent clock is the checkpoint's to see: it ends in `deadline`, not in `out_of_budget`.
    if spent is None or spent.dimension in budgets.TIME_DIMENSIONS:
        return None
    return spent.dimension


def _time_or_budget(spent: Refused) -> Outcome:
    return "deadline" if spent.dimension in budgets.TIME_DIMENSIONS else "out_of_budget"
