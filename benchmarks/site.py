"""The place of one measurement: one tuned server, and a worker of each side.

Everything lies in one temporary folder and ends with the block.
"""

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from benchmarks import plugin
from benchmarks.peer import Peer
from benchmarks.processes import WorkerProcess, started
from benchmarks.scene import LEDGER_VARIABLE
from benchmarks.serving import Limits
from benchmarks.wire import Wire, wire_to
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.run.spec import Timing
from perdure.gateway.gateway import Gateway
from perdure.gateway.types import InstallationInfo
from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.local_services.service_commands import DYNAMIC_CONFIG, SQLITE_PRAGMAS, temporal_binary

ROOT = Path(__file__).resolve().parents[1]
PRODUCT, BASELINE = "product", "baseline"
DISTRIBUTION = "perdure_benchmarks-0.dist-info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What runs are started on and read from."""

    folder: Path
    client: Client
    stores: Stores
    gateway: Gateway
    product: WorkerProcess
    baseline: WorkerProcess
    peers: Mapping[str, WorkerProcess]
    heartbeat_s: float
    sticky_s: float
    slots: int
    wire: Wire

    @property
    def ledgers(self) -> Path:
        """The folder of the ledgers that the workers keep."""
        return self.folder / "ledgers"


@asynccontextmanager
async def site(
    folder: Path,
    *,
    peers: Sequence[Peer] = (),
    heartbeat_s: float | None = None,
    activities: int | None = None,
    cuttable: bool = False,
    database_url: str | None = None,
) -> AsyncGenerator[Site]:
    """Start server and workers in an empty folder.

    Args:
        folder: where everything lies.
        peers: whose workers are started beside the product's and the baseline's.
        heartbeat_s: after which silence a model call counts as lost; None: the product's default.
        activities: that a worker runs at a time; None: the product's default.
        cuttable: whether workers reach the server over `Site.wire`, which costs a hop.
        database_url: of the product's store; None: SQLite in the folder.
    """
    for name in ("home", "ledgers", "plugin"):
        (folder / name).mkdir(parents=True)
    _install_plugin(folder / "plugin")
    limits = _limits(heartbeat_s, activities)
    async with _server(folder) as address, _stores(folder / "home", database_url) as stores:
        client = await Client.connect(address, data_converter=data_converter(stores.blobs))
        await register_search_attributes(client)
        gateway = Gateway(
            connect=_known(client),
            blobs=stores.blobs,
            records=stores.records,
            journal=stores.journal,
            facts=InstallationInfo(address=address, timing=Timing(heartbeat=limits.heartbeat_s)),
        )
        async with wire_to(address) as (wire, wired), AsyncExitStack() as stack:
            running = {
                name: await stack.enter_async_context(started(worker))
                for name, worker in _workers(
                    folder, wired if cuttable else address, peers, limits, database_url
                ).items()
            }
            yield Site(
                folder=folder,
                client=client,
                stores=stores,
                gateway=gateway,
                product=running.pop(PRODUCT),
                baseline=running.pop(BASELINE),
                peers=running,
                heartbeat_s=limits.heartbeat_s,
                sticky_s=limits.sticky_s,
                slots=limits.activities,
                wire=wire,
            )


def _limits(heartbeat_s: float | None, activities: int | None) -> Limits:
    settings = Settings.load()
    return Limits(
        activities=activities or settings.max_concurrent_activities,
        workflow_tasks=settings.max_concurrent_workflow_tasks,
        cached_workflows=settings.max_cached_workflows,
        sticky_s=settings.sticky_s,
        heartbeat_s=heartbeat_s or Timing().heartbeat,
    )


@asynccontextmanager
async def _server(folder: Path) -> AsyncGenerator[str]:
    """A file database with the pragmas and poll rates that the product starts its server with."""
    options = [
        *(word for pragma in SQLITE_PRAGMAS for word in ("--sqlite-pragma", pragma)),
        *(word for value in DYNAMIC_CONFIG for word in ("--dynamic-config-value", value)),
    ]
    environment = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()),
        dev_server_database_filename=str(folder / "temporal.sqlite"),
        dev_server_log_level="error",  # the full loop is warned about for each of its turns
        dev_server_extra_args=options,
    )
    try:
        yield environment.client.service_client.config.target_host
    finally:
        await environment.shutdown()


@asynccontextmanager
async def _stores(home: Path, database_url: str | None) -> AsyncGenerator[Stores]:
    stores = await open_stores(home, database_url)
    try:
        yield stores
    finally:
        await stores.close()


def _workers(
    folder: Path, address: str, peers: Sequence[Peer], limits: Limits, database_url: str | None
) -> Mapping[str, WorkerProcess]:
    def made(
        name: str, python: str, *words: str, ready: Path, more: Mapping[str, str]
    ) -> WorkerProcess:
        return WorkerProcess(
            (python, "-P", "-m", *words),
            environment={**_shared(folder), **limits.environment(), **more},
            ready=ready,
            log=folder / f"{name}.log",
        )

    found: dict[str, WorkerProcess] = {}
    ready = folder / f"{PRODUCT}.ready"
    own = {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "PERDURE_HOME": str(folder / "home"),
        **({} if database_url is None else {"PERDURE_DATABASE_URL": database_url}),
        "PERDURE_PLUGINS": plugin.__name__,
        "PERDURE_READY_FILE": str(ready),
        "PERDURE_MAX_CONCURRENT_ACTIVITIES": str(limits.activities),
        "PERDURE_MAX_CONCURRENT_WORKFLOW_TASKS": str(limits.workflow_tasks),
        "PERDURE_MAX_CACHED_WORKFLOWS": str(limits.cached_workflows),
        "PERDURE_STICKY_S": str(limits.sticky_s),
    }
    found[PRODUCT] = made(PRODUCT, sys.executable, "perdure.worker", ready=ready, more=own)
    served = {BASELINE: (sys.executable, "benchmarks.baseline_worker")}
    served |= {peer.name: (str(peer.python), "benchmarks.peers", peer.name) for peer in peers}
    for name, (python, *words) in served.items():
        ready = folder / f"{name}.ready"
        found[name] = made(name, python, *words, address, str(ready), ready=ready, more={})
    return found


def _shared(folder: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder / "plugin"))),
        LEDGER_VARIABLE: str(folder / "ledgers"),
    }


def _install_plugin(path: Path) -> None:
    """Make the model known as an installed package would."""
    facts = path / DISTRIBUTION
    facts.mkdir()
    named = "Metadata-Version: 2.1\nName: perdure-benchmarks\nVersion: 0\n"
    (facts / "METADATA").write_text(named, encoding="utf-8")
    points = f"[perdure.models]\n{plugin.ENTRY_POINT}\n"
    (facts / "entry_points.txt").write_text(points, encoding="utf-8")


def _known(client: Client) -> Callable[[], Awaitable[Client]]:
    async def connected() -> Client:
        return client

    return connected
