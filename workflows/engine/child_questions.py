"""Questions of child runs: received from children, passed to the parent, answered from here.

A run shows the questions of its children in its own status, search attributes and current details,
so that whoever looks at the root sees them all. A separate task passes them upwards while the run
works. If a foreign workflow started the root and answers its gates, the root passes them on too.
"""

from collections.abc import Sequence
from functools import cached_property

from temporalio import workflow

from perdure.domain.foundation.names import ANSWERED_ABOVE, BETWEEN_RUNS
from perdure.domain.run import child_questions
from perdure.domain.run import control as rules
from perdure.domain.run import message_forms as forms
from perdure.domain.run.child_questions import Forwarded, Question, QuestionsBelow
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.messages import Answer, AnyMessage
from perdure.workflows.engine.other_workflows import send
from perdure.workflows.engine.run import AnyRun

QUESTIONS_SIGNAL = BETWEEN_RUNS[0]


class ChildQuestions:
    """Passes questions of child runs up, and answers down."""

    signal = QUESTIONS_SIGNAL

    def __init__(self, run: AnyRun) -> None:
        self.run = run

    def hear(self, given: Sequence[object]) -> str | None:
        """Replace the questions of a child by its newest list; returns why it was refused."""
        message = forms.read_form(QUESTIONS_SIGNAL, QuestionsBelow, given)
        if isinstance(message, Misread):
            return message.why
        state = self.run.state
        if why := child_questions.report_refusal(message, state.children):
            return why
        # The child always sends its whole list, so a lost or repeated signal leaves nothing stale
        # behind.
        state.below = {**state.below, message.run: message.questions}
        self.run.panel_is_stale = True
        return None

    def meant_by(self, message: AnyMessage) -> tuple[Question, ...]:
        """The child questions that an answer could mean; a gate of this run comes first."""
        state = self.run.state
        if not isinstance(message, Answer) or rules.gate_named(state.control, message.gate):
            return ()
        return child_questions.questions_by_name(state.asked_below, message.gate)

    def refusal(self, message: AnyMessage) -> str | None:
        """Why an answer to a question below is not taken."""
        if not isinstance(message, Answer):
            return None
        return child_questions.answer_below_refusal(self.meant_by(message), message)

    def forward(self, message: AnyMessage, *, request_id: str | None) -> None:
        """Queue an answer for the run that asked."""
        if not isinstance(message, Answer):
            return
        found, state = self.meant_by(message), self.run.state
        name = message.request_id or request_id
        # Remembered here too: a retried request is answered by this run without another signal.
        rules.remember(state.control, message, request_id)
        named = {"gate": found[0].gate, "request_id": name}
        answer = message.model_copy(update=named)
        state.forward = [*state.forward, Forwarded(run=found[0].run, answer=answer)]

    async def tell_above(self) -> None:
        """Tell the run above what is asked here and below whenever it changes; pass answers on."""
        state = self.run.state
        while True:
            # A task of its own, so that no step of the loop ever waits for another workflow to take
            # a signal.
            await workflow.wait_condition(lambda: bool(state.forward) or self._is_news)
            if self._is_news:
                await self._tell_parent(self._asked_now)
            elif state.forward:
                first = state.forward[0]
                await send(first.run, "answer", first.answer)
                # Removed only now. If the run continued as new before, it sends the answer again,
                # and the child counts it once.
                state.forward = state.forward[1:]

    async def _tell_parent(self, asked: tuple[Question, ...]) -> None:
        self.run.sync_visibility()
        # The root has nobody to tell; its own status and attributes are what people read.
        if self.run.site.parent is not None:
            message = QuestionsBelow(run=self.run.id, questions=asked)
            await send(self.run.site.parent, QUESTIONS_SIGNAL, message)
        elif self._outside is not None:
            state = self.run.state
            told = child_questions.gates_for_outside(
                self.run.id, state.control.open_gates, state.asked_below
            )
            # As plain JSON: that workflow may have another data converter.
            await send(self._outside, QUESTIONS_SIGNAL, told.model_dump(mode="json"))
        self.run.state.told_above = [question.key for question in asked]

    @property
    def _asked_now(self) -> tuple[Question, ...]:
        state = self.run.state
        above = self.run.site.parent or self._outside
        gates = state.control.open_gates if above is not None else ()
        return child_questions.questions_for_parent(self.run.id, gates, state.asked_below)

    @cached_property
    def _outside(self) -> str | None:
        """The foreign workflow that awaits this run and answers its gates, if any."""
        above = workflow.info().parent
        if above is None or workflow.memo_value(ANSWERED_ABOVE, default=False) is not True:
            return None
        return above.workflow_id

    @property
    def _is_news(self) -> bool:
        if self.run.state.control.ended:
            return False  # the run above hears of the end
        return self.run.state.told_above != [question.key for question in self._asked_now]
