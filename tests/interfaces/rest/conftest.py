"""A REST door over a real installation; its default model says `an answer` for ever."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import IN_VAIN, Installation
from rest import ANSWERS, ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.rest.settings import ApiRules


@pytest.fixture
async def unmanned(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without workers."""
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path / "home", address, ANSWERS, waits=IN_VAIN) as made:
        yield made


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """The REST door of an installation with one worker."""
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, ANSWERS) as made,
        made.worker(),
        served(made) as door,
    ):
        yield door


@pytest.fixture
async def door(unmanned: Installation) -> AsyncIterator[Rest]:
    """The REST door of an installation without workers."""
    async with served(unmanned) as made:
        yield made


@pytest.fixture
async def asking(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """A door whose model wants to write a file; starters do not approve for themselves."""
    address = server.client.service_client.config.target_host
    rules = ApiRules(rate_per_minute=100_000, separate_approver=True)
    async with (
        scripted(tmp_path / "home", address, ASKING) as site,
        site.worker(),
        served(site, rules) as door,
    ):
        yield door
