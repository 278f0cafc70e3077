"""The handlers that every loop inherits: control verbs as updates and as signals, and queries.

Each handler accepts any values. If a signal did not match a typed signature, the SDK would fail the
task, and retry it for ever. This is the loops' only base class, since Temporal needs handlers on
the workflow class itself; `Control` does the work.
"""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue

from perdure.domain.run.events import Event
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Receipt
from perdure.domain.run.result import SpendReport
from perdure.domain.run.status import RunStatus
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.child_questions import QUESTIONS_SIGNAL
from perdure.workflows.engine.control import Control
from perdure.workflows.engine.input import Given


class ControlHandlers(Given):
    """Signals, updates and queries of a run."""

    control: Control

    @workflow.signal(name="pause", description='Start no new step. {"by": "me"}')
    def on_pause(self, *given: object) -> None:
        """Handle the signal: start no new step."""
        self.control.on_signal("pause", given)

    @workflow.signal(name="resume", description='Go on after a pause. {"by": "me"}')
    def on_resume(self, *given: object) -> None:
        """Handle the signal: continue after `pause`."""
        self.control.on_signal("resume", given)

    @workflow.signal(
        name="stop", description='End with the best result. {"mode": "graceful" or "now"}'
    )
    def on_stop(self, *given: object) -> None:
        """Handle the signal: end with the best result."""
        self.control.on_signal("stop", given)

    @workflow.signal(name="escalate", description='Ask a person to look. {"note": "why"}')
    def on_escalate(self, *given: object) -> None:
        """Handle the signal: ask a person at the next checkpoint."""
        self.control.on_signal("escalate", given)

    @workflow.signal(
        name="answer", description='Answer a gate. {"gate": "g1", "choice": "continue"}'
    )
    def on_answer(self, *given: object) -> None:
        """Handle the signal: answer a gate."""
        self.control.on_signal("answer", given)

    @workflow.signal(name="approve", description='Approve a call by its gate. "g1-7f3a"')
    def on_approve(self, *given: object) -> None:
        """Short form of `answer`, for one field of the Web UI."""
        self.control.on_signal("approve", given)

    @workflow.signal(name="deny", description='Deny a call by its gate. "g1-7f3a"')
    def on_deny(self, *given: object) -> None:
        """Short form of `answer`, for one field of the Web UI."""
        self.control.on_signal("deny", given)

    @workflow.signal(
        name="amend", description='Change limits or guide. {"budget": {"cost_usd": 3}}'
    )
    def on_amend(self, *given: object) -> None:
        """Handle the signal: change limits, rubric or guidance."""
        self.control.on_signal("amend", given)

    @workflow.signal(name="add_input", description='Say something. {"text": "also mention …"}')
    def on_add_input(self, *given: object) -> None:
        """Handle the signal: pass an input to the next prompt."""
        self.control.on_signal("add_input", given)

    @workflow.signal(name="retry", description='Try a blocked step again. {"note": "why"}')
    def on_retry(self, *given: object) -> None:
        """Handle the signal: try a blocked step again. `perdure retry` restarts failed runs."""
        self.control.on_signal("retry", given)

    # Raw, since nobody reads it: a value that cannot be decoded must not fail the task.
    @workflow.signal(
        dynamic=True, description="Any other name: type it as Custom. It is noted as refused."
    )
    def on_unknown(self, name: str, given: Sequence[RawValue]) -> None:
        """Record that an unknown signal had no effect."""
        del given
        self.control.on_unknown(name)

    @workflow.signal(
        name=QUESTIONS_SIGNAL, description="Sent by the runs below: what waits for a person."
    )
    def on_questions_below(self, *given: object) -> None:
        """Replace a child's reported questions by its newest report."""
        self.control.on_questions_below(given)

    @workflow.update(name="pause", description="Start no new step.")
    def do_pause(self, *given: object) -> Receipt:
        """Handle the update, with a receipt: start no new step."""
        return self.control.on_update("pause", given)

    @do_pause.validator
    def _check_pause(self, *given: object) -> None:
        self.control.validate("pause", given)

    @workflow.update(name="resume", description="Go on after a pause.")
    def do_resume(self, *given: object) -> Receipt:
        """Handle the update, with a receipt: continue after `pause`."""
        return self.control.on_update("resume", given)

    @do_resume.validator
    def _check_resume(self, *given: object) -> None:
        self.control.validate("resume", given)

    @workflow.update(name="stop", description="End with the best result.")
    def do_stop(self, *given: object) -> Receipt:
        """Handle the update, with a receipt: end with the best result."""
        return self.control.on_update("stop", given)

    @do_stop.validator
    def _check_stop(self, *given: object) -> None:
        self.control.validate("stop", given)

    @workflow.update(name="escalate", description="Ask a person to look.")
    def do_escalate(self, *given: object) -> Receipt:
        """Handle the update, with a receipt: ask a person at the next checkpoint."""
        return self.control.on_update("escalate", given)

    @do_escalate.validator
    def _check_escalate(self, *given: object) -> None:
        self.control.validate("escalate", given)

    @workflow.update(name="answer", description="Answer a gate.")
    def do_answer(self, *given: object) -> Receipt:
        """Handle the update, with a receipt: answer a gate."""
        return self.control.on_update("answer", given)

    @do_answer.validator
    def _check_answer(self, *given: object) -> None:
        self.control.validate("answer", given)

    @workflow.update(name="amend", description="Change limits, the rubric, or give guidance.")
    async def do_amend(self, *given: object) -> Receipt:
        """Handle the update, with a receipt once a retry and a fork would begin with the change."""
        receipt = self.control.on_update("amend", given)
        await self.control.wait_until_terms_stored()
        return receipt

    @do_amend.validator
    def _check_amend(self, *given: object) -> None:
        self.control.validate("amend", given)

    @workflow.update(name="add_input", description="Say something to the model.")
    def do_add_input(self, *given: object) -> Receipt:
        """Handle the update, with a receipt: pass an input to the next prompt."""
        return self.control.on_update("add_input", given)

    @do_add_input.validator
    def _check_add_input(self, *given: object) -> None:
        self.control.validate("add_input", given)

    @workflow.update(name="retry", description="Try a blocked step again.")
    def do_retry(self, *given: object) -> Receipt:
        """Handle the update: try a blocked step again. `perdure retry` restarts failed runs."""
        return self.control.on_update("retry", given)

    @do_retry.validator
    def _check_retry(self, *given: object) -> None:
        self.control.validate("retry", given)

    @workflow.query(name="status", description="One look at the run.")
    def see_status(self, *_: object) -> RunStatus:
        """The status shape that every interface shows."""
        return self.control.run.status()

    @workflow.query(name="history", description="The newest iteration records.")
    def see_history(self, *_: object) -> list[IterationRecord]:
        """The newest twenty records; the store has all."""
        return self.control.run.state.records

    @workflow.query(name="costs", description="Spend by phase and model.")
    def see_costs(self, *_: object) -> SpendReport:
        """Spend so far."""
        return self.control.costs()

    @workflow.query(name="gates", description="Questions that wait for a person.")
    def see_gates(self, *_: object) -> list[Gate]:
        """Open gates, oldest first."""
        return list(self.control.run.state.control.open_gates)

    @workflow.query(name="events", description='Events after a number. {"since": 0}')
    def see_events(self, *given: object) -> list[Event]:
        """The newest events after `since`."""
        return self.control.events(given)
