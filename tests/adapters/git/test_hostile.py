"""A hostile repository has no effect: not through the shell tool, not through working copies."""

import os

import pytest

from perdure.adapters.git.process import run_git
from perdure.adapters.git.shadow import find_repository, read_settings, shadow
from perdure.adapters.tools.shell.lexer import split
from perdure.adapters.tools.shell.versioning import git
from perdure.adapters.workspaces.copies import add_worktree, copy_files, remove_worktree
from perdure.adapters.workspaces.listing import list_files
from perdure.domain.errors import ToolFailure

LINES = [
    "status",
    "status --short",
    "log",
    "log -p",
    "log --stat",
    "log --oneline --all",
    "diff",
    "diff HEAD",
    "diff --stat HEAD~1",
    "diff --cached",
    "show",
    "show HEAD",
    "show HEAD:a.txt",
    "blame a.txt",
    "branch",
    "branch -a -v",
    "ls-files",
    "ls-files --modified --others",
]


@pytest.mark.parametrize(
    ("arguments", "trace"),
    [
        (["status"], "fsmonitor"),
        (["diff"], "clean"),
        (["diff"], "driver"),
        (["log", "-p"], "textconv"),
        (["log"], "--keyid-format=long"),
        (["worktree", "add", "../elsewhere"], "hook-post-checkout"),
    ],
    ids=["fsmonitor", "filter", "driver", "textconv", "signature", "hook"],
)
def test_the_traps_work_on_plain_git(hostile, arguments, trace):
    """Without this the other tests could pass because nothing was set."""
    hostile.clear()
    hostile.git(*arguments, check=False)
    assert trace in hostile.found()


@pytest.mark.parametrize("line", LINES)
async def test_reading_verbs_run_nothing(hostile, line):
    hostile.clear()
    before = _files(hostile.root)
    text = await git(split(line), root=str(hostile.root))
    assert text
    assert hostile.found() == []
    assert _files(hostile.root) == before


async def test_a_missing_object_is_not_fetched(hostile):
    """A partial clone would ask its remote, here a program, for what it lacks."""
    blob = hostile.git("rev-parse", "HEAD:b.bin").stdout.strip()
    (hostile.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    hostile.clear()
    with pytest.raises(ToolFailure):
        await git(split("show HEAD:b.bin"), root=str(hostile.root))
    assert hostile.found() == []


async def test_working_copies_run_nothing(hostile, tmp_path):
    hostile.clear()
    repository = find_repository(str(hostile.root))
    copy = str(tmp_path / "copy" / "work")
    os.mkdir(tmp_path / "copy")
    assert repository is not None
    paths = await list_files(str(hostile.root))
    assert await add_worktree(repository, copy)
    copy_files(str(hostile.root), copy, paths)
    assert "new.txt" in await list_files(copy)
    assert "three" in await git(split("diff"), root=copy)
    await remove_worktree(str(hostile.root), copy)
    assert not os.path.exists(copy)
    assert not list((hostile.root / ".git").glob("worktrees/*"))
    assert hostile.found() == []


@pytest.mark.parametrize("verb", ["status", "log", "ls-files"])
async def test_the_overrides_hold_without_the_shadow(hostile, verb):
    """Defence in depth: the fixed environment alone stops what needs no driver's name."""
    hostile.clear()
    await run_git([verb], cwd=str(hostile.root), extra={"GIT_DIR": str(hostile.root / ".git")})
    assert {"fsmonitor", "pager", "--keyid-format=long"}.isdisjoint(hostile.found())


async def test_the_shadow_holds_without_the_overrides(hostile, monkeypatch):
    monkeypatch.setattr("perdure.adapters.git.process.OVERRIDES", ())
    hostile.clear()
    repository = find_repository(str(hostile.root))
    assert repository is not None
    with shadow(repository, await read_settings(repository)) as environment:
        for line in ("status", "diff", "log -p", "blame a.txt"):
            output = await run_git(line.split(), cwd=str(hostile.root), extra=environment)
            assert output.code == 0
    assert hostile.found() == []


async def test_only_harmless_settings_are_read(hostile):
    repository = find_repository(str(hostile.root))
    assert repository is not None
    settings = await read_settings(repository)
    assert set(settings) <= {"core.filemode", "core.symlinks", "core.ignorecase"}


def _link_objects(hostile, other):
    (hostile / ".git" / "objects").rename(hostile / ".git" / "mine")
    (hostile / ".git" / "objects").symlink_to(other / ".git" / "objects")


def _alternates(hostile, other):
    (hostile / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")


def _pointing_file(hostile, other):
    (hostile / ".git").rename(hostile / "old")
    (hostile / ".git").write_text(f"gitdir: {other}/.git\n")


def _linked(hostile, other):
    (hostile / ".git").rename(hostile / "old")
    (hostile / ".git").symlink_to(other / ".git")


@pytest.mark.parametrize("change", [_link_objects, _alternates, _pointing_file, _linked])
async def test_no_other_repository_can_be_shown(hostile, tmp_path, change):
    other = tmp_path / "other"
    other.mkdir()
    hostile.git("init", "-q", str(other))
    change(hostile.root, other)
    with pytest.raises(ToolFailure, match="not the top of a git repository"):
        await git(split("log"), root=str(hostile.root))


async def test_output_is_capped_and_the_process_ended(hostile):
    (hostile.root / "big.txt").write_text("line of text\n" * 100_000)
    hostile.git("-c", "core.fsmonitor=false", "add", "big.txt", check=False)
    output = await run_git(
        ["diff", "--no-ext-diff", "--no-index", "/dev/null", "big.txt"],
        cwd=str(hostile.root),
        cap=10_000,
    )
    assert output.cut
    assert len(output.stdout) == 10_000


async def test_git_can_write_nothing(hostile, tmp_path):
    output = await run_git(
        ["log", f"--output={tmp_path}/written", "--no-textconv", "--no-ext-diff", "-p"],
        cwd=str(hostile.root),
        extra={"GIT_DIR": str(hostile.root / ".git")},
    )
    assert output.code != 0
    written = tmp_path / "written"
    assert not written.exists() or written.read_bytes() == b""


def _files(root):
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_place_without_a_repository(tmp_path):
    assert find_repository(str(tmp_path)) is None

    assert find_repository(str(tmp_path / "absent")) is None
