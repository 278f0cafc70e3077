"""The control surface that every loop inherits: verbs as updates and as signals, and queries.

Handlers are synchronous: they ask the domain, change state, and return. They take whatever values
were sent, because the SDK fails the task, again and again, when a signal's do not fit a signature.
A rejected update leaves no history; a signal that cannot be read, or is not allowed, is noted in
the status and never fails the run.
"""

from abc import abstractmethod
from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from perdure.domain.foundation.names import MEMO_GOAL_CHARACTERS
from perdure.domain.run import control as rules
from perdure.domain.run import message_forms as forms
from perdure.domain.run.amend_spec import edit_refusal, edited
from perdure.domain.run.events import Event, EventType
from perdure.domain.run.gates import Gate
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.message_limits import flooded
from perdure.domain.run.messages import Amend, AnyMessage, EventsQuery, Receipt
from perdure.domain.run.result import SpendReport
from perdure.domain.run.spec import CommonSpec, Placement
from perdure.domain.run.state import LoopState
from perdure.domain.run.status import RunStatus, StageNow
from perdure.domain.run.status_views import spend_report, status_of
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine.input import Given


class ControlHandlers(Given):
    """State and handlers of a steered run; `Loop` adds how it moves."""

    takes_input = True
    kind: str
    run_id: str
    spec: CommonSpec
    site: Placement
    core: LoopState
    handled: int = 0
    told: bool = False  # something was said since people were last shown how the run stands

    @property
    def wall_time(self) -> float:
        """Seconds since the run began, over all its executions."""
        return (workflow.now() - self.core.started_at).total_seconds()

    @property
    @abstractmethod
    def iteration(self) -> int:
        """The iteration in progress; 0 before the first."""

    @property
    @abstractmethod
    def iteration_limit(self) -> int | None:
        """The loop's own limit."""

    def record_event(self, event: EventType, **data: object) -> None:
        """Put an event on the ring."""
        self.core.ring = self.core.ring.note(
            event,
            at=workflow.now(),
            run=self.run_id,
            iteration=self.iteration,
            data={name: value for name, value in data.items() if value is not None},  # type: ignore[misc]
        )

    def _refusal(self, message: AnyMessage) -> str | None:
        if isinstance(message, Amend) and message.edits:
            completed = self.core.record_count
            if why := edit_refusal(self.spec, message, completed=completed):
                return why
        return rules.refuse(
            self.core.control,
            message,
            budget=self.core.budget,
            wall_time=self.wall_time,
            inputs_allowed=self.takes_input,
            rubric_allowed=self.kind == "refine",
        )

    def _validate(self, verb: str, given: Sequence[object]) -> None:
        message = _readable(verb, given)
        if rules.seen(self.core.control, message, _update_id()):
            return
        why = flooded(verb, handled=self.handled) or self._refusal(message)
        if why is not None:
            raise _refused(verb, why)

    def _on_update(self, verb: str, given: Sequence[object]) -> Receipt:
        """Apply a validated update; a repeated request id has no second effect."""
        message = _readable(verb, given)
        self.handled += 1
        self.told = True
        if rules.seen(self.core.control, message, _update_id()):
            return Receipt(verb=verb, lifecycle=self.core.control.lifecycle, note="had its effect")
        self._apply_verb(message, request_id=_update_id())
        return Receipt(verb=verb, lifecycle=self.core.control.lifecycle)

    def _on_signal(self, verb: str, given: Sequence[object]) -> None:
        """Apply a signal where it is allowed, else note why not; nothing sent fails a task."""
        self.handled += 1
        message = forms.read_message(verb, given)
        if isinstance(message, Misread):
            self._note_refused(verb, message.why)
            return
        try:
            self._apply(verb, message)
        except Exception as error:
            # A task that fails here fails for ever: the signal stays in the history.
            self._note_refused(verb, f"it could not be applied: {error}")

    def _apply(self, verb: str, message: AnyMessage) -> None:
        if rules.seen(self.core.control, message):
            return
        why = self._refusal(message)
        if why is not None:
            self._note_refused(verb, why)
            return
        self._apply_verb(message, request_id=None)
        self.told = True

    def _note_refused(self, verb: str, why: str) -> None:
        rules.note_refused(self.core.control, verb, why)
        self.told = True

    def _apply_verb(self, message: AnyMessage, *, request_id: str | None) -> None:
        before, unread = self.core.control.standing, self.core.control.unread
        taken = rules.take(
            self.core.control,
            message,
            now=workflow.now(),
            budget=self.core.budget,
            wall_time=self.wall_time,
            request_id=request_id,
        )
        if taken.budget is not None:
            self.core.budget = taken.budget
        if isinstance(message, Amend) and message.edits:
            self.spec = edited(self.spec, message)
            self.edit(message)
        if isinstance(message, Amend) and (message.remove or message.remove_texts):
            holds = {said.number for said in self.core.control.standing}
            gone = [said.text for said in before if said.number not in holds]
            self.take_back([text for text in gone if text not in unread])
        if taken.event is not None:
            self.record_event(taken.event, **taken.data)

    def take_back(self, texts: Sequence[str]) -> None:
        """Act on what no longer holds; prompts that are made anew simply leave it out."""

    def edit(self, message: Amend) -> None:
        """Act on an edited specification; a kind whose prompts hold the old goal says the new."""
        if message.goal is not None:
            workflow.upsert_memo({"goal": " ".join(message.goal.split())[:MEMO_GOAL_CHARACTERS]})

    @workflow.signal(name="pause", description='Start no new step. {"by": "me"}')
    def on_pause(self, *given: object) -> None:
        """Signal form of `pause`."""
        self._on_signal("pause", given)

    @workflow.signal(name="resume", description='Go on after a pause. {"by": "me"}')
    def on_resume(self, *given: object) -> None:
        """Signal form of `resume`."""
        self._on_signal("resume", given)

    @workflow.signal(
        name="stop", description='End with the best result. {"mode": "graceful" or "now"}'
    )
    def on_stop(self, *given: object) -> None:
        """Signal form of `stop`."""
        self._on_signal("stop", given)

    @workflow.signal(name="escalate", description='Ask a person to look. {"note": "why"}')
    def on_escalate(self, *given: object) -> None:
        """Signal form of `escalate`."""
        self._on_signal("escalate", given)

    @workflow.signal(
        name="answer", description='Answer a gate. {"gate": "g1", "choice": "continue"}'
    )
    def on_answer(self, *given: object) -> None:
        """Signal form of `answer`."""
        self._on_signal("answer", given)

    @workflow.signal(name="approve", description='Approve a call by its gate. "g1-7f3a"')
    def on_approve(self, *given: object) -> None:
        """Short form of `answer`, for one field of the Web UI."""
        self._on_signal("approve", given)

    @workflow.signal(name="deny", description='Deny a call by its gate. "g1-7f3a"')
    def on_deny(self, *given: object) -> None:
        """Short form of `answer`, for one field of the Web UI."""
        self._on_signal("deny", given)

    @workflow.signal(
        name="amend", description='Change limits or guide. {"budget": {"cost_usd": 3}}'
    )
    def on_amend(self, *given: object) -> None:
        """Signal form of `amend`."""
        self._on_signal("amend", given)

    @workflow.signal(name="add_input", description='Say something. {"text": "also mention …"}')
    def on_add_input(self, *given: object) -> None:
        """Signal form of `add_input`."""
        self._on_signal("add_input", given)

    @workflow.signal(name="retry", description='Try a blocked step again. {"note": "why"}')
    def on_retry(self, *given: object) -> None:
        """Signal form of `retry`; a failed run is retried through a door."""
        self._on_signal("retry", given)

    @workflow.signal(
        dynamic=True, description="Any other name: type it as Custom. It is noted as refused."
    )
    def on_unknown(self, name: str, given: Sequence[RawValue]) -> None:
        """Say of a signal that no run knows that it had no effect."""
        del given
        self.handled += 1
        self._note_refused(forms.named(name), forms.unknown_verb(name))

    @workflow.update(name="pause", description="Start no new step.")
    def do_pause(self, *given: object) -> Receipt:
        """Update form of `pause`."""
        return self._on_update("pause", given)

    @do_pause.validator
    def _check_pause(self, *given: object) -> None:
        self._validate("pause", given)

    @workflow.update(name="resume", description="Go on after a pause.")
    def do_resume(self, *given: object) -> Receipt:
        """Update form of `resume`."""
        return self._on_update("resume", given)

    @do_resume.validator
    def _check_resume(self, *given: object) -> None:
        self._validate("resume", given)

    @workflow.update(name="stop", description="End with the best result.")
    def do_stop(self, *given: object) -> Receipt:
        """Update form of `stop`."""
        return self._on_update("stop", given)

    @do_stop.validator
    def _check_stop(self, *given: object) -> None:
        self._validate("stop", given)

    @workflow.update(name="escalate", description="Ask a person to look.")
    def do_escalate(self, *given: object) -> Receipt:
        """Update form of `escalate`."""
        return self._on_update("escalate", given)

    @do_escalate.validator
    def _check_escalate(self, *given: object) -> None:
        self._validate("escalate", given)

    @workflow.update(name="answer", description="Answer a gate.")
    def do_answer(self, *given: object) -> Receipt:
        """Update form of `answer`."""
        return self._on_update("answer", given)

    @do_answer.validator
    def _check_answer(self, *given: object) -> None:
        self._validate("answer", given)

    @workflow.update(name="amend", description="Change limits, the rubric, or give guidance.")
    def do_amend(self, *given: object) -> Receipt:
        """Update form of `amend`."""
        return self._on_update("amend", given)

    @do_amend.validator
    def _check_amend(self, *given: object) -> None:
        self._validate("amend", given)

    @workflow.update(name="add_input", description="Say something to the model.")
    def do_add_input(self, *given: object) -> Receipt:
        """Update form of `add_input`."""
        return self._on_update("add_input", given)

    @do_add_input.validator
    def _check_add_input(self, *given: object) -> None:
        self._validate("add_input", given)

    @workflow.update(name="retry", description="Try a blocked step again.")
    def do_retry(self, *given: object) -> Receipt:
        """Update form of `retry`; a failed run is retried through a door."""
        return self._on_update("retry", given)

    @do_retry.validator
    def _check_retry(self, *given: object) -> None:
        self._validate("retry", given)

    @workflow.query(name="status", description="One look at the run.")
    def see_status(self, *_: object) -> RunStatus:
        """The status shape that every door shows."""
        return status_of(
            self.core,
            run=self.run_id,
            kind=self.kind,
            spec=self.spec,
            now=workflow.now(),
            iteration=self.iteration,
            limit=self.iteration_limit,
            parts=self.parts(),
            plan=self.plan_lines(),
            stage=self.stage_now(),
        )

    def stage_now(self) -> StageNow | None:
        """The stage at work, in a run of roles."""
        return None

    def parts(self) -> tuple[tuple[str, bool, str], ...]:
        """Parts of the output with whether they pass; empty where there are none."""
        return ()

    def plan_lines(self) -> tuple[str, ...]:
        """The plan of the run, one line a step; empty where there is none."""
        return ()

    @workflow.query(name="history", description="The newest iteration records.")
    def see_history(self, *_: object) -> list[IterationRecord]:
        """The newest twenty records; the store has all."""
        return self.core.records

    @workflow.query(name="costs", description="Spend by phase and model.")
    def see_costs(self, *_: object) -> SpendReport:
        """Spend so far."""
        return spend_report(self.core, wall_time=self.wall_time)

    @workflow.query(name="gates", description="Questions that wait for a person.")
    def see_gates(self, *_: object) -> list[Gate]:
        """Open gates, oldest first."""
        return list(self.core.control.open_gates)

    @workflow.query(name="events", description='Events after a number. {"since": 0}')
    def see_events(self, *given: object) -> list[Event]:
        """The newest events after `since`."""
        query = forms.read_form("events", EventsQuery, given)
        if isinstance(query, Misread):
            raise _refused("events", query.why)
        return list(self.core.ring.since(query.since))


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
