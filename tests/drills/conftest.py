"""Fixtures for drills: the life of an installation, not the death of a process.

A drill upgrades, takes a store away, collects garbage, floods, resets or restores, and then shows
that the result is that of the undisturbed run, that the books agree with the provider's ledger, and
that nothing is left running. The ground is that of the failure tests: a real server, and a provider
that writes its ledger before it answers.
"""

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ground import unserved as drill
from holding import holding
from installation import Installation, installation
from object_store import bucket, faulty, s3_server
from postgresql import postgresql_server, postgresql_url
from temporalio.testing import WorkflowEnvironment

__all__ = [
    "bucket", "drill", "faulty", "holding", "postgresql_server", "postgresql_url", "s3_server",
]  # fmt: skip


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.slow),
        pytest.param("sqlite-sealed", marks=pytest.mark.slow),
        "postgresql-sealed",
        pytest.param("s3", marks=pytest.mark.slow),
        pytest.param("s3-sealed", marks=pytest.mark.slow),
    ]
)
async def kept(
    request: pytest.FixtureRequest,
    server: WorkflowEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Installation]:
    """An installation without workers on each store, with and without an encryption key."""
    store, _, sealed = request.param.partition("-")
    settings: dict[str, str] = {}
    if store == "postgresql":
        settings["database_url"] = request.getfixturevalue("postgresql_url")
    if store == "s3":
        settings["blobs"] = f"s3://{request.getfixturevalue('bucket')}/drill"
    if sealed:
        monkeypatch.setenv("DRILL_KEY", base64.b64encode(bytes(range(32))).decode())
        settings["encryption_key"] = "env:DRILL_KEY"
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address, timing=None, **settings) as made:
        yield made
