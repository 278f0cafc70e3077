"""The place of one measurement: one tuned server, the product's worker and the baseline's.

Everything lies in one temporary folder and ends with the block.
"""

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from benchmarks import plugin
from benchmarks.processes import WorkerProcess, worker_process
from benchmarks.scene import LEDGER_VARIABLE
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.temporal.data_converter import data_converter
from perdure.gateway.gateway import Gateway
from perdure.gateway.types import InstallationInfo
from perdure.local_services.service_commands import DYNAMIC_CONFIG, SQLITE_PRAGMAS, temporal_binary
from perdure.local_services.temporal_server import register_search_attributes

ROOT = Path(__file__).resolve().parents[1]
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

    @property
    def ledgers(self) -> Path:
        """The folder of the ledgers that the workers keep."""
        return self.folder / "ledgers"


@asynccontextmanager
async def site(folder: Path) -> AsyncGenerator[Site]:
    """Start server and workers in an empty folder."""
    for name in ("home", "ledgers", "plugin"):
        (folder / name).mkdir(parents=True)
    _install_plugin(folder / "plugin")
    async with _server(folder) as address, _stores(folder / "home") as stores:
        client = await Client.connect(address, data_converter=data_converter(stores.blobs))
        await register_search_attributes(client)
        gateway = Gateway(
            connect=_known(client),
            blobs=stores.blobs,
            records=stores.records,
            journal=stores.journal,
            facts=InstallationInfo(address=address),
        )
        async with _product(folder, address) as product, _baseline(folder, address) as baseline:
            yield Site(
                folder=folder,
                client=client,
                stores=stores,
                gateway=gateway,
                product=product,
                baseline=baseline,
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
async def _stores(home: Path) -> AsyncGenerator[Stores]:
    stores = await open_stores(home)
    try:
        yield stores
    finally:
        await stores.close()


def _product(folder: Path, address: str) -> AbstractAsyncContextManager[WorkerProcess]:
    return worker_process(
        (sys.executable, "-P", "-m", "perdure.worker"),
        environment={
            **_shared(folder),
            "TEMPORAL_ADDRESS": address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "PERDURE_HOME": str(folder / "home"),
            "PERDURE_PLUGINS": plugin.__name__,
            "PERDURE_READY_FILE": str(folder / "product.ready"),
        },
        ready=folder / "product.ready",
        log=folder / "product.log",
    )


def _baseline(folder: Path, address: str) -> AbstractAsyncContextManager[WorkerProcess]:
    ready = folder / "baseline.ready"
    return worker_process(
        (sys.executable, "-P", "-m", "benchmarks.baseline_worker", address, str(ready)),
        environment=_shared(folder),
        ready=ready,
        log=folder / "baseline.log",
    )


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
