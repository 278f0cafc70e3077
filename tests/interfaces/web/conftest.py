"""A served installation, and people at its page."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from installation import Installation
from page_visit import Visitor, visitor
from rest import Rest, served


@pytest.fixture
async def rest(bare: Installation) -> AsyncIterator[Rest]:
    """Without a worker: pages that show no run need none."""
    async with served(bare) as found:
        yield found


@pytest.fixture
async def guest(rest: Rest) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody who has not signed in."""
    async with httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
async def person(rest: Rest) -> AsyncIterator[Visitor]:
    """Somebody who signed in and may do everything."""
    async with visitor(rest, await rest.token("admin")) as found:
        yield found
