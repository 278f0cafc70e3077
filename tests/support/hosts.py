"""Hosts of one installation: each has a home of its own, and links that a test may cut.

They share one PostgreSQL, one server and one provider, as hosts in different rooms would.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from accepting import accepting
from ground import Ground, ground
from installation import WorkerProcess
from postgresql import postgresql
from provider import PRICE_SHEET
from temporalio.testing import WorkflowEnvironment

CHUNK = 65_536
WRONG_CLOCK = Path(__file__).parent / "wrong_clock"


class Link:
    """A way to a service that passes everything on; while it is cut, nothing comes through.

    Nobody is told: packets of a network that has gone are not refused, they are lost.
    """

    def __init__(self, host: str | None, port: int, socket: str = "") -> None:
        self._target = (host, port)
        self._socket = socket
        self._whole = asyncio.Event()
        self._whole.set()

    def cut(self) -> None:
        """Lose everything from now on."""
        self._whole.clear()

    def mend(self) -> None:
        """Let through what waits, and all that comes."""
        self._whole.set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[int]:
        """Listen on a free port."""
        async with accepting(self._connected) as port:
            yield port

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        try:
            theirs, ours = await self._service()
        except OSError:
            return  # it is away: whoever called is hung up on
        pumps = [
            asyncio.create_task(self._pump(reader, ours)),
            asyncio.create_task(self._pump(theirs, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            ours.close()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _service(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._socket:
            return await asyncio.open_unix_connection(self._socket)
        return await asyncio.open_connection(*self._target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._whole.wait()
            writer.write(data)
            await writer.drain()


@dataclass(frozen=True)
class Host:
    """A worker process with a home of its own."""

    home: Path
    worker: WorkerProcess
    to_server: Link
    to_store: Link

    def folders(self) -> list[Path]:
        """The working folders that are here."""
        return sorted(self.home.glob("work/*/work"))


@dataclass(frozen=True)
class Hosts:
    """Some hosts and what they share."""

    ground: Ground
    hosts: Sequence[Host]


@asynccontextmanager
async def hosts(
    folder: Path,
    address: str,
    database: str,
    *,
    count: int = 2,
    minutes: Sequence[float] = (),
    trees: Sequence[Path | None] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> AsyncGenerator[Hosts]:
    """Hosts whose workers poll.

    Args:
        folder: for all that they write.
        address: of the Temporal server.
        database: the URL of a PostgreSQL database.
        count: how many hosts.
        minutes: by how many minutes the clock of each is wrong.
        trees: the sources of another version that a host runs.
        environment: more of it for the workers.
        settings: of the installation.
    """
    async with (
        ground(folder, address, database_url=database, **settings) as made,
        AsyncExitStack() as stack,
    ):
        wrong, other = [*minutes, *[0.0] * count], [*trees, *[None] * count]
        opened = [
            _host(
                made,
                folder / f"host-{n}",
                address,
                database,
                minutes=wrong[n],
                tree=other[n],
                more=environment,
            )
            for n in range(count)
        ]
        yield Hosts(made, [await stack.enter_async_context(one) for one in opened])


@asynccontextmanager
async def _host(
    made: Ground,
    home: Path,
    address: str,
    database: str,
    *,
    minutes: float,
    tree: Path | None,
    more: Mapping[str, str],
) -> AsyncGenerator[Host]:
    home.mkdir()
    (home / "prices.yaml").write_text(PRICE_SHEET)
    name, port = address.split(":")
    to_server, to_store = Link(name, int(port)), _to(database)
    async with to_server.serving() as server, to_store.serving() as store:
        environment = {**made.environment(), **more}
        sources = [str(tree)] if tree is not None else []
        environment["PYTHONPATH"] = os.pathsep.join(
            (str(WRONG_CLOCK), *sources, environment["PYTHONPATH"])
        )
        async with made.site.worker_process(
            **environment,
            WRONG_HOURS=str(minutes / 60),
            PERDURE_HOME=str(home),
            PERDURE_DATABASE_URL=f"postgresql://postgres@127.0.0.1:{store}/postgres",
            TEMPORAL_ADDRESS=f"127.0.0.1:{server}",
        ) as worker:
            yield Host(home, worker, to_server, to_store)


def _to(database: str) -> Link:
    """The way to a database that listens on a socket of this machine, or on a port."""
    found = urlsplit(database)
    folder = parse_qs(found.query).get("host", [""])[0]
    port = found.port or 5432
    return Link(found.hostname, port, f"{folder}/.s.PGSQL.{port}" if folder else "")


@pytest.fixture
async def two_hosts(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hosts]:
    """Two hosts on a server and an empty database."""
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    address = server.client.service_client.config.target_host
    with postgresql() as database:
        async with hosts(tmp_path, address, database) as made:
            yield made
