"""Questions of runs below: heard from children, told to the run above, answered from here.

What a run's children ask stands in its own status, attributes and current details, so that whoever
looks at the root sees it. A task of its own tells it upwards, beside whatever the run does; a
run above that has ended needs to hear of nothing.
"""

from abc import abstractmethod

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.domain.foundation.names import BETWEEN_RUNS
from perdure.domain.run import child_questions
from perdure.domain.run import control as rules
from perdure.domain.run import message_forms as forms
from perdure.domain.run.child_questions import Forwarded, Question, QuestionsBelow
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.messages import Answer, AnyMessage
from perdure.workflows.engine.handlers import ControlHandlers

TOLD = BETWEEN_RUNS[0]


class ChildQuestions(ControlHandlers):
    """Adds questions of children to the control surface."""

    @abstractmethod
    def sync_visibility(self) -> None:
        """Bring search attributes and panel up to date."""

    @workflow.signal(name=TOLD, description="Sent by the runs below: what waits for a person.")
    def on_questions_below(self, *given: object) -> None:
        """What a child asks now, in place of what it told before."""
        self.handled += 1
        message = forms.read_form(TOLD, QuestionsBelow, given)
        if isinstance(message, Misread):
            self._note_refused(TOLD, message.why)
        elif why := child_questions.unheard(message, self.core.children):
            self._note_refused(TOLD, why)
        else:
            self.core.below = {**self.core.below, message.run: message.questions}
            self.told = True

    def _asked_below(self, message: AnyMessage) -> tuple[Question, ...]:
        """The questions below that an answer means; a gate of this run comes first."""
        if not isinstance(message, Answer) or rules.gate_named(self.core.control, message.gate):
            return ()
        return child_questions.meant(self.core.asked_below, message.gate)

    def _refusal(self, message: AnyMessage) -> str | None:
        found = self._asked_below(message)
        if found and isinstance(message, Answer) and not self.core.control.ended:
            return child_questions.refused_below(found, message)
        return super()._refusal(message)

    def _apply_verb(self, message: AnyMessage, *, request_id: str | None) -> None:
        found = self._asked_below(message)
        if not found or not isinstance(message, Answer):
            super()._apply_verb(message, request_id=request_id)
            return
        name = message.request_id or request_id
        rules.remember(self.core.control, name)
        named = {"gate": found[0].gate, "request_id": name}
        answer = message.model_copy(update=named)
        self.core.forward = [*self.core.forward, Forwarded(run=found[0].run, answer=answer)]

    async def tell_above(self) -> None:
        """Tell the run above what is asked here and below whenever it changes; pass answers on."""
        while True:
            await workflow.wait_condition(lambda: bool(self.core.forward) or self._is_news)
            if self._is_news:
                await self._tell_parent(self._asked_now)
            elif self.core.forward:
                first = self.core.forward[0]
                await _send(first.run, "answer", first.answer)
                # Only now: a run that continues as new meanwhile sends it again; it counts once.
                self.core.forward = self.core.forward[1:]

    async def _tell_parent(self, asked: tuple[Question, ...]) -> None:
        self.sync_visibility()
        if self.site.parent is not None:
            message = QuestionsBelow(run=self.run_id, questions=asked)
            await _send(self.site.parent, TOLD, message)
        self.core.told_above = [question.key for question in asked]

    @property
    def _asked_now(self) -> tuple[Question, ...]:
        core = self.core
        gates = core.control.open_gates if self.site.parent is not None else ()
        return child_questions.told_up(self.run_id, gates, core.asked_below)

    @property
    def _is_news(self) -> bool:
        if self.core.control.ended:
            return False  # the run above hears of the end
        return self.core.told_above != [question.key for question in self._asked_now]


async def _send(run: str, signal: str, message: QuestionsBelow | Answer) -> None:
    try:
        await workflow.get_external_workflow_handle(run).signal(signal, message)
    except FailureError:
        # It ended in this very moment: nobody asks, or nobody needs to know.
        return
