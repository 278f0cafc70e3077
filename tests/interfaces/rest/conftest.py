"""A REST door over a real installation; its default model says `an answer` for ever."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation
from rest import ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.rest.settings import ApiRules

ANSWERS = {"replies": [{"text": "an answer"}], "exhausted": "repeat_last"}


@pytest.fixture
async def unmanned(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without workers."""
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path / "home", address, ANSWERS) as made:
        yield made


@pytest.fixture
async def rest(unmanned: Installation) -> AsyncIterator[Rest]:
    """Its REST door, with one worker behind it."""
    async with unmanned.worker(), served(unmanned) as door:
        yield door


@pytest.fixture
async def door(unmanned: Installation) -> AsyncIterator[Rest]:
    """Its REST door, without any worker."""
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
