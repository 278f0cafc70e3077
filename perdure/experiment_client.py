"""Experiments from Python: start one, follow it, read its report, steer it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from pydantic import JsonValue

from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.foundation.names import run_id
from perdure.domain.run.audit import Action
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.experiments.bounds import bounded
from perdure.interfaces.experiments.reading import read_report
from perdure.interfaces.experiments.report import ExperimentReport
from perdure.interfaces.gateways import ExperimentGateway
from perdure.interfaces.services import Services
from perdure.submission.experiments import (
    experiment_of,
    load_experiment,
    more_entries,
    stored_plan,
)
from perdure.submission.types import Surroundings

POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiments:
    """The experiments of an installation; `Client.experiments` is one."""

    services: Services
    surroundings: Surroundings
    by: str

    async def start(
        self, experiment: str | Mapping[str, JsonValue], *, id: str | None = None
    ) -> "ExperimentHandle":
        """Start an experiment.

        Args:
            experiment: the path of an experiment's file, or its fields.
            id: the id it gets; the same experiment under the same id is one.

        Raises:
            InvalidInput: it cannot be run; every problem is named.
            NoReadyWorker: nobody would work on it; nothing was started.
            NotAllowed: the id belongs to another experiment.
        """
        default = await self.services.gateway.default_model() or self.surroundings.default_model
        here = replace(self.surroundings, default_model=default)
        if isinstance(experiment, str):
            submitted = load_experiment(experiment, surroundings=here)
        else:
            submitted = experiment_of(dict(experiment), surroundings=here)
        plan = await bounded(
            await stored_plan(submitted, self.services.blobs),
            submitted.entries[0],
            self.services.models(),
            default_model=default,
        )
        wanted = id or run_id("experiment", plan.name, uuid.uuid4().hex)
        handle = ExperimentHandle(wanted, experiments=self)
        await self.gateway.start(plan, submitted.entries, id=wanted)
        await self.decided("experiment_started", wanted)
        return handle

    async def attach(self, name: str) -> "ExperimentHandle":
        """An experiment by its id, a unique beginning of it, or `@last`."""
        return ExperimentHandle(await self.gateway.resolve(name), experiments=self)

    async def list(self, *, limit: int = 100) -> Sequence[ExperimentStatus]:
        """The newest experiments first."""
        return await self.gateway.list(limit=limit)

    @property
    def gateway(self) -> ExperimentGateway:
        """What reaches them."""
        return self.services.experiments()

    async def decided(self, action: Action, id: str) -> None:
        """Keep in the audit trail who requested what."""
        trail = AuditTrail(self.services.audit, now=lambda: datetime.now(UTC))
        await trail.decided(action, f"experiment {id}", by=self.by, run=None)


class ExperimentHandle:
    """One experiment: look at it, follow it, steer it."""

    def __init__(self, id: str, *, experiments: Experiments) -> None:
        self.id = id
        self._experiments = experiments

    def __repr__(self) -> str:
        return f"ExperimentHandle({self.id!r})"

    async def status(self) -> ExperimentStatus:
        """How far it is, and what its runs have spent."""
        return await self._experiments.gateway.status(self.id)

    async def follow(self, *, every_s: float = POLL_S) -> AsyncIterator[ExperimentStatus]:
        """How it stands, each time that something has changed; the last one has ended."""
        told: ExperimentStatus | None = None
        while told is None or told.open:
            found = await self.status()
            if found != told:
                told = found
                yield found
            if found.open:
                await asyncio.sleep(every_s)

    async def report(self, *, wait: bool = False) -> ExperimentReport:
        """What it found so far; with `wait`, what it found at its end."""
        if wait:
            async for _ in self.follow():
                pass
        return (await read_report(self._experiments.gateway, self.id)).report

    async def pause(self) -> None:
        """Start no further trial; runs that are open go on."""
        await self._experiments.gateway.pause(self.id)
        await self._experiments.decided("experiment_paused", self.id)

    async def resume(self, *, cost_usd: Decimal | None = None) -> None:
        """Go on after a pause, a stop or a spent budget, which `cost_usd` raises."""
        await self._experiments.gateway.resume(self.id, cost_usd=cost_usd)
        await self._experiments.decided("experiment_resumed", self.id)

    async def stop(self, *, now: bool = False) -> None:
        """End after the open runs, or `now` with what they have."""
        await self._experiments.gateway.stop(self.id, now=now)
        await self._experiments.decided("experiment_stopped", self.id)

    async def extend(self, inputs: str | list[JsonValue]) -> ExperimentStatus:
        """Run further inputs too: a list, or the path of a file with them."""
        gateway = self._experiments.gateway
        plan, known = (await gateway.stored(self.id)).plan, await gateway.entries(self.id)
        around = self._experiments.surroundings
        entries = more_entries(inputs, plan, known, surroundings=around)
        found = await gateway.extend(self.id, entries, after=len(known))
        await self._experiments.decided("experiment_extended", self.id)
        return found
