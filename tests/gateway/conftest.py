"""A real dev server for a session; an installation of its own for each test."""

import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import pytest
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

from perdure.domain.foundation.names import SEARCH_ATTRIBUTES
from perdure.gateway.gateway import Gateway
from perdure.gateway.types import InstallationInfo, Waits
from tests.gateway.memory_stores import MemoryBlobs, MemoryJournal, MemoryRecords
from tests.gateway.tiny import ADDRESS, DYNAMIC, IMPATIENT, LOOKS, TYPES, Site


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[Client]:
    binary = Path(sysconfig.get_path("scripts")) / "temporal"
    env = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(binary),
        data_converter=pydantic_data_converter,
        dev_server_log_level="error",
        dev_server_extra_args=[
            word for value in DYNAMIC for word in ("--dynamic-config-value", value)
        ],
    )
    try:
        await env.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=env.client.namespace,
                search_attributes={name: TYPES[kind] for name, kind in SEARCH_ATTRIBUTES.items()},
            )
        )
        yield env.client
    finally:
        await env.shutdown()


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def records() -> MemoryRecords:
    return MemoryRecords()


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


class MakeGateway(Protocol):
    def __call__(
        self, connect: Callable[[], Awaitable[Client]], waits: Waits = LOOKS
    ) -> Gateway: ...


@pytest.fixture
def gateway_to(blobs: MemoryBlobs, records: MemoryRecords, journal: MemoryJournal) -> MakeGateway:
    """A gateway over the stores in memory and the given connection."""

    def make(connect: Callable[[], Awaitable[Client]], waits: Waits = LOOKS) -> Gateway:
        return Gateway(
            connect=connect,
            blobs=blobs,
            records=records,  # pyright: ignore[reportArgumentType]  (the part that is used)
            journal=journal,  # pyright: ignore[reportArgumentType]  (the part that is used)
            facts=InstallationInfo(address=ADDRESS, ui_url="http://ui:1/"),
            waits=waits,
        )

    return make


@pytest.fixture
async def site(
    server: Client,
    blobs: MemoryBlobs,
    records: MemoryRecords,
    journal: MemoryJournal,
    gateway_to: MakeGateway,
) -> AsyncIterator[Site]:
    async def connect() -> Client:
        return server

    site = Site(
        client=server,
        blobs=blobs,
        records=records,
        journal=journal,
        gateway=gateway_to(connect),
        impatient=gateway_to(connect, IMPATIENT),
        workers=AsyncExitStack(),
    )
    try:
        yield site
    finally:
        for run in list(records.rows):
            await _end(server, run)
        await site.rest()


async def _end(client: Client, run: str) -> None:
    try:
        await client.get_workflow_handle(run).terminate()
    except RPCError:
        return


@pytest.fixture
async def away(gateway_to: MakeGateway) -> Gateway:
    """A gateway whose server cannot be reached."""

    async def connect() -> Client:
        raise RuntimeError("connection refused")

    return gateway_to(connect)
