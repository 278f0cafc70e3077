"""A hostile repository has no effect: not through the shell tool, not through working copies."""

import asyncio
import os
import time

import pytest
from enclosure import needs_bubblewrap
from memory_blobs import MemoryBlobs

from perdure.adapters.git.run_git import run_git
from perdure.adapters.git.safe_repository import find_repository, read_settings, shadow
from perdure.adapters.tools.shell.git import git
from perdure.adapters.tools.shell.grammar import split
from perdure.adapters.workspaces.local import LocalWorkspaces
from perdure.adapters.workspaces.snapshots import list_files
from perdure.adapters.workspaces.working_copies import add_worktree, copy_files, remove_worktree
from perdure.domain.foundation.errors import ToolFailure

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
    monkeypatch.setattr("perdure.adapters.git.run_git.OVERRIDES", ())
    hostile.clear()
    repository = find_repository(str(hostile.root))
    assert repository is not None
    with shadow(repository, await read_settings(repository)) as shown:
        for line in ("status", "diff", "log -p", "blame a.txt"):
            output = await run_git(line.split(), cwd=str(hostile.root), extra=shown.environment)
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


def _link_below(name):
    def change(hostile, other):
        place = hostile / ".git" / name
        if place.is_dir() and not place.is_symlink():
            place = place / "there"
        place.unlink(missing_ok=True)
        source = other / ".git" / name
        place.symlink_to(source if source.exists() else other / ".git" / "HEAD")

    change.__name__ = f"_link_below_{name.replace('/', '_')}"
    return change


def _common_folder(hostile, other):
    (hostile / ".git" / "commondir").write_text(f"{other}/.git\n")


def _web_alternates(hostile, other):
    (hostile / ".git" / "objects" / "info" / "http-alternates").write_text(f"{other}/.git\n")


def _pipe(hostile, other):
    os.mkfifo(hostile / ".git" / "refs" / "heads" / "pipe")


CHANGES = [
    _link_objects,
    _alternates,
    _web_alternates,
    _pointing_file,
    _linked,
    _common_folder,
    _pipe,
    *map(
        _link_below,
        ["refs/heads", "refs", "objects/pack", "packed-refs", "info/exclude", "logs", "index"],
    ),
]


@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_is_written_into_another_repository(hostile, tmp_path, change):
    other = _other(hostile, tmp_path)
    change(hostile.root, other)
    before = _files(other)
    made = LocalWorkspaces(tmp_path / "home", MemoryBlobs())  # pyright: ignore[reportArgumentType]
    root = await made.prepare(run="r", source=str(hostile.root), writable=True)
    assert not os.path.lexists(os.path.join(root, ".git"))
    await made.release(run="r")
    assert _files(other) == before


async def test_git_is_not_waited_for_without_end(hostile, tmp_path, monkeypatch):
    _pipe(hostile.root, tmp_path)
    monkeypatch.setattr("perdure.adapters.git.run_git.WALL_S", 1.0)
    with pytest.raises(ToolFailure, match="did not end within 1 s"):
        await run_git(["show-ref"], cwd=str(hostile.root))


@pytest.mark.long
@needs_bubblewrap
@pytest.mark.parametrize("change", [change for change in CHANGES if change is not _pipe])
async def test_git_sees_the_workspace_alone_without_the_checks(hostile, tmp_path, change):
    """Defence in depth: what a link or a note leads to is not there where git runs."""
    other = _other(hostile, tmp_path)
    change(hostile.root, other)
    root = str(hostile.root)
    for line in ("log --all -p", "show-ref", "cat-file -p topic:secret.txt", "log topic"):
        for before in ([], [f"--git-dir={root}/.git"]):
            output = await run_git([*before, *line.split()], cwd=root, view=(root,))
            assert SECRET not in output.stdout.decode()


@pytest.mark.parametrize("change", [_linked, _common_folder])
async def test_those_ways_lead_there_without_either(hostile, tmp_path, change):
    """Without this the test before could pass because nothing was to be seen."""
    other = _other(hostile, tmp_path)
    change(hostile.root, other)
    output = await run_git(["log", "topic"], cwd=str(hostile.root))
    assert SECRET in output.stdout.decode()


SECRET = "canary-5d21"


def _other(hostile, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    hostile.git("init", "-q", "-b", "topic", str(other))
    (other / "secret.txt").write_text(SECRET)
    hostile.git("-C", str(other), "add", "secret.txt")
    hostile.git("-C", str(other), "commit", "-q", "-m", SECRET)
    return other


@pytest.mark.parametrize("change", CHANGES)
async def test_no_other_repository_can_be_shown(hostile, tmp_path, change):
    other = _other(hostile, tmp_path)
    change(hostile.root, other)
    with pytest.raises(ToolFailure, match=r"not the top.*Whoever starts the run can"):
        await git(split("log"), root=str(hostile.root))


async def test_honest_repositories_stay_readable(hostile, tmp_path):
    """Links among hooks are common, and a worktree's own repository may have any."""
    hooks = hostile.root / ".git" / "hooks"
    (hooks / "pre-commit").symlink_to(tmp_path / "evil")
    side = tmp_path / "side"
    hostile.git("-c", "core.fsmonitor=false", "worktree", "add", "-q", str(side), check=False)
    for root in (hostile.root, side):
        assert "second" in await git(split("log"), root=str(root))


async def test_a_submodule_is_refused_with_the_way_out(hostile, tmp_path):
    (hostile.root / "deps").mkdir()
    (hostile.root / "deps" / ".git").write_text("gitdir: ../.git/modules/deps\n")
    with pytest.raises(ToolFailure, match=r"submodule.*repository above"):
        await git(split("log"), root=str(hostile.root / "deps"))


@pytest.fixture
def with_secrets(hostile):
    """A repository whose history holds files of secrets."""
    (hostile.root / ".gitattributes").unlink()
    inside = ("conf/.env/keys", "prod.d/PROD.env/deep/token")
    for name in (".env", "prod.env", ".env.local", ".ENV", *inside):
        (hostile.root / name).parent.mkdir(parents=True, exist_ok=True)
        (hostile.root / name).write_text(f"{SECRET}\n")
        hostile.git("-c", "core.fsmonitor=false", "add", name, check=False)
    hostile.git("-c", "core.fsmonitor=false", "commit", "-q", "-m", "third", check=False)
    blob = hostile.git("rev-parse", "HEAD:prod.env").stdout.strip()
    hostile.git("tag", "blob", blob)
    hostile.git("tag", "-a", "-m", "x", "named", blob)
    return blob


SHOWING = [
    "show HEAD", "log -p", "show {blob}", "show blob", "show named", "show HEAD^{tree}",
    "log -p --all",
    "diff HEAD~1 HEAD", "diff HEAD~1", "diff HEAD~1..HEAD", "show {blob}..HEAD", "diff {blob} blob",
    "log -p {blob}", "blame prod.env", "show HEAD:prod.env", "show HEAD:./prod.env", "log blob",
    "show {short}", "show -s {blob}", "log --oneline -S SECRET-VALUE", "show HEAD -- prod.env",
    "show HEAD -- conf", "log -p prod.d", "diff HEAD~1 HEAD -- conf", "show HEAD:conf/.env/keys",
]  # fmt: skip


@pytest.mark.parametrize("line", SHOWING)
async def test_secrets_of_the_history_stay_there(hostile, with_secrets, line):
    line = line.replace("{blob}", with_secrets).replace("{short}", with_secrets[:8])
    line = line.replace("SECRET-VALUE", SECRET)
    try:
        text = await git(split(line.replace("^{tree}", "'^{tree}'")), root=str(hostile.root))
    except ToolFailure as failure:
        text = failure.message
    assert SECRET not in text
    assert "third" not in text or "-S" not in line


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


@pytest.mark.parametrize("stalled", [False, True], ids=["at once", "on a busy machine"])
async def test_git_can_write_nothing(hostile, tmp_path, monkeypatch, stalled):
    start = asyncio.create_subprocess_exec

    async def late(*words, **options):
        process = await start(*words, **options)
        time.sleep(0.3)  # noqa: ASYNC251  the worker stands, and git does not wait for it
        return process

    if stalled:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", late)
    output = await run_git(
        ["log", f"--output={tmp_path}/written", "--no-textconv", "--no-ext-diff", "-p"],
        cwd=str(hostile.root),
        extra={"GIT_DIR": str(hostile.root / ".git")},
    )
    # Where the limit's signal is ignored, git itself may overlook that it wrote nothing.
    assert output.stdout == b""
    written = tmp_path / "written"
    assert not written.exists() or written.read_bytes() == b""


def _files(root):
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_place_without_a_repository(tmp_path):
    assert find_repository(str(tmp_path)) is None

    assert find_repository(str(tmp_path / "absent")) is None


def test_a_worktree_may_name_its_repository_by_relative_paths(hostile):
    """As git writes it with `worktree.useRelativePaths`, since 2.48."""
    side = hostile.root.parent / "side"
    hostile.git("-c", "core.fsmonitor=false", "worktree", "add", "-q", str(side), check=False)
    own = hostile.root / ".git" / "worktrees" / "side"
    (side / ".git").write_text(f"gitdir: {os.path.relpath(own, side)}\n")
    (own / "gitdir").write_text(f"{os.path.relpath(side / '.git', own)}\n")
    found = find_repository(str(side))
    assert found is not None
    assert found.common == hostile.root / ".git"
    (own / "gitdir").write_text(f"{os.path.relpath(hostile.root / 'side', own)}\n")
    assert find_repository(str(side)) is None
