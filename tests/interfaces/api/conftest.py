"""A REST door over a real installation; its default model says `an answer` for ever."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

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
