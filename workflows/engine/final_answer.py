"""How a turn loop gets its final text: forced, recovered, deferred, or the fallback.

It also records every model call of a turn, with all its attempts.
"""

from dataclasses import dataclass

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from perdure.activities.call_model import CallModel
from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.requests import UNFINISHED
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.run.activity_messages import ModelCallReport, PairRequest
from perdure.domain.run.iteration_record import spent_since, with_account, with_reply
from perdure.domain.turns.entries import Entry, ResultsEntry, SayEntry
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.settings import FINISH_PROMPT, FORCED_TEXT_PROMPT
from perdure.domain.turns.turn import Ending, ForceText, TurnState, ending_step
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_call_tries import AllModelsFailed, Called
from perdure.workflows.engine.model_caller import REFUSED
from perdure.workflows.engine.policies import TurnPolicy
from perdure.workflows.engine.step_runner import StepFailed


@dataclass(frozen=True, slots=True)
class TurnsEnd:
    """How a turn loop ended; `text` is None when only the fallback text is left."""

    outcome: Outcome
    reason: str
    text: BlobRef | None = None
    fallback: bool = False
    truncated: bool = False
    partial: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CallInput:
    """What went into a call, to restore it if the reply is dropped."""

    head: TranscriptRef | None
    entries: tuple[Entry, ...]
    unread: tuple[PendingInput, ...]


class FinalAnswer:
    """Gets the final text of a turn loop."""

    def __init__(self, engine: Engine, policy: TurnPolicy) -> None:
        self.run = engine.run
        self.selection = engine.selection
        self.fitting = engine.fitting
        self.models = engine.models
        self.policy = policy

    async def recorded_call(
        self, state: TurnState, ask: ModelCallSpec, *, tools_offered: int
    ) -> tuple[Called, CallInput]:
        """Make a call and add it to the open record; returns its input too."""
        sent = CallInput(state.head, tuple(state.entries), tuple(state.unread))
        seat = self.selection.chain_key(ask.role)
        # Read before the call: one call may fail over to another model, and the record shows the
        # difference.
        before, index = self.run.state.budget.spent, self.run.state.chain_index.get(seat, 0)
        called = await self.models.call_model(ask)
        record = state.record or IterationRecord(index=max(1, self.run.iteration))
        record = with_account(record, spent_since(before, self.run.state.budget.spent))
        if self.run.state.chain_index.get(seat, 0) != index:
            why = f"model_failed_over from {self.selection.chain(ask.role)[index]}"
            said = f"{record.adaptation}; {why}" if record.adaptation else why
            record = record.model_copy(update={"adaptation": said})
        if isinstance(called, ModelCallReport):
            frame = self.run.state.frame
            record = with_reply(record, called, tools_offered=tools_offered, frame=frame)
            # The activity has written the entries into the transcript; sending them again would
            # repeat them.
            state.head, state.entries = called.head, []
            state.unread, state.unwritten = [], []
            state.note_misfits(called.text, called.misfits)
        state.record = record
        return called, sent

    def drop_reply(self, state: TurnState, called: ModelCallReport, sent: CallInput) -> None:
        """Forget a reply whose tool calls are not run: a transcript must not have open calls."""
        state.entries, state.unread = list(sent.entries), list(sent.unread)
        state.head = sent.head
        if called.before is not None:
            # The prompt was made shorter for this call, and its entries are part of it.
            state.head, state.entries, state.unread = called.before, [], []

    async def end(self, state: TurnState, ending: Ending, *, role: str) -> TurnsEnd:
        """End without another ordinary call; make a closing call if it helps and fits."""
        allowed = (
            # After a stop with `now` nobody waits for a closing text, and a deadline leaves no time
            # for one.
            self.run.interruption is None
            and ending.outcome != "deadline"
            and not self.run.state.budget.complete_output
        )
        following = ending_step(
            state, ending, wrap_up=allowed and self.wrap_up_fits(state, role=role)
        )
        if isinstance(following, ForceText):
            return await self.force(state, following, role=role)
        self.policy.complete_iteration(state, break_reason=ending.reason)
        return _with_text(ending, state.deferred, truncated=state.deferred_cut)

    async def force(self, state: TurnState, forced: ForceText, *, role: str) -> TurnsEnd:
        """Make one call without tools, as an iteration of its own, or use the fallback."""
        text, truncated = None, False
        if state.awaiting_results or forced.anyway:
            self.policy.begin_iteration(state)
            self.run.set_phase("wrapping_up")
            what = "closing text, tools off"
            ask = self._closing_call_spec(state, role=role, what=what, finish=forced.finish)
            called, sent = await self.recorded_call(state, ask, tools_offered=0)
            text, truncated = self._closing_text(state, called, sent)
        self.policy.complete_iteration(state, break_reason=forced.ending.reason)
        self.run.record_event("text_answered", source="forced" if text else _source(state))
        if text is None:
            text, truncated = state.deferred, state.deferred_cut
        return _with_text(forced.ending, text, truncated=truncated)

    def _closing_text(
        self, state: TurnState, called: Called, sent: CallInput
    ) -> tuple[BlobRef | None, bool]:
        """The text of a closing call, and whether it was cut short. A refusal counts as no text."""
        if not isinstance(called, ModelCallReport):
            return None, False
        if called.stop_reason == REFUSED:
            self.drop_reply(state, called, sent)
            return None, False
        return called.text, called.stop_reason in UNFINISHED

    async def recovered(self, state: TurnState, failed: AllModelsFailed | StepFailed) -> TurnsEnd:
        """After all models failed, let a recovery model write the closing text if work was done.

        With its text the run ends as `best_effort` instead of `failed`.
        """
        ending = Ending(
            outcome="failed", reason="model_error", detail=f"{failed.code}: {failed.message}"
        )
        # Without any tool result there is nothing to write about: a recovery text would be
        # invented.
        if not state.tools_succeeded or not self.run.spec.models.chain("recovery"):
            return _with_text(ending, state.deferred, truncated=state.deferred_cut)
        self.policy.begin_iteration(state)
        self.run.set_phase("wrapping_up")
        ask = self._closing_call_spec(state, role="recovery", what="recovery text")
        called, sent = await self.recorded_call(state, ask, tools_offered=0)
        text, truncated = self._closing_text(state, called, sent)
        self.policy.complete_iteration(state, break_reason=ending.reason)
        if text is None:
            return _with_text(ending, state.deferred, truncated=state.deferred_cut)
        self.run.record_event("text_answered", source="recovery", truncated=truncated or None)
        written = Ending(outcome="best_effort", reason="recovered", detail=ending.detail)
        return _with_text(written, text, truncated=truncated)

    def wrap_up_fits(self, state: TurnState, *, role: str) -> bool:
        """Whether a closing call to the role's current model fits the budget and its reserve."""
        ask = self._closing_call_spec(state, role=role, what="closing text")
        return self.fitting.closing_fits(ask, model=self.selection.model_of(role))

    async def paired(self, state: TurnState) -> None:
        """Append tool results to the transcript that no call has sent yet.

        If the store has lost one of them, the transcript stays as it is.
        """
        # Results wait in the state for the next call to take them along. Where none follows, a fork
        # of this run would begin with calls that have no results, which providers refuse.
        results = tuple(entry for entry in state.entries if isinstance(entry, ResultsEntry))
        if not results or state.head is None:
            return
        try:
            state.head = await workflow.execute_activity_method(
                CallModel.pair_results,
                PairRequest(frame=self.run.state.frame or "", head=state.head, append=results),
                **activity_options.store_step(self.run.site, summary="keep the last results"),
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return
        state.entries = [entry for entry in state.entries if not isinstance(entry, ResultsEntry)]

    def _closing_call_spec(
        self, state: TurnState, *, role: str, what: str, finish: bool = False
    ) -> ModelCallSpec:
        return ModelCallSpec(
            role=role,
            phase="wrapping_up",
            summary=f"{what} (iteration {self.run.iteration})",
            head=state.head,
            entries=(
                *state.entries,
                SayEntry(type="say", text=FINISH_PROMPT if finish else FORCED_TEXT_PROMPT),
            ),
            tools_off=True,
            wrap_up=True,
            records=tuple(state.unwritten),
            continues=state.answer if finish else None,
            seam=state.seam,
            closes=True,
            shaped=self.run.structured and not finish,
        )


def _source(state: TurnState) -> str:
    return "deferred" if state.deferred is not None else "fallback"


def _with_text(ending: Ending, text: BlobRef | None, *, truncated: bool = False) -> TurnsEnd:
    return TurnsEnd(
        outcome=ending.outcome,
        reason=ending.reason,
        text=text,
        fallback=text is None,
        truncated=truncated,
        partial=ending.outcome != "accepted",
        detail=ending.detail,
    )
