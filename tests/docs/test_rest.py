"""The page on the REST API names every operation and scope, and its walk through works."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.domain.installation.access import SCOPES
from perdure.interfaces.rest.app import ROUTERS

PAGE = (Path(__file__).parents[2] / "docs" / "rest.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (GET|POST|PUT|PATCH|DELETE) \| `([^`]+)` \|", re.MULTILINE)
ANSWERS = {"replies": [{"text": "pine, tamarisk, palm"}], "exhausted": "repeat_last"}


def test_every_operation_is_on_the_page() -> None:
    told = {(method, f"/api/v1{path}") for method, path in ROW.findall(PAGE)}
    told |= {("GET", path) for path in ("/healthz", "/readyz", "/metrics")}
    told |= {("HEAD", path) for path in ("/healthz", "/readyz")}
    real = {
        (method, route.path)  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    assert told == real


def test_every_scope_is_on_the_page() -> None:
    tokens = PAGE.partition("\n## Tokens\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z]+)` \| [a-z]", tokens, re.MULTILINE)
    assert tuple(rows) == SCOPES


@pytest.fixture
async def door(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, ANSWERS) as site,
        site.worker(),
        served(site) as made,
    ):
        yield made


@pytest.mark.long
async def test_the_walk_through_works_as_it_stands(door: Rest) -> None:
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    script = script.replace("http://127.0.0.1:8237", door.url)
    process = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", script,
        env={
            **os.environ,
            **door.site.settings.as_environment(),
            "TEMPORAL_ADDRESS": door.site.address,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "no_proxy": "*",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert b"event: ended" in output
    assert b'"output":"pine, tamarisk, palm"' in output
