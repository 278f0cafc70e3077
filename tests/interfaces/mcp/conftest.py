"""The MCP door over a whole installation whose default model plays a loop of two stages."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from installation import Installation
from loop_scripts import PAIR, pair_script
from rest import scripted, services_of

from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.mcp.handler import McpSite
from perdure.submission.types import Surroundings


@dataclass
class Door:
    """The installation, and the door over it."""

    site: Installation
    mcp: McpSite


def door_over(site: Installation, *, tokens: bool = False) -> Door:
    """The MCP door of an installation."""
    services = services_of(site)

    @asynccontextmanager
    async def opened(start: bool):
        yield services

    def loops_of(services, by):
        return LoopService(
            gateway=services.gateway,
            definitions_kept=services.definitions(),
            records=services.records,
            blobs=services.blobs,
            journal=services.journal,
            surroundings=Surroundings(folder=None, default_model=site.parts.default_model),
            by=by,
        )

    return Door(
        site,
        McpSite(
            opened=opened,
            loops_of=loops_of,
            user="tester",
            now=lambda: datetime.now(UTC),
            version="0",
            tokens=tokens,
        ),
    )


@pytest.fixture
async def acted(server, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation with a worker, the loop `pair`, and a model that plays it."""
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path / "home", address, pair_script()) as site, site.worker():
        loops = site.home / "loops"
        loops.mkdir()
        (loops / "pair.yaml").write_text(yaml.safe_dump(PAIR))
        yield site


@pytest.fixture
def door(acted: Installation) -> Door:
    """The door as over standard streams."""
    return door_over(acted)


@pytest.fixture
def guarded(acted: Installation) -> Door:
    """The door as over HTTP, where every request carries a token."""
    return door_over(acted, tokens=True)


@pytest.fixture
def over() -> Callable[..., Door]:
    """Makes the door of another installation."""
    return door_over
