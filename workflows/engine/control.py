"""What a control message does to a run: read it, refuse or apply it, and note it.

Handlers change the state at once; only `amend`, as an update, then waits for the store before it
answers. A rejected update leaves no trace in the history. A signal that is unreadable or not
allowed is noted in the status and never fails the run.
"""

from collections.abc import Callable, Sequence

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.domain.run import control as rules
from perdure.domain.run import message_forms as forms
from perdure.domain.run.amend_spec import (
    belonging_refusal,
    edit_refusal,
    edited,
    late_refusal,
    raise_refusal,
    share_refusal,
    unclear_refusal,
    undecided_refusal,
    unheard_refusal,
    wordless_refusal,
)
from perdure.domain.run.events import Event
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.messages import (
    Amend,
    Answer,
    AnyMessage,
    EventsQuery,
    Pause,
    Receipt,
    Resume,
    flood_refusal,
)
from perdure.domain.run.result import SpendReport
from perdure.domain.run.status_views import spend_report
from perdure.workflows.engine.child_questions import ChildQuestions
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.stored_terms import StoredTerms

# Patches: runs that had a message before these rules were there replay as they took it.
# A raise at a spent budget was taken without a limit that lets the run go on.
RAISE_NEEDS_ROOM = "raise needs room"
# A run below another was given more than its share, and the tree spent beyond its budget.
SHARES_STAY = "shares stay"
# More wall time was accepted between the deadline and the end, without effect.
NO_TIME_AFTER_THE_END = "no time after the deadline"
# An answer was taken between a stop, or the deadline, and the end, without effect.
NO_ANSWER_AT_THE_END = "no answer after a stop"
# An amendment could cut a loop loose from the agent that started it.
BELONGING_STAYS = "whose agent started a loop stays"
# `1 out of 10` was taken for a full score.
SCORES_STAND_ALONE = "a person's scores stand alone"
# `amend` was answered before the store had it, and of two clients the slower one overwrote it.
ANSWERED_STORED = "amend is answered when it is stored"
# A run that was paused at a gate was listed as waiting until somebody answered.
PAUSE_LISTED = "a pause at a gate is listed"
# Words for a blocked stage, without the choice `retry`, ended the run.
CHOICES_DECIDE = "words alone settle no blocked gate"
# An answer or an input of blanks was taken, and the model was called again with nothing new.
BLANKS_SAY_NOTHING = "blanks are no answer and no input"


class Control:
    """Applies what people send to a run; `questions` holds those of its child runs.

    A run that has not been opened has no `terms` that could be stored.
    """

    def __init__(self, run: AnyRun, terms: StoredTerms | None = None) -> None:
        self.run = run
        self.terms = terms
        self.questions = ChildQuestions(run)

    def validate(self, verb: str, given: Sequence[object]) -> None:
        """Reject an update that cannot be read or is not allowed now.

        Raises:
            ApplicationError: with what is wrong, of the type `not_allowed`.
        """
        message = _readable(verb, given)
        if why := rules.reused_id_refusal(self.run.state.control, message):
            raise _refused(verb, why)
        # A repeat passes the validator even if the verb is no longer allowed: its sender lost the
        # first answer, and must hear that it was applied.
        if rules.is_repeat(self.run.state.control, message, _update_id()):
            return
        # A refused update leaves no history. Verbs that end or free a run pass always.
        why = (
            flood_refusal(verb, handled=self.run.handled)
            or self._refusal(message)
            or next((told for rule, _ in self._later_rules() if (told := rule(message))), None)
        )
        if why is not None:
            raise _refused(verb, why)

    def on_update(self, verb: str, given: Sequence[object]) -> Receipt:
        """Apply a validated update; a repeated request id has no second effect."""
        message = _readable(verb, given)
        self.run.handled += 1
        self.run.panel_is_stale = True
        control = self.run.state.control
        if rules.is_repeat(control, message, _update_id()):
            return Receipt(verb=verb, lifecycle=control.lifecycle, note="had its effect")
        self._apply_verb(message, request_id=_update_id())
        return Receipt(verb=verb, lifecycle=control.lifecycle)

    async def wait_until_terms_stored(self) -> None:
        """Wait until the store has what was amended, so that a broken run cannot lose it."""
        # An execution that answered at once before this version does so to its end.
        if self.terms is not None and not self.terms.settled and workflow.patched(ANSWERED_STORED):
            await self.terms.wait()

    def on_signal(self, verb: str, given: Sequence[object]) -> None:
        """Apply a signal if it is allowed, else note why not. No signal may fail the task."""
        # Whatever becomes of it: each signal makes the history longer.
        self.run.handled += 1
        message = forms.read_message(verb, given)
        if isinstance(message, Misread):
            self.note_refused(verb, message.why)
            return
        try:
            self._apply(verb, message)
        except Exception as error:
            # A task that fails here fails for ever: the signal stays in the history.
            self.note_refused(verb, f"it could not be applied: {error}")

    def on_questions_below(self, given: Sequence[object]) -> None:
        """Replace what a child asked before by what it asks now."""
        self.run.handled += 1
        why = self.questions.hear(given)
        if why is not None:
            self.note_refused(self.questions.signal, why)

    def on_unknown(self, name: str) -> None:
        """Note that a signal with an unknown name had no effect."""
        self.run.handled += 1
        self.note_refused(forms.named(name), forms.unknown_verb(name))

    def note_refused(self, verb: str, why: str) -> None:
        """Note in the status that a message had no effect, and why."""
        rules.note_refused(self.run.state.control, verb, why)
        self.run.panel_is_stale = True

    def costs(self) -> SpendReport:
        return spend_report(self.run.state, wall_time=self.run.wall_time)

    def events(self, given: Sequence[object]) -> list[Event]:
        """The events after the given number, as far as they are still kept."""
        query = forms.read_form("events", EventsQuery, given)
        if isinstance(query, Misread):
            raise _refused("events", query.why)
        return list(self.run.state.ring.since(query.since))

    def _apply(self, verb: str, message: AnyMessage) -> None:
        if rules.is_repeat(self.run.state.control, message):
            if why := rules.reused_id_refusal(self.run.state.control, message):
                self.note_refused(verb, why)
            return
        why = self._refusal(message)
        # A signal stays in the history: a run that took one like it before goes on as it did. A
        # patch is asked about last, as its first answer holds for the whole execution.
        for rule, patch in self._later_rules():
            if why is None and (told := rule(message)):
                why = told if workflow.patched(patch) else None
        if why is not None:
            self.note_refused(verb, why)
            return
        self._apply_verb(message, request_id=None)
        self.run.panel_is_stale = True

    def _later_rules(self) -> tuple[tuple[Callable[[AnyMessage], str | None], str], ...]:
        """What refuses a message by rules that came later, each with the patch of its signals."""
        return (
            (self._budget_raise_refusal, RAISE_NEEDS_ROOM),
            (self._share_refusal, SHARES_STAY),
            (self._late_refusal, NO_TIME_AFTER_THE_END),
            (self._unheard_refusal, NO_ANSWER_AT_THE_END),
            (belonging_refusal, BELONGING_STAYS),
            (self._unclear_refusal, SCORES_STAND_ALONE),
            (self._undecided_refusal, CHOICES_DECIDE),
            (wordless_refusal, BLANKS_SAY_NOTHING),
        )

    def _refusal(self, message: AnyMessage) -> str | None:
        run = self.run
        if why := run.message_refusal(message):
            return why
        if self.questions.meant_by(message) and not run.state.control.ended:
            return self.questions.refusal(message)
        if isinstance(message, Amend) and message.has_edits:
            completed = run.state.record_count
            if why := edit_refusal(run.spec, message, completed=completed):
                return why
        return rules.verb_refusal(
            run.state.control,
            message,
            budget=run.state.budget,
            wall_time=run.wall_time,
            inputs_allowed=run.takes_input,
            rubric_allowed=run.kind == "refine",
        )

    def _budget_raise_refusal(self, message: AnyMessage) -> str | None:
        run = self.run
        return raise_refusal(
            run.state.control, message, budget=run.state.budget, wall_time=run.wall_time
        )

    def _share_refusal(self, message: AnyMessage) -> str | None:
        run = self.run
        return share_refusal(
            message, budget=run.state.budget, share=run.spec.budget, parent=run.site.parent
        )

    def _late_refusal(self, message: AnyMessage) -> str | None:
        return late_refusal(message, deadline_passed=self.run.deadline_passed)

    def _unheard_refusal(self, message: AnyMessage) -> str | None:
        if self.questions.meant_by(message):
            return None  # a run below may go on
        control, passed = self.run.state.control, self.run.deadline_passed
        return unheard_refusal(control, message, deadline_passed=passed)

    def _unclear_refusal(self, message: AnyMessage) -> str | None:
        if self.questions.meant_by(message):
            return None  # the run below reads it
        return unclear_refusal(self.run.state.control, message)

    def _undecided_refusal(self, message: AnyMessage) -> str | None:
        if not isinstance(message, Answer):
            return None
        # Also of a run below, whose refusal of a signal the sender would not hear.
        below = self.questions.meant_by(message)
        own = rules.gate_named(self.run.state.control, message.gate)
        return undecided_refusal(message, below[0] if below else own)

    def _apply_verb(self, message: AnyMessage, *, request_id: str | None) -> None:
        if self.questions.meant_by(message):
            self.questions.forward(message, request_id=request_id)
            return
        run, control = self.run, self.run.state.control
        # Kept for `amend --remove`: afterwards nothing tells what was removed.
        before, unread = control.standing, control.unread
        taken = rules.apply_verb(
            control,
            message,
            now=workflow.now(),
            budget=run.state.budget,
            wall_time=run.wall_time,
            request_id=request_id,
        )
        if taken.budget is not None:
            run.state.budget = taken.budget
        if isinstance(message, Amend) and message.has_edits:
            run.spec = edited(run.spec, message)
            run.edit(message)
        if isinstance(message, Amend) and (message.remove or message.remove_texts):
            holds = {said.number for said in control.standing}
            gone = [said.text for said in before if said.number not in holds]
            run.take_back([text for text in gone if text not in unread])
        if taken.event is not None:
            run.record_event(taken.event, **taken.data)
        at_gate = isinstance(message, Pause | Resume) and control.open_gates
        if at_gate and workflow.patched(PAUSE_LISTED):
            # A run that waits for people tells the server nothing more until they answer.
            run.sync_visibility()


def _readable(verb: str, given: Sequence[object]) -> AnyMessage:
    message = forms.read_message(verb, given)
    if isinstance(message, Misread):
        raise _refused(verb, message.why)
    return message


def _refused(verb: str, why: str) -> ApplicationError:
    return ApplicationError(f"{verb}: {why}", type="not_allowed", non_retryable=True)


def _update_id() -> str | None:
    info = workflow.current_update_info()
    return None if info is None else info.id
