"""Files that a snapshot cannot have: the run goes on, its result names them and an event tells."""

from pathlib import Path

import pytest
from agent_runs import call, calls, event_types, results, script, task
from installation import Installation

from perdure.adapters.workspaces import snapshots
from perdure.domain.run.result import RunResult

pytestmark = pytest.mark.long


async def _run(site: Installation, tmp_path: Path, path: str, *, size: int) -> RunResult:
    """A run that writes a good file, and another with so many characters."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("hi")
    replies = script(
        calls(call("fs.write", path="good.txt", content="work", expected_hash="absent")),
        calls(call("fs.write", path=path, content="x" * size, expected_hash="absent")),
        {"text": "Done."},
    )
    given = task(workspace=str(folder), tools={"access": "full"}, learn=False)
    return await site.run(given, replies)


async def test_one_file_that_is_too_large_does_not_cost_the_others(
    site: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "FILE_CAP", 1_000)
    result = await _run(site, tmp_path, "build.bin", size=2_000)
    assert result.outcome == "accepted"
    assert [one.kind for one in result.artifacts] == ["tree", "patch"]
    assert result.unsaved_files == ("build.bin (larger than 1,000 bytes)",)
    assert (await event_types(site, result.id)).count("files_unsaved") == 1


async def test_a_folder_of_which_nothing_can_be_stored_is_told(
    site: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "TREE_CAP", 1_000)
    result = await _run(site, tmp_path, "build.bin", size=2_000)
    assert result.artifacts == ()
    [why] = result.unsaved_files
    assert why.startswith("all files: ") and "larger than 1,000 bytes together" in why
    assert (await event_types(site, result.id)).count("files_unsaved") == 1


async def test_a_path_that_is_too_deep_is_refused_in_words(
    site: Installation, tmp_path: Path
) -> None:
    result = await _run(site, tmp_path, "a/" * 2_000 + "f.txt", size=1)
    assert "2,001 names, and may have 100" in (await results(site, result))[-1].text
    assert [one.kind for one in result.artifacts] == ["tree", "patch"]
    assert result.unsaved_files == ()
