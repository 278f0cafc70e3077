"""Every operation of the document, with requests that nobody would write by hand."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rest import ANSWERS, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.rest.settings import ApiRules

# Each start asks every queue whether somebody is there, and leaves a run to be followed.
QUICK = ("--phases=coverage", "--exclude-operation-id=start_api_v1_loops_post")
FULL = ("--phases=examples,coverage,fuzzing,stateful", "--max-examples=25")


# A specification or definition that its schema lets pass may still be refused for what it means,
# and numbers written as text are read leniently there. What a run has comes while it works: it is
# no fault that one just started has no output yet. (A check that is named among the arguments, be
# it by `--checks=all`, is made of every operation, whatever stands here.)
CONFIGURATION = """
[auth.openapi.bearer]
bearer = "{token}"

[checks]
enabled = true

[checks.positive_data_acceptance]
enabled = false

[checks.negative_data_rejection]
enabled = false

[[operations]]
include-path-regex = "^/api/v1/loops/[^/]+/"

[operations.checks.ensure_resource_availability]
enabled = false
"""


async def probed(rest: Rest, folder: Path, *options: str) -> tuple[int, str]:
    """Run schemathesis against a served installation."""
    config = folder / "schemathesis.toml"
    config.write_text(CONFIGURATION.format(token=await rest.token("admin")))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(config),
        "run", f"{rest.url}/api/v1/openapi.json",
        "--seed=1", "--no-color",
        "--request-timeout=60", "--max-response-time=60", "--suppress-health-check=all",
        *options, cwd=folder, env={**os.environ, "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """A door whose document anybody may read, since the tool reads it without a token."""
    rules = ApiRules(rate_per_minute=1_000_000, public=frozenset({"docs"}))
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, ANSWERS) as site,
        site.worker(),
        served(site, rules) as door,
    ):
        yield door


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_no_request_breaks_the_door(rest: Rest, tmp_path: Path) -> None:
    options = FULL if os.environ.get("TEST_API") == "full" else QUICK
    code, output = await probed(rest, tmp_path, *options)
    assert code == 0, output[-8_000:]
