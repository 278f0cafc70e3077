"""Experiments from Python: start one, follow it, read its report, steer it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from perdure.domain.experiments.plan import digest_of
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.foundation.names import run_id
from perdure.domain.run.audit import Action
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.experiments.bounds import bounded, check_added
from perdure.interfaces.experiments.reading import read_report
from perdure.interfaces.experiments.report import ExperimentReport
from perdure.interfaces.experiments.trial_rows import TrialRow, trial_rows
from perdure.interfaces.python_arguments import EXPERIMENT, text, text_or_none, wrong
from perdure.interfaces.services import Services
from perdure.submission.experiments import (
    ExperimentSubmission,
    experiment_of,
    load_experiment,
    more_entries,
    stored_plan,
)
from perdure.submission.plain_values import plain_fields, plain_rows
from perdure.submission.types import Surroundings
from perdure.text_files import pipes_read_anew

if TYPE_CHECKING:
    from perdure.gateway.experiments import Experiments as ExperimentGateway

HEADING = "The experiment"
POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiments:
    """The experiments of an installation; `Client.experiments` is one."""

    services: Services
    surroundings: Surroundings
    by: str

    async def start(
        self, experiment: str | PurePath | Mapping[str, object], *, id: str | None = None
    ) -> "ExperimentHandle":
        """Start an experiment.

        Args:
            experiment: the path of an experiment's file, or its fields. Its `inputs` may be a frame
                of pandas or polars, row by row; what is empty in it is null.
            id: the id it gets; the same experiment under the same id is one.

        Raises:
            InvalidInput: it cannot be run; every problem is named.
            NoReadyWorker: nobody would work on it; nothing was started.
            NotAllowed: the id belongs to another experiment.
        """
        text_or_none("id", id)
        # Asked first: what the workers take by default decides what the file means.
        default = await self.default_model()
        here = replace(self.surroundings, default_model=default)
        with pipes_read_anew():
            submitted = _submitted(experiment, here)
        kept, entries = await stored_plan(submitted, self.services.blobs), submitted.entries
        wanted = id or run_id("experiment", kept.name, uuid.uuid4().hex)
        handle = ExperimentHandle(wanted, experiments=self)
        # Before the bounds, which go by prices: these may change until it is started again.
        sent = digest_of(kept, entries)
        if not await self.gateway.try_repeat(wanted, sent=sent):
            plan = await bounded(
                kept,
                entries,
                self.services.models(),
                check=self.services.gateway.check,
                default_model=default,
            )
            await self.gateway.start(plan, entries, id=wanted, sent=sent)
        await self.decided("experiment_started", wanted)
        return handle

    async def attach(self, name: str) -> "ExperimentHandle":
        """An experiment by its id, a unique beginning of it, or `@last`."""
        known = await self.gateway.resolve(text("name", name, allowed=EXPERIMENT))
        return ExperimentHandle(known, experiments=self)

    async def list(self, *, limit: int = 100) -> Sequence[ExperimentStatus]:
        """The newest experiments first."""
        return await self.gateway.list(limit=limit)

    async def default_model(self) -> str:
        """The model of runs that name none."""
        return await self.services.gateway.default_model() or self.surroundings.default_model

    @property
    def gateway(self) -> "ExperimentGateway":
        return self.services.experiments()

    async def decided(self, action: Action, id: str) -> None:
        """Keep in the audit trail who requested what."""
        trail = AuditTrail(self.services.audit, now=lambda: datetime.now(UTC))
        await trail.note_decision(action, f"experiment {id}", by=self.by, run=None)


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

    async def trials(self) -> Sequence[TrialRow]:
        """What became of each trial so far, as rows for a data frame."""
        found = await read_report(self._experiments.gateway, self.id)
        return trial_rows(found.plan, found.trials, found.entries)

    async def pause(self) -> None:
        """Start no further trial; runs that are open go on."""
        await self._experiments.gateway.pause(self.id)
        await self._experiments.decided("experiment_paused", self.id)

    async def resume(self, *, cost_usd: Decimal | None = None, tokens: int | None = None) -> None:
        """Go on after a pause, a stop or a spent budget.

        `cost_usd` and `tokens` replace its limits, also while it runs.
        """
        await self._experiments.gateway.resume(self.id, cost_usd=cost_usd, tokens=tokens)
        await self._experiments.decided("experiment_resumed", self.id)

    async def stop(self, *, now: bool = False) -> None:
        """End after the open runs, or `now` with what they have."""
        await self._experiments.gateway.stop(self.id, now=now)
        await self._experiments.decided("experiment_stopped", self.id)

    async def extend(self, inputs: str | PurePath | Iterable[object]) -> ExperimentStatus:
        """Run further inputs too: a list, a frame, or the path of a file with them."""
        given = _inputs(inputs)
        gateway = self._experiments.gateway
        plan, known = (await gateway.stored(self.id)).plan, await gateway.entries(self.id)
        around = self._experiments.surroundings
        with pipes_read_anew():
            entries = more_entries(given, plan, known, surroundings=around)
        services, default = self._experiments.services, await self._experiments.default_model()
        await check_added(
            plan, entries, services.models(), check=services.gateway.check, default_model=default
        )
        # Bound to what was read: if somebody else adds inputs meanwhile, these are refused.
        found = await gateway.extend(self.id, entries, after=len(known))
        await self._experiments.decided("experiment_extended", self.id)
        return found


def _submitted(experiment: object, around: Surroundings) -> ExperimentSubmission:
    match experiment:
        case str() | PurePath() as path:
            file = text("experiment", str(path))
            return load_experiment(file, surroundings=around)
        case Mapping():
            fields = cast("Mapping[str, object]", experiment)
            return experiment_of(_fields(fields), surroundings=around)
        case other:
            raise wrong("experiment", other, "the path of its file, or its fields")


def _fields(experiment: Mapping[str, object]) -> dict[str, JsonValue]:
    """The fields of an experiment as plain data; inputs may be a frame, which nothing else may."""
    fields = {name: value for name, value in experiment.items() if name != "inputs"}
    told = plain_fields(fields, heading=HEADING)
    if "inputs" in experiment:
        told["inputs"] = _inputs(experiment["inputs"])
    return told


def _inputs(given: object) -> str | list[JsonValue]:
    if isinstance(given, str | PurePath):
        return text("inputs", str(given), allowed="a list, a frame, or the path of a file")
    return plain_rows(given, heading=HEADING)
