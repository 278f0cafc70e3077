"""Opens an installation for a client: its settings, its stores, and the connection to the server.

That is enough to read and control runs. Models and tools, which are needed to check specifications,
are imported and built at first use, so that other commands stay fast.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from temporalio.client import Client

from perdure.about import VERSION
from perdure.adapters.llm.access import access_from, default_model
from perdure.adapters.settings.variables import Settings
from perdure.adapters.settings.working_folder import working_folder
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import Stores, stores_of
from perdure.adapters.telemetry import Telemetry, start_telemetry
from perdure.adapters.temporal.client import address_of, connect, refuse_in_a_fork, strict
from perdure.composition.maintenance import collect_garbage, erasing, why_not_replayed
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.ports import Endpoints
from perdure.domain.run.spec import Timing
from perdure.gateway.gateway import Gateway
from perdure.gateway.project_assignment import Settling
from perdure.gateway.types import NAMED_OUTAGE_S, InstallationInfo, Waits
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.services import OnProgress, Services
from perdure.local_services.embedded_runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from perdure.adapters.notice_outbox import NoticeOutbox
    from perdure.composition.parts import Parts
    from perdure.domain.evaluation.rubric import Rubric
    from perdure.domain.foundation.problems import Problem
    from perdure.domain.retention.messages import CollectReport
    from perdure.domain.run.bookkeeping_messages import Served
    from perdure.domain.specs import Spec
    from perdure.gateway.deployments import Deployments
    from perdure.gateway.open_task import TaskOpening
    from perdure.interfaces.loop_service import LoopService
    from perdure.interfaces.metrics_outlet import LookAtFigures, MetricsOutlet
    from perdure.submission.types import Surroundings

__all__ = [
    "SETTING_NAMES",
    "Settings",
    "access_from",
    "default_model",
    "loops_of",
    "services",
    "working_folder",
]
SETTING_NAMES = frozenset(Settings.model_fields)


@asynccontextmanager
async def services(
    settings: Settings, *, start: bool, on_progress: OnProgress, with_worker: bool = False
) -> AsyncGenerator[Services]:
    """The services of an installation; with `start`, embedded ones are started first.

    With a named server, nothing is started unless `with_worker` is set: a worker here would take
    tasks that are meant for the workers there, and run them in the environment of the caller.
    """
    refuse_in_a_fork()  # before telemetry starts threads of Temporal's core
    runtime = EmbeddedRuntime(settings)
    if start:
        endpoints = await _start_services(runtime, settings, on_progress, with_worker=with_worker)
    else:
        endpoints = await _found(runtime, settings)
    async with AsyncExitStack() as resources:
        stores = await resources.enter_async_context(stores_of(settings))
        telemetry = start_telemetry()
        if telemetry.closers:
            resources.callback(telemetry.close)

        # Once for each opening, as `resources` closes what it makes.
        @cache
        def parts() -> "Parts":
            from perdure.composition.parts import build_parts

            return build_parts(settings, stores, telemetry, resources)

        address = partial(_started_since, runtime, settings)
        yield _Client(settings, stores, parts, telemetry, endpoints, address).services


class _Client:
    """An opened installation, which makes the gateway and the other services.

    Args:
        settings: the settings of the installation.
        stores: its stores.
        parts: its models and tools, built at the first call.
        telemetry: the telemetry of this process.
        endpoints: the addresses of its services.
        address: returns the address of its server, at each connection.
        client: an existing connection.
    """

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        parts: "Callable[[], Parts]",
        telemetry: Telemetry,
        endpoints: Endpoints,
        address: Callable[[], Awaitable[str]] | None = None,
        client: Client | None = None,
    ) -> None:
        self._settings = settings
        self._stores = stores
        self._parts = parts
        self._telemetry = telemetry
        self._endpoints = endpoints
        self._address = address
        self._client = client

    @cached_property
    def services(self) -> Services:
        stores = self._stores
        return Services(
            gateway=self.gateway,
            started=self._with_services_started,
            blobs=stores.blobs,
            records=stores.records,
            live=stores.live,
            journal=stores.journal,
            ledger=stores.ledger,
            figures=stores.figures,
            metrics=_metrics,
            experiments=lambda: self.gateway.experiments(stores.experiments()),
            deployments=self._deployments,
            schedules=lambda: self.gateway.schedules(stores.schedules()),
            erasure=lambda: erasing(stores, self.gateway),
            transcripts=stores.transcripts,
            workspaces=lambda: self._parts().workspaces,
            memory=stores.memory,
            made_tools=stores.made_tools,
            sessions=stores.sessions,
            projects=stores.projects,
            artifacts=stores.artifacts,
            todos=stores.todos,
            access=stores.access,
            audit=stores.audit,
            notices=stores.notices,
            definitions=lambda: self._parts().loops,
            models=lambda: self._parts().models,
            endpoints=self._endpoints,
        )

    def _deployments(self) -> "Deployments":
        from perdure.adapters.temporal.build_id import build_id

        return self.gateway.deployments(self._settings.deployment, build_id())

    async def _with_services_started(
        self, on_progress: OnProgress, *, with_worker: bool = False
    ) -> Services:
        settings, runtime = self._settings, EmbeddedRuntime(self._settings)
        endpoints = await _start_services(runtime, settings, on_progress, with_worker=with_worker)
        # The gateway has its connection already; a new one would connect once more.
        if endpoints == self._endpoints:
            return self.services
        # The same installation, with the current addresses of its services.
        return _Client(
            settings, self._stores, self._parts, self._telemetry, endpoints, self._address
        ).services

    @cached_property
    def gateway(self) -> Gateway:
        stores, facts, settings = self._stores, self._facts(), self._settings
        return Gateway(
            connect=self._connect,
            blobs=stores.blobs,
            records=stores.records,
            journal=stores.journal,
            facts=facts,
            resolve=self._resolve,
            settle=Settling(
                sessions=stores.sessions, projects=stores.projects, now=utc_now, words=facts.words
            ).settle,
            rubric_problems=rubric_problems,
            prepare=_prepared,
            waits=Waits() if settings.temporal.address is None else Waits(outage=NAMED_OUTAGE_S),
            audit=AuditTrail(stores.audit, now=utc_now),
            why_not=partial(why_not_replayed, self._settings, stores.blobs),
        )

    def _facts(self) -> InstallationInfo:
        settings = self._settings
        return InstallationInfo(
            address=address_of(settings, self._endpoints.temporal_address),
            namespace=settings.namespace,
            ui_url=self._endpoints.ui_url,
            timing=Timing(
                heartbeat=settings.heartbeat_s,
                attempts=settings.provider_attempts,
                failover_attempts=settings.failover_attempts,
                failover_after=settings.failover_after_s,
                inline_output=settings.inline_output_bytes,
            ),
            version=VERSION,
            notifies=settings.tells_people,
            digest=self._stores.digest,
            task_queue=settings.task_queue,
            limits=settings.open_limits,
            rates=tuple(settings.model_rates),
            deployment=settings.deployment,
        )

    async def _connect(self) -> Client:
        if self._client is not None:
            return self._client
        # Asked at each connection: services that were restarted may have another port.
        found = await self._address() if self._address else self._endpoints.temporal_address
        return await connect(
            self._settings, fallback=found, blobs=self._stores.blobs, telemetry=self._telemetry
        )

    async def _resolve(self, spec: "Spec", served: "Served | None" = None, /) -> "Spec":
        from perdure.composition.parts import resolver
        from perdure.gateway.stored_references import StoredReferences

        references = StoredReferences(self._stores)
        return await resolver(self._parts(), references.problems).resolve(spec, served)


async def _prepared(client: Client) -> None:
    from perdure.local_services.register_search_attributes import register_search_attributes

    await register_search_attributes(client)


async def _start_services(
    runtime: EmbeddedRuntime, settings: Settings, on_progress: OnProgress, *, with_worker: bool
) -> Endpoints:
    """The addresses of services; missing ones are started, unless a server is named."""
    if with_worker or settings.temporal.address is None:
        return await runtime.ensure(on_progress)
    return await _found(runtime, settings)


async def _found(runtime: EmbeddedRuntime, settings: Settings) -> Endpoints:
    """The addresses of services, running or not."""
    state = await runtime.state()
    # If another server is named, embedded services of this home do not count.
    ours = state is not None and settings.temporal.address in {
        None,
        state.endpoints.temporal_address,
    }
    return state.endpoints if state and ours else _named_endpoints(settings)


async def _started_since(runtime: EmbeddedRuntime, settings: Settings) -> str:
    """The address of the embedded server of this home, if no server is named.

    Another server that listens at the usual port is not used: it is not ours.

    Raises:
        ServiceUnavailable: no embedded server runs.
    """
    if settings.temporal.address is not None:
        return settings.temporal.address
    if (state := await runtime.state()) is None:
        raise ServiceUnavailable(
            "No services of this installation run, and TEMPORAL_ADDRESS names no Temporal server.",
            cure="Start them with `perdure up --detach`, or set TEMPORAL_ADDRESS.",
        )
    return state.endpoints.temporal_address


def services_of(parts: "Parts", endpoints: Endpoints) -> Services:
    """The services, made from parts that exist already."""
    return _client_of(parts, endpoints).services


def _client_of(parts: "Parts", endpoints: Endpoints, client: Client | None = None) -> _Client:
    return _Client(
        parts.settings, parts.stores, lambda: parts, parts.telemetry, endpoints, client=client
    )


def loops_of(parts: "Parts", client: Client | None = None) -> "LoopService":
    """The loop service for agents of a worker; it reads no files of the host.

    Args:
        parts: the parts of the worker.
        client: its connection, if it is not the one of the settings.
    """
    from perdure.interfaces.loop_service import LoopService

    found = _client_of(parts, _named_endpoints(parts.settings), client).services
    return LoopService(
        gateway=found.gateway,
        definitions_kept=parts.loops,
        records=found.records,
        blobs=found.blobs,
        journal=found.journal,
        surroundings=_of_worker(parts),
        by="worker",
    )


def opening_of(
    parts: "Parts", client: Client, *, lacks: "Callable[[], Mapping[str, str]]"
) -> "TaskOpening":
    """The service that opens runs of Temporal clients; it reads no files of the host for them."""
    from perdure.submission.loading import load_data, store

    async def read(fields: "Mapping[str, JsonValue]") -> "Spec":
        submission = load_data(dict(fields), surroundings=_of_worker(parts))
        return await store(submission, parts.stores.blobs)

    from perdure.adapters.notifiers import NoNotices
    from perdure.gateway.schedule_budget import Admitting

    stores = parts.stores
    # For a start that the month's budget refuses: there is no run that could tell people.
    outbox = notices_of(parts, client) or NoNotices()
    admitting = Admitting(stores.schedules, records=stores.records, tell=outbox.notify, now=utc_now)
    gateway = _client_of(parts, _named_endpoints(parts.settings), client).gateway
    return gateway.opening(read, lacks=lacks, admit=admitting.admit)


def notices_of(parts: "Parts", client: Client) -> "NoticeOutbox | None":
    """The notices of a worker; None if its settings name no channel."""
    from perdure.adapters.notice_outbox import outbox_of
    from perdure.gateway.open_gates import gates_of

    notices, records = parts.stores.notices(), parts.stores.records
    return outbox_of(parts.settings, notices, records, waiting=partial(gates_of, client))


def _of_worker(parts: "Parts") -> "Surroundings":
    """The surroundings of tasks that reach a worker: its defaults, but not its files."""
    from perdure.submission.layers import DEFAULTS_FILE
    from perdure.submission.types import Surroundings

    return Surroundings(
        folder=None,
        user_defaults=parts.settings.home / DEFAULTS_FILE,
        default_model=parts.default_model,
        rubric_problems=rubric_problems,
        settings=SETTING_NAMES,
    )


def collecting_of(parts: "Parts", client: Client) -> "Callable[[], Awaitable[CollectReport]]":
    """The garbage collection of a worker, with the retention rules of its settings."""

    async def collect() -> "CollectReport":
        from perdure.domain.retention.messages import CollectReport

        # Strict: what a collection cannot read may name blobs that a run still needs.
        gateway = _client_of(parts, _named_endpoints(parts.settings), strict(client)).gateway
        found = await collect_garbage(parts, gateway, dry_run=False)
        return CollectReport.model_validate(found.model_dump(exclude={"dry_run"}))

    return collect


def _metrics(look: "LookAtFigures") -> "MetricsOutlet":
    from perdure.adapters.telemetry.installation_metrics import installation_metrics

    return installation_metrics(look)


def rubric_problems(rubric: "Rubric") -> "Sequence[Problem]":
    """Problems of unusable patterns and schemas in a rubric."""
    from perdure.adapters.checks import check_problems

    return check_problems(rubric)


def _named_endpoints(settings: Settings) -> Endpoints:
    """The addresses in the settings, for when no embedded service runs."""
    return Endpoints(
        temporal_address=address_of(settings, f"127.0.0.1:{settings.temporal_port}"),
        namespace=settings.namespace,
        home=str(settings.home),
        model_url=settings.model_url,
    )
