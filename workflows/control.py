"""The control surface that every loop inherits: verbs as updates and as signals, and queries.

Handlers are synchronous: they ask the domain, change state, and return. A rejected update leaves
no history; a signal that is not allowed is noted in the status and never fails the run.
"""

from abc import abstractmethod

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.domain import control as rules
from perdure.domain.editing import edit_refusal, edited
from perdure.domain.events import Event, EventType
from perdure.domain.gates import Gate
from perdure.domain.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    EventsQuery,
    Pause,
    Receipt,
    Resume,
    Retry,
    Stop,
)
from perdure.domain.names import MEMO_GOAL_CHARACTERS
from perdure.domain.result import IterationRecord, SpendReport
from perdure.domain.run import CommonSpec, Site
from perdure.domain.state import CoreState
from perdure.domain.status import RunStatus, StageNow
from perdure.domain.views import spend_report, status_of


class Controlled:
    """State and handlers of a steered run; `Loop` adds how it moves."""

    takes_input = True
    kind: str
    run_id: str
    spec: CommonSpec
    site: Site
    core: CoreState
    handled: int = 0

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

    def note(self, event: EventType, **data: object) -> None:
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

    def _validate(self, verb: str, message: AnyMessage) -> None:
        if rules.seen(self.core.control, message, _update_id()):
            return
        why = self._refusal(message)
        if why is not None:
            raise ApplicationError(f"{verb}: {why}", type="not_allowed", non_retryable=True)

    def _receive(self, verb: str, message: AnyMessage) -> Receipt:
        """Apply a validated update; a repeated request id has no second effect."""
        self.handled += 1
        if rules.seen(self.core.control, message, _update_id()):
            return Receipt(verb=verb, lifecycle=self.core.control.lifecycle, note="had its effect")
        self._take(message, request_id=_update_id())
        return Receipt(verb=verb, lifecycle=self.core.control.lifecycle)

    def _hear(self, verb: str, message: AnyMessage) -> None:
        """Apply a signal where it is allowed, else note why not."""
        self.handled += 1
        if rules.seen(self.core.control, message):
            return
        why = self._refusal(message)
        if why is None:
            self._take(message, request_id=None)
        else:
            rules.note_refused(self.core.control, verb, why)

    def _take(self, message: AnyMessage, *, request_id: str | None) -> None:
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
        if taken.event is not None:
            self.note(taken.event, **taken.data)

    def edit(self, message: Amend) -> None:
        """Act on an edited specification; a kind whose prompts hold the old goal says the new."""
        if message.goal is not None:
            workflow.upsert_memo({"goal": " ".join(message.goal.split())[:MEMO_GOAL_CHARACTERS]})

    @workflow.signal(name="pause", description='Start no new step. {"by": "me"}')
    def on_pause(self, message: Pause) -> None:
        """Signal form of `pause`."""
        self._hear("pause", message)

    @workflow.signal(name="resume", description='Go on after a pause. {"by": "me"}')
    def on_resume(self, message: Resume) -> None:
        """Signal form of `resume`."""
        self._hear("resume", message)

    @workflow.signal(
        name="stop", description='End with the best result. {"mode": "graceful" or "now"}'
    )
    def on_stop(self, message: Stop) -> None:
        """Signal form of `stop`."""
        self._hear("stop", message)

    @workflow.signal(name="escalate", description='Ask a person to look. {"note": "why"}')
    def on_escalate(self, message: Escalate) -> None:
        """Signal form of `escalate`."""
        self._hear("escalate", message)

    @workflow.signal(
        name="answer", description='Answer a gate. {"gate": "g1", "choice": "continue"}'
    )
    def on_answer(self, message: Answer) -> None:
        """Signal form of `answer`."""
        self._hear("answer", message)

    @workflow.signal(
        name="amend", description='Change limits or guide. {"budget": {"cost_usd": 3}}'
    )
    def on_amend(self, message: Amend) -> None:
        """Signal form of `amend`."""
        self._hear("amend", message)

    @workflow.signal(name="add_input", description='Say something. {"text": "also mention …"}')
    def on_add_input(self, message: AddInput) -> None:
        """Signal form of `add_input`."""
        self._hear("add_input", message)

    @workflow.signal(name="retry", description='Try a blocked step again. {"note": "why"}')
    def on_retry(self, message: Retry) -> None:
        """Signal form of `retry`; a failed run is retried through a door."""
        self._hear("retry", message)

    @workflow.update(name="pause", description="Start no new step.")
    def do_pause(self, message: Pause) -> Receipt:
        """Update form of `pause`."""
        return self._receive("pause", message)

    @do_pause.validator
    def _check_pause(self, message: Pause) -> None:
        self._validate("pause", message)

    @workflow.update(name="resume", description="Go on after a pause.")
    def do_resume(self, message: Resume) -> Receipt:
        """Update form of `resume`."""
        return self._receive("resume", message)

    @do_resume.validator
    def _check_resume(self, message: Resume) -> None:
        self._validate("resume", message)

    @workflow.update(name="stop", description="End with the best result.")
    def do_stop(self, message: Stop) -> Receipt:
        """Update form of `stop`."""
        return self._receive("stop", message)

    @do_stop.validator
    def _check_stop(self, message: Stop) -> None:
        self._validate("stop", message)

    @workflow.update(name="escalate", description="Ask a person to look.")
    def do_escalate(self, message: Escalate) -> Receipt:
        """Update form of `escalate`."""
        return self._receive("escalate", message)

    @do_escalate.validator
    def _check_escalate(self, message: Escalate) -> None:
        self._validate("escalate", message)

    @workflow.update(name="answer", description="Answer a gate.")
    def do_answer(self, message: Answer) -> Receipt:
        """Update form of `answer`."""
        return self._receive("answer", message)

    @do_answer.validator
    def _check_answer(self, message: Answer) -> None:
        self._validate("answer", message)

    @workflow.update(name="amend", description="Change limits, the rubric, or give guidance.")
    def do_amend(self, message: Amend) -> Receipt:
        """Update form of `amend`."""
        return self._receive("amend", message)

    @do_amend.validator
    def _check_amend(self, message: Amend) -> None:
        self._validate("amend", message)

    @workflow.update(name="add_input", description="Say something to the model.")
    def do_add_input(self, message: AddInput) -> Receipt:
        """Update form of `add_input`."""
        return self._receive("add_input", message)

    @do_add_input.validator
    def _check_add_input(self, message: AddInput) -> None:
        self._validate("add_input", message)

    @workflow.update(name="retry", description="Try a blocked step again.")
    def do_retry(self, message: Retry) -> Receipt:
        """Update form of `retry`; a failed run is retried through a door."""
        return self._receive("retry", message)

    @do_retry.validator
    def _check_retry(self, message: Retry) -> None:
        self._validate("retry", message)

    @workflow.query(name="status", description="One look at the run.")
    def see_status(self) -> RunStatus:
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
    def see_history(self) -> list[IterationRecord]:
        """The newest twenty records; the store has all."""
        return self.core.records

    @workflow.query(name="costs", description="Spend by phase and model.")
    def see_costs(self) -> SpendReport:
        """Spend so far."""
        return spend_report(self.core, wall_time=self.wall_time)

    @workflow.query(name="gates", description="Questions that wait for a person.")
    def see_gates(self) -> list[Gate]:
        """Open gates, oldest first."""
        return list(self.core.control.open_gates)

    @workflow.query(name="events", description='Events after a number. {"since": 0}')
    def see_events(self, query: EventsQuery) -> list[Event]:
        """The newest events after `since`."""
        return list(self.core.ring.since(query.since))


def _update_id() -> str | None:
    info = workflow.current_update_info()
    return None if info is None else info.id
