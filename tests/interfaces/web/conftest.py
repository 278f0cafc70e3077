"""A served installation, and people at its page."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from installation import Installation
from page_visit import Visitor, visitor
from rest import Rest, served
from temporalio.testing import WorkflowEnvironment


@pytest.fixture
def visited(request: pytest.FixtureRequest, server: WorkflowEnvironment) -> Installation:
    """The installation with a worker where a test asks for `site`; most pages need none."""
    del server  # named, so that these tests are known as costly before they run
    name = "site" if "site" in request.fixturenames else "unmanned"
    found = request.getfixturevalue(name)
    assert isinstance(found, Installation)
    return found


@pytest.fixture
async def rest(visited: Installation) -> AsyncIterator[Rest]:
    async with served(visited) as found:
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
