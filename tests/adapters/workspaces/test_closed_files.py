"""Files and folders that a run closed to itself: they are named, and nothing else is lost."""

import json
import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from memory_blobs import MemoryBlobs
from unprivileged import unprivileged

from perdure.adapters.workspaces.local import LocalWorkspaces
from perdure.domain.tools.workspaces import StoredFiles

GIVEN = {"readme.md": "given", "src/main.py": "given", "src/deep/a.py": "given"}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull}


@pytest.fixture(params=["plain", "repository"])
def source(request: pytest.FixtureRequest) -> Generator[Path]:
    """A user's folder, whose owner permissions bind."""
    with unprivileged() as folder:
        made = folder / "user"
        for path, text in GIVEN.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_text(text)
        if request.param == "repository":
            for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
                named = ("git", "-c", "user.name=n", "-c", "user.email=n@example.org", *words)
                subprocess.run(named, cwd=made, env=ENVIRONMENT, check=True)
        yield made


class Work:
    """A run's working copy."""

    def __init__(self, source: Path) -> None:
        self.blobs: Any = MemoryBlobs()
        self.workspaces = LocalWorkspaces(source.parent / "home", self.blobs)
        self.source = source

    async def begin(self) -> Path:
        root = await self.workspaces.prepare(run="r1", source=str(self.source), writable=True)
        self.root = Path(root)
        (self.root / "work.txt").write_text("work")
        return self.root

    async def snapshot(self) -> tuple[StoredFiles, dict[str, str]]:
        stored = await self.workspaces.snapshot(run="r1", root=str(self.root))
        tree = json.loads(await self.blobs.get_text(stored.tree.hash))
        return stored, {
            path: await self.blobs.get_text(leaf["blob"]) for path, leaf in tree.items()
        }


async def test_a_file_that_may_not_be_read_is_named_and_a_known_one_stays(source: Path) -> None:
    work = Work(source)
    root = await work.begin()
    (root / "new.txt").write_text("new")
    (root / "src" / "main.py").write_text("changed")
    for name in ("new.txt", "src/main.py"):
        (root / name).chmod(0)
    stored, files = await work.snapshot()
    assert stored.left_out == ("new.txt (may not be read)", "src/main.py (may not be read)")
    assert files == {**GIVEN, "work.txt": "work"}
    (root / "new.txt").chmod(0o600)
    stored, files = await work.snapshot()
    assert stored.left_out == ("src/main.py (may not be read)",)
    assert files == {**GIVEN, "work.txt": "work", "new.txt": "new"}


@pytest.mark.parametrize("mode", [0o000, 0o600, 0o300])
async def test_a_folder_that_may_not_be_listed_is_named_and_what_is_known_of_it_stays(
    source: Path, mode: int
) -> None:
    work = Work(source)
    root = await work.begin()
    (root / "made").mkdir()
    (root / "made" / "new.txt").write_text("new")
    for name in ("made", "src"):
        (root / name).chmod(mode)
    stored, files = await work.snapshot()
    assert files == {**GIVEN, "work.txt": "work"}
    assert {said.split("/")[0].split(" ")[0] for said in stored.left_out} >= {"made"}
    assert all(said.endswith(" (may not be read)") for said in stored.left_out)


@pytest.mark.parametrize("mode", [0o000, 0o600])
async def test_a_restore_leaves_what_is_closed_as_it_is(source: Path, mode: int) -> None:
    work = Work(source)
    root = await work.begin()
    base = await work.workspaces.base(run="r1")
    (root / "readme.md").write_text("changed")
    (root / "new.txt").write_text("new")
    for name in ("new.txt", "src"):
        (root / name).chmod(mode if name == "src" else 0)
    await work.workspaces.restore(run="r1", root=str(root), tree=base.hash)
    assert (root / "readme.md").read_text() == "given"
    assert not (root / "work.txt").exists()
    assert (root / "new.txt").exists()


@pytest.mark.parametrize("closed", ["", "src", "src/deep"])
async def test_a_closed_folder_is_released(source: Path, closed: str) -> None:
    work = Work(source)
    root = await work.begin()
    (root / closed).chmod(0)
    await work.workspaces.release(run="r1")
    assert not root.exists()
    assert await work.workspaces.runs() == {}
