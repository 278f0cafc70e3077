"""Asking people: gates, their answers and deadlines, and the notices that a gate waits.

Every durable wait here also wakes for a stop, for the deadline, and for a roll; a run that
continued as new while it waited comes back to the same gate.
"""

from abc import abstractmethod

from temporalio import workflow

from perdure.activities.run_lifecycle import Notify
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run import gate_lifecycle as rules
from perdure.domain.run.gates import WAIT, Gate, GateKind
from perdure.domain.run.notifications import NotifyRequest
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.metrics import record_gate_wait
from perdure.workflows.engine.take_over import TakingOver

NOTICES_AT_S = (0.0, 3_600.0, 86_400.0)


class HumanInput(TakingOver):
    """Adds gates to a loop."""

    @abstractmethod
    def sync_visibility(self) -> None:
        """Bring search attributes and panel up to date."""

    @abstractmethod
    def continue_as_new_due(self) -> bool:
        """Whether the history has grown enough to continue as new."""

    @abstractmethod
    async def continue_as_new_if_due(self) -> None:
        """Continue as new when it is due."""

    async def ask(
        self,
        kind: GateKind,
        prompt: str,
        *,
        choices: tuple[str, ...] | None = None,
        free_text: bool = False,
        scores: tuple[str, ...] = (),
    ) -> Gate | None:
        """Ask people one thing and wait for the answer; None when the run must end first.

        A run that continued as new while it waited comes here again and finds its open gate.
        """
        asking = self.core.asking.get(kind)
        if asking is None:
            asking = self.open_gate(
                kind, prompt, choices=choices, free_text=free_text, scores=scores
            ).id
            self.core.asking = {**self.core.asking, kind: asking}
        gate = await self.answered(asking)
        self.core.asking = {k: v for k, v in self.core.asking.items() if k != kind}
        return gate

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
    ) -> Gate:
        """Open a gate without waiting."""
        gate = rules.open_gate(
            self.core.control,
            kind=kind,
            prompt=prompt,
            now=workflow.now(),
            choices=choices,
            free_text=free_text,
            deadline=self.spec.gates.deadline(workflow.now()),
            on_expiry=self.spec.gates.on_expiry,
            args_hash=args_hash,
            subject=subject,
            details=details,
            scores=scores,
        )
        self.record_event("gate_opened", gate=gate.name, kind=kind, prompt=prompt[:200])
        return gate

    async def answered(self, *gate_ids: str) -> Gate | None:
        """Wait until one of the gates is answered; None when the run must end first."""
        self.set_step(None)
        self.sync_visibility()
        while True:
            await self._tell(gate_ids)
            for gate_id in gate_ids:
                gate = self.core.control.gates.get(gate_id)
                if gate is not None and not gate.open:
                    waited = workflow.now() - gate.opened_at
                    record_gate_wait(gate.kind, waited.total_seconds())
                    self.sync_visibility()
                    return gate
            if self.core.control.stop is not None or self.interruption is not None:
                return None
            await self.continue_as_new_if_due()
            await self._wait_for_answer(gate_ids)

    async def _wait_for_answer(self, gate_ids: tuple[str, ...]) -> None:
        control, waited = self.core.control, self._open_of(gate_ids)
        waits = [due for gate in waited for due in self._alarms(gate)]
        try:
            await workflow.wait_condition(
                lambda: (
                    any(not control.gates[gate.id].open for gate in waited)
                    or control.stop is not None
                    or self.interruption is not None
                    or self.continue_as_new_due()
                ),
                timeout=max(0.01, min(waits)) if waits else None,
                timeout_summary="remind people, or the gate's deadline",
            )
        except TimeoutError:
            for gate in rules.close_expired(control, now=workflow.now()):
                self.record_event("gate_answered", gate=gate.name, kind=gate.kind, by="deadline")

    def _open_of(self, gate_ids: tuple[str, ...]) -> list[Gate]:
        gates = self.core.control.gates
        return [gates[name] for name in gate_ids if name in gates and gates[name].open]

    def _alarms(self, gate: Gate) -> list[float]:
        """Seconds until something is to be done about a gate that nobody answers."""
        now = workflow.now()
        told = self.core.told.get(gate.id, 0)
        alarms: list[float] = []
        if gate.deadline is not None and gate.on_expiry != WAIT:
            alarms.append((gate.deadline - now).total_seconds())
        if self._notifies and told < len(NOTICES_AT_S):
            alarms.append(NOTICES_AT_S[told] - (now - gate.opened_at).total_seconds())
        return alarms

    @property
    def _notifies(self) -> bool:
        """The workers' word, for they send the notices; that of the door where they said none."""
        said = self.core.notifies
        return self.site.notifies if said is None else said

    async def _tell(self, gate_ids: tuple[str, ...]) -> None:
        """Send the notices that are due; each is sent once in the life of a gate."""
        if not self._notifies:
            return
        for gate in self._open_of(gate_ids):
            age = (workflow.now() - gate.opened_at).total_seconds()
            due = sum(1 for at in NOTICES_AT_S if at <= age)
            if due > self.core.told.get(gate.id, 0):
                self.core.told = {**self.core.told, gate.id: due}
                await self._notify(gate, reminder=due - 1)

    async def _notify(self, gate: Gate, *, reminder: int) -> None:
        activity_id = self.next_activity_id()
        handle = workflow.start_activity_method(
            Notify.notify,
            NotifyRequest(
                run=self.run_id,
                gate=gate.name,
                kind=gate.kind,
                prompt=gate.prompt[:1_000],
                choices=gate.choices,
                reminder=reminder,
            ),
            **activity_options.notice(
                self.site,
                activity_id=activity_id,
                summary=f"notify people of {gate.kind} {gate.name}",
            ),
        )
        await self.await_step(handle, activity_id=activity_id)
