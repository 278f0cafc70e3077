"""The parts of the gateway, each imported and built at its first use.

A command uses one or two parts, and each imports much of the domain. `pause` should not have to
load the code that forks and repairs runs.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING

from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.rubric import RubricProblems
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.audit import VerbAudit
from perdure.gateway.repair import WhyNot
from perdure.gateway.server_connection import Connect
from perdure.gateway.temporal_gateway import Prepare, TemporalGateway
from perdure.gateway.types import InstallationInfo, QueueState, ResolveModels, SettleRun, Waits

if TYPE_CHECKING:
    from perdure.domain.experiments.store import ExperimentStore
    from perdure.domain.schedules.store import ScheduleStore
    from perdure.gateway.control import VerbSender
    from perdure.gateway.deployments import Deployments
    from perdure.gateway.event_follower import Follower
    from perdure.gateway.experiments import Experiments
    from perdure.gateway.fork import Forking
    from perdure.gateway.nudges import Nudges
    from perdure.gateway.open_gates import GateReader
    from perdure.gateway.open_task import Admit, ReadSpec, TaskOpening
    from perdure.gateway.readiness import Readiness
    from perdure.gateway.repair import Repairing
    from perdure.gateway.retention import Deleting, Retaining
    from perdure.gateway.retry import Retrying
    from perdure.gateway.run_list import Listing
    from perdure.gateway.run_reader import RunReader
    from perdure.gateway.saved_states import StoredStates
    from perdure.gateway.schedules import Schedules
    from perdure.gateway.server_load import LoadReader
    from perdure.gateway.start import Starter
    from perdure.gateway.torn_rows import TornRows
    from perdure.gateway.upkeep import Duty, Upkeep
    from perdure.gateway.visibility import Failing


@dataclass(frozen=True, kw_only=True)
class GatewayParts:
    """The parts by name; `Gateway` documents their arguments."""

    connect: Connect
    blobs: BlobStore
    records: RecordStore
    journal: Journal
    facts: InstallationInfo
    resolve: ResolveModels
    settle: SettleRun
    rubric_problems: RubricProblems
    waits: Waits
    now: Callable[[], datetime]
    prepare: Prepare | None
    audit: VerbAudit | None
    why_not: WhyNot

    async def audit_start(
        self, starting: Awaitable[str], *, run: str | None, by: str, about: str
    ) -> str:
        """Await a start and return its run; the start or its refusal goes into the audit trail."""
        try:
            started = await starting
        except PerdureError as error:
            if self.audit is not None:
                await self.audit.note_start(run, by=by, about=about, refused=error.message)
            raise
        if self.audit is not None:
            await self.audit.note_start(started, by=by, about=about)
        return started

    @cached_property
    def server(self) -> TemporalGateway:
        """The one connection to Temporal."""
        return TemporalGateway(
            self.connect, address=self.facts.address, waits=self.waits, prepare=self.prepare
        )

    @cached_property
    def readiness(self) -> "Readiness":
        """Asks queues for their workers."""
        from perdure.gateway.readiness import Readiness

        return Readiness(self.server, facts=self.facts, waits=self.waits)

    @cached_property
    def starter(self) -> "Starter":
        """Starts runs."""
        from perdure.gateway.start import Starter

        return Starter(
            server=self.server,
            readiness=self.readiness,
            blobs=self.blobs,
            records=self.records,
            journal=self.journal,
            facts=self.facts,
            resolve=self.resolve,
            settle=self.settle,
            now=self.now,
        )

    def opening(
        self, read: "ReadSpec", *, lacks: Callable[[], Mapping[str, str]], admit: "Admit"
    ) -> "TaskOpening":
        """Opens runs that Temporal clients started with only a task."""
        from perdure.gateway.open_task import TaskOpening

        return TaskOpening(
            starter=self.starter,
            records=self.records,
            read=read,
            resolve=self.resolve,
            settle=self.settle,
            lacks=lacks,
            admit=admit,
            now=self.now,
        )

    @cached_property
    def states(self) -> "StoredStates":
        """Reads stored specifications and states of runs."""
        from perdure.gateway.saved_states import StoredStates

        return StoredStates(blobs=self.blobs, records=self.records)

    @cached_property
    def forking(self) -> "Forking":
        """Forks runs."""
        from perdure.gateway.fork import Forking

        return Forking(states=self.states, starter=self.starter, now=self.now)

    @cached_property
    def reader(self) -> "RunReader":
        """Reads runs."""
        from perdure.gateway.run_reader import RunReader

        return RunReader(
            server=self.server,
            blobs=self.blobs,
            records=self.records,
            journal=self.journal,
            links=self.facts.links,
            worker_command=self.facts.starting,
            now=self.now,
        )

    @cached_property
    def verbs(self) -> "VerbSender":
        """Sends verbs."""
        from perdure.gateway.control import VerbSender

        return VerbSender(
            server=self.server,
            blobs=self.blobs,
            records=self.records,
            retrying=lambda: self.retrying,
            rubric_problems=self.rubric_problems,
            task_queue=self.facts.task_queue,
            now=self.now,
            present=self.present,
            nudge=self.nudge,
            audit=self.audit,
        )

    @cached_property
    def nudges(self) -> "Nudges":
        """Wakes who follows a run that was sent something."""
        from perdure.gateway.nudges import Nudges

        return Nudges()

    def nudge(self, run: str) -> None:
        """Tell the parts in use that a run was sent something; others need not be loaded for it."""
        if "nudges" in vars(self):
            self.nudges.tell(run)
        if "open_gates" in vars(self):
            self.open_gates.forget(run)

    async def present(self, queue: str) -> bool:
        """Whether a worker answers on a queue of workflows."""
        state = await self.readiness.ask(QueueState(queue=queue, serves="loops"))
        # Not `served`: a worker that is too busy to answer leaves the next question unanswered too.
        return state.ready or state.unasked

    @cached_property
    def retrying(self) -> "Retrying":
        """Retries failed runs."""
        from perdure.gateway.retry import Retrying

        return Retrying(
            server=self.server,
            blobs=self.blobs,
            records=self.records,
            journal=self.journal,
            states=self.states,
            starter=self.starter,
            now=self.now,
        )

    @cached_property
    def listing(self) -> "Listing":
        """Lists and finds runs."""
        from perdure.gateway.run_list import Listing

        return Listing(
            server=self.server,
            records=self.records,
            journal=self.journal,
            facts=self.facts,
            now=self.now,
        )

    @cached_property
    def open_gates(self) -> "GateReader":
        """Finds what waits for a person."""
        from perdure.gateway.open_gates import GateReader

        return GateReader(server=self.server, records=self.records, present=self.present)

    def upkeep(self, duty: "Duty") -> "Upkeep":
        """Schedules pattern mining or garbage collection."""
        from perdure.gateway.upkeep import Upkeep

        return Upkeep(duty, server=self.server, records=self.records)

    def experiments(self, store: "ExperimentStore") -> "Experiments":
        """Runs experiments."""
        from perdure.gateway.experiments import Experiments

        return Experiments(
            store, server=self.server, starter=self.starter, records=self.records, now=self.now
        )

    def deployments(self, name: str | None, own: str) -> "Deployments":
        """Manages rolling upgrades of workers."""
        from perdure.gateway.deployments import Deployments

        return Deployments(
            server=self.server,
            records=self.records,
            name=name,
            own=own,
            why_not=self.why_not,
            now=self.now,
        )

    def schedules(self, store: "ScheduleStore") -> "Schedules":
        """Manages schedules."""
        from perdure.gateway.schedules import Schedules

        return Schedules(
            store,
            server=self.server,
            starter=self.starter,
            records=self.records,
            task_queue=self.facts.task_queue,
            now=self.now,
        )

    @cached_property
    def failing(self) -> "Failing":
        """Finds runs whose code keeps failing."""
        from perdure.gateway.visibility import Failing

        return Failing(server=self.server, records=self.records, task_queue=self.facts.task_queue)

    @cached_property
    def load(self) -> "LoadReader":
        """Says what waits at the server."""
        from perdure.gateway.clock_load import ClockReader
        from perdure.gateway.server_load import LoadReader
        from perdure.gateway.upkeep import Upkeep

        facts = self.facts
        named = facts.deployment is not None
        return LoadReader(
            server=self.server,
            records=self.records,
            rates=facts.rates,
            deployments=self.deployments(facts.deployment, "") if named else None,
            clock=ClockReader(
                server=self.server,
                records=self.records,
                collections=Upkeep("collection", server=self.server, records=self.records),
                now=self.now,
            ),
        )

    @cached_property
    def repairing(self) -> "Repairing":
        """Resets failing runs to their last good point."""
        from perdure.gateway.repair import Repairing

        return Repairing(server=self.server, ask=self.readiness.ask, why_not=self.why_not)

    @cached_property
    def deleting(self) -> "Deleting":
        """Deletes ended runs."""
        from perdure.gateway.retention import Deleting

        return Deleting(server=self.server, records=self.records)

    @cached_property
    def torn_rows(self) -> "TornRows":
        """Closes rows of runs that were ended from outside."""
        from perdure.gateway.torn_rows import TornRows

        result_of = partial(self.reader.result, wait=True)
        return TornRows(server=self.server, records=self.records, result_of=result_of)

    @cached_property
    def retaining(self) -> "Retaining":
        """Reads what the server keeps of executions."""
        from perdure.gateway.retention import Retaining

        return Retaining(server=self.server, records=self.records)

    def follower(self, run: str, on_trouble: Callable[[str], None] | None) -> "Follower":
        """Follows the events of one run."""
        from perdure.gateway.event_follower import Follower

        return Follower(
            run,
            server=self.server,
            records=self.records,
            waits=self.waits,
            now=self.now,
            known=self.reader.known,
            unserved=self.reader.unserved,
            nudges=self.nudges,
            on_trouble=on_trouble,
        )
