"""The gateway to runs: start, read, follow, control, list."""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.rubric import RubricProblems, no_problems
from perdure.domain.foundation.errors import InvalidInput, PerdureError
from perdure.domain.foundation.names import LoopKind
from perdure.domain.foundation.names import run_id as new_id
from perdure.domain.memory.patterns import MineReport
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.audit import VerbAudit
from perdure.domain.run.bookkeeping_messages import Served
from perdure.domain.run.cost_report import CostReport
from perdure.domain.run.events import Event
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.claim_run_id import checked_id
from perdure.gateway.parts import GatewayParts
from perdure.gateway.project_assignment import as_it_is
from perdure.gateway.repair import WhyNot, nothing_known
from perdure.gateway.server_connection import Connect
from perdure.gateway.temporal_gateway import Prepare
from perdure.gateway.types import (
    BulkReport,
    FailingRuns,
    InstallationInfo,
    OpenGates,
    QueueState,
    Reach,
    Repaired,
    ResolveModels,
    Retained,
    RunFilter,
    RunPage,
    SettleRun,
    Waits,
    Wanted,
)

if TYPE_CHECKING:
    from perdure.domain.experiments.store import ExperimentStore
    from perdure.domain.retention.erasure import Tombstone
    from perdure.domain.run.figures import ServerLoad
    from perdure.domain.schedules.store import ScheduleStore
    from perdure.gateway.deployments import Deployments
    from perdure.gateway.experiments import Experiments
    from perdure.gateway.open_task import Admit, ReadSpec, TaskOpening
    from perdure.gateway.schedules import Schedules
    from perdure.gateway.upkeep import Duty, Upkeep


async def as_they_are(spec: Spec, _served: Served | None = None, /) -> Spec:
    """Resolve nothing: the models stay as the specification names them."""
    return spec


def utc_now() -> datetime:
    """The current time, aware."""
    return datetime.now(UTC)


class Gateway:
    """Everything that interfaces ask of runs; no interface talks to Temporal directly.

    Args:
        connect: makes the Temporal client with its data converter, at first use.
        blobs: outputs, and texts that are too long for a message.
        records: rows of runs, for answers without server or worker.
        journal: the spend of runs.
        facts: facts about the installation.
        resolve: fills in and checks the models of a specification; raises `InvalidInput`.
        settle: gives a run its session and project, by its id.
        rubric_problems: finds unusable patterns and schemas in an amended rubric.
        waits: time limits.
        now: the clock.
        audit: records the verbs that people send.
        why_not: says why a history does not replay; None if it does.
        prepare: adds what the namespace lacks, if that is allowed; raises `RuntimeUnavailable`.

    Every method raises `ServiceUnavailable` if the server does not answer and the store cannot
    replace it, and `NotFound` for an unknown run.
    """

    def __init__(
        self,
        *,
        connect: Connect,
        blobs: BlobStore,
        records: RecordStore,
        journal: Journal,
        facts: InstallationInfo,
        resolve: ResolveModels = as_they_are,
        settle: SettleRun = as_it_is,
        rubric_problems: RubricProblems = no_problems,
        waits: Waits | None = None,
        now: Callable[[], datetime] = utc_now,
        prepare: Prepare | None = None,
        audit: VerbAudit | None = None,
        why_not: WhyNot = nothing_known,
    ) -> None:
        self._facts = facts
        self._parts = GatewayParts(
            connect=connect,
            blobs=blobs,
            records=records,
            journal=journal,
            facts=facts,
            resolve=resolve,
            settle=settle,
            rubric_problems=rubric_problems,
            waits=waits or Waits(),
            now=now,
            prepare=prepare,
            audit=audit,
            why_not=why_not,
        )

    async def start(
        self,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        wanted: Wanted | None = None,
    ) -> str:
        """Start a run and return its id.

        The same id or key starts only one run, even if requests are concurrent or the history is
        gone. `by` is who starts it, for the audit trail. `wanted` says whether somebody still waits
        for it: a run that waits for room is given up (`NoRoom`) once nobody does.

        Raises:
            InvalidInput: the specification cannot be run here.
            NoReadyWorker: a queue that it needs has no worker; nothing was started.
            NotAllowed: the id or key belongs to another specification, or to a run that is gone.
        """
        named = checked_id(run_id) if run_id is not None else None
        starting = self._parts.starter.start(spec, run=named, key=idempotency_key, wanted=wanted)
        return await self._parts.audit_start(starting, run=named, by=by, about=spec.kind)

    async def has_begun(self, run: str) -> bool:
        """Whether a run of this installation has begun; a start that failed leaves only a row."""
        return await self._parts.starter.claims.has_begun(run)

    def opening(
        self, read: "ReadSpec", *, lacks: Callable[[], Mapping[str, str]], admit: "Admit"
    ) -> "TaskOpening":
        """The service that opens runs which Temporal clients started with only a task."""
        return self._parts.opening(read, lacks=lacks, admit=admit)

    def deployments(self, name: str | None, own: str) -> "Deployments":
        """The worker deployment of that name; `own` is the build of this code."""
        return self._parts.deployments(name, own)

    def experiments(self, store: "ExperimentStore") -> "Experiments":
        return self._parts.experiments(store)

    def schedules(self, store: "ScheduleStore") -> "Schedules":
        return self._parts.schedules(store)

    def fresh_id(self, kind: str, goal: str) -> str:
        """An id that no run has; it contains no words of the goal if there is an encryption key."""
        return new_id(kind, self._facts.words(goal), uuid.uuid4().hex)

    async def check(self, spec: Spec) -> Spec:
        """The specification as it would run here, with its models, access and loop filled in.

        Asks the workers only if it would be refused by what is known here.

        Raises:
            InvalidInput: it names what is missing here, or has unusable patterns or schemas.
        """
        try:
            return await self._parts.resolve(spec, await self._parts.starter.served(ask=False))
        except InvalidInput:
            if (served := await self._served()) is None:
                raise
            return await self._parts.resolve(spec, served)

    async def default_model(self) -> str | None:
        """The workers' default model; None if no worker has reported one."""
        served = await self._served()
        return served.models.default or None if served is not None else None

    async def _served(self) -> Served | None:
        """What the workers report; None if nobody answers."""
        try:
            return await self._parts.starter.served()
        except PerdureError:
            return None

    async def fork_spec(self, run: str, iteration: int) -> Spec:
        """The specification that a fork from an iteration starts from, before any change.

        Raises:
            InvalidInput: the run has no such iteration; the message says which it has.
            NotAllowed: nothing can start from it.
        """
        return await self._parts.forking.spec(run, iteration)

    async def fork(
        self,
        run: str,
        iteration: int,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        wanted: Wanted | None = None,
    ) -> str:
        """Start a new run that continues from an iteration of another, and return its id.

        It has a budget and an account of its own; the other run is not touched.

        Args:
            run: the other run, open or ended.
            iteration: the iteration after which the new run begins.
            spec: the result of `fork_spec`, with the wanted changes.
            run_id: the id of the new run; the same id starts only one run.
            idempotency_key: the same key starts only one run, whenever it is sent.
            by: who starts it, for the audit trail.
            wanted: as for `start`.

        Raises:
            InvalidInput: there is no such iteration, or settings that do not fit it.
            NotAllowed: nothing can start from it.
            NoReadyWorker: nobody would work on it; nothing was started.
        """
        named = checked_id(run_id) if run_id is not None else None
        starting = self._parts.forking.fork(
            run, iteration, spec, fork_id=named, key=idempotency_key, wanted=wanted
        )
        about = f"{spec.kind}, from iteration {iteration} of {run}"
        return await self._parts.audit_start(starting, run=named, by=by, about=about)

    async def readiness(self, spec: Spec) -> tuple[QueueState, ...]:
        """Whether a worker answers on each queue that a specification needs."""
        site = await self._parts.starter.site(await self.check(spec))
        return await self._parts.starter.readiness.of(site)

    async def status(self, run: str) -> RunStatus:
        """The status of a run; `source` is `store` if its worker did not answer."""
        return await self._parts.reader.status(run)

    async def result(self, run: str, *, wait: bool = True) -> RunResult:
        """The result of a run, with all records and the whole output.

        Raises:
            NotAllowed: it has not ended, and `wait` is off.
        """
        return await self._parts.reader.result(run, wait=wait)

    async def records(self, run: str) -> list[IterationRecord]:
        """The stored iterations, in order."""
        return await self._parts.reader.records(run)

    async def costs(self, run: str | None = None) -> CostReport:
        """Spend by phase, model and day, of one run or of the newest stored runs."""
        return await self._parts.reader.costs(run)

    def events(
        self, run: str, *, since: int = 0, on_trouble: Callable[[str], None] | None = None
    ) -> AsyncGenerator[Event]:
        """Events after `since` as they come, up to and including `ended`.

        `on_trouble` is called with a description of each problem that keeps the run from moving.
        """
        return self._parts.follower(run, on_trouble).events(since)

    async def verb(self, run: str, message: AnyMessage) -> Receipt:
        """Send a control verb to a run.

        Raises:
            InvalidInput: the message has a rubric with unusable patterns or schemas.
            NotAllowed: the state of the run forbids it; the message is only the reason.
            NoReadyWorker: no worker took it in time.
        """
        return await self._parts.verbs.verb(run, message)

    async def failing(self, *, limit: int) -> FailingRuns:
        """Open runs whose tasks keep failing, among those the server names and the newest."""
        return await self._parts.failing.find(limit=limit)

    async def load(self) -> "ServerLoad":
        """What waits at the server: runs that wait for people, and tasks for workers."""
        return await self._parts.load.read()

    async def repair(self, run: str, *, repeat: bool = False) -> Repaired:
        """Reset a run whose tasks keep failing to its last good point; send later messages again.

        Args:
            run: the id of the run.
            repeat: run steps again that must run once and may have had their effect.

        Raises:
            NotAllowed: none of its tasks fails, a reset does not help, no worker is there, or a
                step would run a second time that must run once.
        """
        return await self._parts.repairing.repair(run, repeat=repeat)

    async def verb_all(
        self,
        message: AnyMessage,
        *,
        kind: LoopKind | None = None,
        root: str | None = None,
        within: Reach | None = None,
    ) -> BulkReport:
        """Send a verb to all open runs, or to those of one kind or tree, or `within` reach."""
        return await self._parts.verbs.verb_all(message, kind=kind, root=root, within=within)

    async def gates(self) -> OpenGates:
        """All open questions to people, oldest first."""
        return await self._parts.open_gates.read()

    async def list(self, wanted: RunFilter | None = None) -> RunPage:
        """One page of root runs: first those at the server, then those only in the store."""
        return await self._parts.listing.page(wanted or RunFilter())

    async def count(self, wanted: RunFilter) -> int:
        """How many runs of this installation the server lists; the newest may be missing."""
        return await self._parts.listing.count(wanted)

    async def delete(self, run: str) -> None:
        """Delete what server and store keep of an ended run and those below; their spend stays.

        Raises:
            NotAllowed: one has not ended. Nothing was deleted, unless it was retried meanwhile.
        """
        await self._parts.deleting.delete(run)

    async def expire(self, stones: Sequence["Tombstone"], *, dry_run: bool = False) -> None:
        """Delete what server and store keep of a tree of ended runs, and write tombstones.

        With `dry_run`, only check that all of them have ended.

        Raises:
            NotAllowed: one of them has not ended, for example after a reset. If this is seen at
                the beginning, nothing was deleted. No run that is still there has a tombstone.
        """
        await self._parts.deleting.expire(stones, dry_run=dry_run)

    async def resolve(self, name: str) -> str:
        """The run id for a unique prefix or `@last`.

        Raises:
            InvalidInput: several ids have this prefix; the message lists them.
            NotFound: no id has this prefix; the message names the nearest ids.
        """
        return await self._parts.listing.resolve(name)

    def upkeep(self, duty: "Duty") -> "Upkeep":
        return self._parts.upkeep(duty)

    async def mine(self) -> MineReport:
        """Look for patterns once, now; raises `NoReadyWorker` if there is no worker."""
        from perdure.gateway.upkeep import mine_now

        readiness = self._parts.starter.readiness
        return await mine_now(self.upkeep("mining"), server=self._parts.server, readiness=readiness)

    async def history_export(self, run: str) -> bytes:
        """The history of a run's newest execution as JSON, for replay.

        Raises:
            NotFound: the server never had it, or has deleted it.
        """
        return await self._parts.reader.history(run)

    def retained(self, runs: Collection[str] | None = None) -> AsyncIterator[Retained]:
        """What the server keeps of this installation's executions, or only of those of `runs`.

        Raises:
            StoreError: something is encrypted with a key that is not known here.
        """
        return self._parts.retaining.executions(runs)

    async def server_ahead(self) -> float | None:
        """The seconds by which the server's clock is ahead of this host's; None if untold."""
        return await self._parts.retaining.server_ahead()

    async def close_rows(
        self, *, before: datetime | None = None, runs: Collection[str] | None = None
    ) -> int:
        """Close rows of runs that were ended from outside; see `TornRows.close`."""
        return await self._parts.torn_rows.close(before=before, runs=runs)

    def web_url(self, run: str) -> str | None:
        """The URL of a run in Temporal's Web UI; None without a Web UI."""
        return self._facts.web_url(run)
