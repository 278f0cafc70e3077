"""The harness on a real repository: plan, change, review, rework, approval, and green tests."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from enclosure import needs_bubblewrap
from installation import Installation
from ready_made import example

from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import ModelsSpec
from perdure.interfaces.definitions import example_folder
from perdure.submission.loading import store

SUITE = "pytest -q -p no:randomly -p no:cacheprovider"


@pytest.fixture
async def site(bare: Installation) -> AsyncIterator[Installation]:
    async with bare.worker():
        yield bare


@pytest.fixture
async def shell_site(
    bare: Installation, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    """A worker that offers a shell, in which the tests of the repository can run."""
    beside = Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join([str(beside), os.environ["PATH"]]))
    allowed = {"allow_commands": ("shell.full", "pytest"), "sandbox_paths": (str(beside.parent),)}
    async with bare.worker(**allowed):
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


@pytest.mark.long
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


@pytest.mark.slow
@needs_bubblewrap
async def test_the_coder_runs_the_tests_where_it_has_a_shell(
    shell_site: Installation, tmp_path: Path
) -> None:
    """The script of the example, with the suite run before each report of the coder."""
    submission = await example("team-change", tmp_path)
    given = yaml.safe_load((example_folder("team-change") / "script.yaml").read_text("utf-8"))
    replies: list[object] = []
    for reply in given["replies"]:
        if reply["when"]["role"] == "coder" and "text" in reply:
            run = {"name": "shell.full", "arguments": {"command": SUITE}}
            replies.append({"when": reply["when"], "tool_calls": [run]})
        replies.append(reply)
    models = {"executor": await shell_site.script({**given, "replies": replies})}
    spec = submission.spec.model_copy(update={"models": ModelsSpec.model_validate(models)})
    result = await shell_site.gateway.result(await shell_site.gateway.start(spec))
    assert (result.outcome, result.reason) == ("accepted", "approved"), result.explanation
    assert result.tools_used["shell.full"] == 2
    said = [text async for text in shell_results(shell_site, result.id)]
    assert [text.splitlines()[0].split(";")[0] for text in said] == ["[exit code 1", "[exit code 0"]
    assert "4 passed" in said[1]


async def shell_results(site: Installation, run: str) -> AsyncIterator[str]:
    """What the shell gave back, stage by stage."""
    for record in await site.records(run):
        for stage in record.stages:
            for message in await site.parts.stores.transcripts.load(stage.transcript or ""):
                for block in message.blocks:
                    if block.type == "tool_result" and block.name == "shell.full":
                        yield block.text
