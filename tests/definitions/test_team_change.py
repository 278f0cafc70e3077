"""The harness on a real repository: plan, change, review, rework, approval, and green tests."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation
from ready_made import example

from perdure.domain.result import RunResult
from perdure.domain.run import RolesSpec
from perdure.interfaces.submission import store


@pytest.fixture
async def site(bare: Installation) -> AsyncIterator[Installation]:
    async with bare.worker():
        yield bare


async def suite(folder: Path) -> int:
    """The exit code of the repository's own tests, run by the real pytest."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:randomly", "."),
        cwd=folder,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait()


async def finished(site: Installation, folder: Path) -> tuple[RunResult, RolesSpec]:
    submission = await example("team-change", folder)
    assert submission.notes == ()
    spec = await store(submission, site.parts.stores.blobs)
    assert isinstance(spec, RolesSpec)
    return await site.gateway.result(await site.gateway.start(spec)), spec


async def test_a_team_changes_a_repository_until_its_review_approves(
    site: Installation, tmp_path: Path
) -> None:
    result, spec = await finished(site, tmp_path)
    assert (result.outcome, result.reason) == ("accepted", "approved"), result.explanation
    first, second = await site.records(result.id)
    assert [stage.name for stage in first.stages] == ["plan", "code", "review"]
    assert {stage.status for stage in (*first.stages, *second.stages)} == {"completed"}
    assert [one.kind for one in (*first.verdicts, *second.verdicts)] == ["rejected", "approved"]
    assert "divides by zero" in str(first.findings[0]["title"])

    repository = Path(spec.workspace or "")
    assert await suite(repository) == 1  # the user's files are as they were
    tree = next(item.ref for item in result.artifacts if item.kind == "tree")
    workspaces = site.parts.workspaces
    base = await workspaces.base(run=result.id)
    changed = await workspaces.apply(base=base.hash, tree=tree, target=str(repository))
    assert changed == ("shares.py",)
    assert await suite(repository) == 0
