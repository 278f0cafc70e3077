"""Asking people: gates, their answers and deadlines, and notices about open gates.

Every wait here also wakes for a stop, for the deadline, and to continue as new. A run that
continued as new while it waited comes back to the same gate.
"""

from temporalio import workflow

from perdure.activities.run_lifecycle import Notify
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run import gate_lifecycle as rules
from perdure.domain.run.bookkeeping_messages import NotifyRequest
from perdure.domain.run.gates import END, WAIT, Gate, GateKind
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.metrics import record_gate_wait
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import StepRunner

NOTICES_AT_S = (0.0, 3_600.0, 86_400.0)
# Patch: amended while it asked, a run that continued as new there worked on with the question open.
CLOSES_SETTLED = "a question that an amendment settled is closed"
# Patch: people were called to a question that the end of the run closed at once.
CALLS_NOBODY = "a run that must end calls nobody"


class HumanInput:
    """Asks people and waits for their answers."""

    def __init__(self, run: AnyRun, steps: StepRunner, rolling: ContinueAsNew) -> None:
        self.run = run
        self.steps = steps
        self.rolling = rolling
        self._asked_here: set[str] = set()

    async def ask(
        self,
        kind: GateKind,
        prompt: str,
        *,
        choices: tuple[str, ...] | None = None,
        free_text: bool = False,
        scores: tuple[str, ...] = (),
        details: BlobRef | None = None,
        within_iteration: bool = False,
    ) -> Gate | None:
        """Ask one question and wait for the answer; None if the run must end first.

        A run that continued as new while it waited comes here again and finds its open gate.
        """
        # Keyed by kind, not by prompt: the prompt may be worded anew by a run that continued as
        # new.
        asking = self.run.state.asking.get(kind)
        if asking is None:
            asking = self.open_gate(
                kind,
                prompt,
                choices=choices,
                free_text=free_text,
                scores=scores,
                details=details,
                within_iteration=within_iteration,
            ).id
            self.run.state.asking = {**self.run.state.asking, kind: asking}
        self._asked_here.add(asking)
        gate = await self.wait_for_answer(asking)
        self._no_longer_asking(kind)
        return gate

    def _no_longer_asking(self, kind: GateKind) -> None:
        self.run.state.asking = {k: v for k, v in self.run.state.asking.items() if k != kind}

    def close_settled(self, kind: GateKind, *, choice: str, by: str) -> None:
        """Close a question that an earlier execution asked and this one need not ask.

        Left open, it would take an answer much later, and the next question would read that one.
        """
        control, asked = self.run.state.control, self.run.state.asking.get(kind)
        # What this execution asked is waited for, perhaps beside the step that calls this.
        if asked is None or asked in self._asked_here or not workflow.patched(CLOSES_SETTLED):
            return
        self._no_longer_asking(kind)
        rules.note_answer_read(control, asked)
        gate = rules.close_settled(control, asked, choice=choice, by=by, now=workflow.now())
        if gate is not None:
            self.run.record_event("gate_answered", gate=gate.name, kind=kind, answer=choice, by=by)
            self.run.sync_visibility()

    def open_gate(
        self,
        kind: GateKind,
        prompt: str,
        *,
        choices: tuple[str, ...] | None = None,
        free_text: bool = False,
        args_hash: str | None = None,
        subject: str | None = None,
        details: BlobRef | None = None,
        scores: tuple[str, ...] = (),
        within_iteration: bool = False,
    ) -> Gate:
        """Open a gate without waiting."""
        gate = rules.open_gate(
            self.run.state.control,
            kind=kind,
            prompt=prompt,
            now=workflow.now(),
            choices=choices,
            free_text=free_text,
            deadline=self.run.spec.gates.deadline(workflow.now()),
            on_expiry=self.run.spec.gates.on_expiry,
            args_hash=args_hash,
            subject=subject,
            details=details,
            scores=scores,
            within_iteration=within_iteration,
        )
        self.run.record_event("gate_opened", gate=gate.name, kind=kind, prompt=prompt[:200])
        return gate

    async def wait_for_answer(self, *gate_ids: str) -> Gate | None:
        """Wait until one of the gates is answered; None when the run must end first."""
        self.run.set_step(None)
        self.run.sync_visibility()
        while True:
            await self._tell(gate_ids)
            for gate_id in gate_ids:
                gate = self.run.state.control.gates.get(gate_id)
                if gate is not None and not gate.open:
                    waited = workflow.now() - gate.opened_at
                    record_gate_wait(gate.kind, waited.total_seconds())
                    rules.note_answer_read(self.run.state.control, gate_id)
                    self.run.sync_visibility()
                    return gate
            if self.run.state.control.stop is not None or self.run.interruption is not None:
                return None
            await self.rolling.continue_if_due()
            await self._wait_for_answer_or_alarm(gate_ids)

    async def _wait_for_answer_or_alarm(self, gate_ids: tuple[str, ...]) -> None:
        control, waited = self.run.state.control, self._open_of(gate_ids)
        waits = [due for gate in waited for due in self._alarms(gate)]
        try:
            await workflow.wait_condition(
                lambda: (
                    any(not control.gates[gate.id].open for gate in waited)
                    or control.stop is not None
                    or self.run.interruption is not None
                    # Days of waiting must not delay continue-as-new: messages that arrive
                    # meanwhile make the history grow too.
                    or self.rolling.due()
                ),
                # An alarm that is due already gives zero or less, which is no timer.
                timeout=max(0.01, min(waits)) if waits else None,
                timeout_summary="remind people, or the gate's deadline",
            )
        except TimeoutError:
            for gate in rules.close_expired(control, now=workflow.now()):
                self.run.record_event(
                    "gate_answered", gate=gate.name, kind=gate.kind, by="deadline"
                )

    def _open_of(self, gate_ids: tuple[str, ...]) -> list[Gate]:
        gates = self.run.state.control.gates
        return [gates[name] for name in gate_ids if name in gates and gates[name].open]

    def _alarms(self, gate: Gate) -> list[float]:
        """Seconds until an unanswered gate needs a reminder, or expires."""
        now = workflow.now()
        told = self.run.state.told.get(gate.id, 0)
        alarms: list[float] = []
        if gate.deadline is not None and gate.on_expiry != WAIT:
            alarms.append((gate.deadline - now).total_seconds())
        if self._notifies and told < len(NOTICES_AT_S):
            alarms.append(NOTICES_AT_S[told] - (now - gate.opened_at).total_seconds())
        return alarms

    @property
    def _notifies(self) -> bool:
        """Whether notices can be sent: workers send them, so their answer outranks the client's."""
        said = self.run.state.notifies
        return self.run.site.notifies if said is None else said

    async def _tell(self, gate_ids: tuple[str, ...]) -> None:
        """Send the notices that are due; each is sent once in the life of a gate."""
        if not self._notifies:
            return
        for gate in self._open_of(gate_ids):
            age = (workflow.now() - gate.opened_at).total_seconds()
            due = sum(1 for at in NOTICES_AT_S if at <= age)
            if due > self.run.state.told.get(gate.id, 0):
                if self.run.demanded_ending() is not None and workflow.patched(CALLS_NOBODY):
                    return
                # Noted before the notice is sent: a channel that fails must not make people hear it
                # twice.
                self.run.state.told = {**self.run.state.told, gate.id: due}
                await self._notify(gate, reminder=due - 1)

    async def _notify(self, gate: Gate, *, reminder: int) -> None:
        activity_id = self.run.next_activity_id()
        handle = workflow.start_activity_method(
            Notify.notify,
            NotifyRequest(
                run=self.run.id,
                gate=gate.name,
                kind=gate.kind,
                prompt=gate.prompt[:1_000],
                choices=gate.choices,
                reminder=reminder,
                opened_at=gate.opened_at,
            ),
            **activity_options.notice(
                self.run.site,
                activity_id=activity_id,
                summary=f"notify people of {gate.kind} {gate.name}",
            ),
        )
        await self.steps.await_step(handle, activity_id=activity_id)


def expired_to_end(gate: Gate) -> bool:
    """Whether nobody answered in time and the gate's policy is to end."""
    return gate.answer is not None and gate.answer.expired and gate.answer.choice == END
