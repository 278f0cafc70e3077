"""Working copies: made once, equal to what the user had, restored, released."""

import asyncio
import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from deep_folders import deepen, removed_again

from perdure.adapters.workspaces import local, snapshots, working_copies
from perdure.adapters.workspaces.local import LocalWorkspaces
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, StoreError

KEPT = {".gitignore", "link", "new.txt", "readme.md", "run.sh", "src/main.py"}


def files(root):
    """All files and links below a folder but git's own."""
    root = Path(root)
    return {
        path.relative_to(root).as_posix(): (
            os.readlink(path) if path.is_symlink() else path.read_bytes()
        )
        for path in root.rglob("*")
        if (path.is_symlink() or path.is_file()) and ".git" not in path.relative_to(root).parts
    }


async def manifest(blobs, ref):
    return json.loads(await blobs.get_text(ref.hash))


async def test_a_repository_becomes_a_worktree_with_uncommitted_changes(
    workspaces, repository, git, blobs
):
    before = files(repository)
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    assert set(files(root)) == KEPT
    assert (Path(root) / "readme.md").read_text() == "# Changed, not committed\n"
    assert os.access(Path(root) / "run.sh", os.X_OK)
    assert git("status", "--short", cwd=root) == git("status", "--short")
    assert files(repository) == before
    base = await manifest(blobs, await workspaces.base(run="r1"))
    assert set(base) == KEPT
    assert base["run.sh"]["mode"] == "100755"
    assert base["link"]["mode"] == "120000"


async def test_a_plain_folder_is_copied(workspaces, folder):
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    assert files(root) == files(folder)
    (Path(root) / "readme.md").write_text("changed")
    assert (folder / "readme.md").read_text() == "# Read me\n"


async def test_a_repository_without_a_commit_is_copied(workspaces, folder, git):
    git("init", "-q")
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    assert files(root) == files(folder)
    assert not (Path(root) / ".git").exists()


async def test_a_worktree_of_the_user_is_a_source_too(workspaces, repository, git, tmp_path):
    other = tmp_path / "other"
    git("worktree", "add", "-q", str(other), "-b", "topic")
    (other / "more.txt").write_text("more\n")
    root = await workspaces.prepare(run="r1", source=str(other), writable=True)
    assert files(root) == files(other)
    await workspaces.release(run="r1")
    assert "r1" not in git("worktree", "list")
    assert (other / "more.txt").exists()


async def test_no_source_gives_an_empty_scratch_folder(workspaces, blobs):
    root = await workspaces.prepare(run="r1", source=None, writable=True)
    assert files(root) == {}
    assert await manifest(blobs, await workspaces.base(run="r1")) == {}


async def test_reading_runs_work_in_place(workspaces, folder):
    root = await workspaces.prepare(run="r1", source=str(folder), writable=False)
    assert root == str(folder)
    with pytest.raises(NotFound, match="no working folder"):
        await workspaces.base(run="r1")
    with pytest.raises(NotFound):
        await workspaces.restore(run="r1", root=root, tree="sha256:x")


async def test_preparing_again_finds_the_same_folder(workspaces, repository, blobs, tmp_path):
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    (Path(root) / "mine.txt").write_text("work of the run")
    (repository / "later.txt").write_text("later")
    again = LocalWorkspaces(tmp_path / "home", blobs)
    assert await again.prepare(run="r1", source=str(repository), writable=True) == root
    assert (Path(root) / "mine.txt").exists()
    assert not (Path(root) / "later.txt").exists()


async def test_parallel_preparations_make_one_folder(workspaces, repository, git):
    roots = await asyncio.gather(
        *(workspaces.prepare(run="r1", source=str(repository), writable=True) for _ in range(4))
    )
    assert len(set(roots)) == 1
    assert len(git("worktree", "list").splitlines()) == 2


async def test_runs_have_folders_of_their_own(workspaces, folder):
    one = await workspaces.prepare(run="a/b", source=str(folder), writable=True)
    two = await workspaces.prepare(run="a-b", source=str(folder), writable=True)
    three = await workspaces.prepare(run="../../x", source=None, writable=True)
    assert len({one, two, three}) == 3
    home = Path(one).parents[1]
    assert all(Path(root).parents[1] == home for root in (two, three))


async def test_a_preparation_that_died_is_made_again(workspaces, repository, monkeypatch, git):
    def fail(*_):
        raise OSError(28, "full")

    with monkeypatch.context() as patched:
        patched.setattr(working_copies, "copy_files", fail)
        with pytest.raises(OSError, match="full"):
            await workspaces.prepare(run="r1", source=str(repository), writable=True)
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    assert set(files(root)) == KEPT
    assert len(git("worktree", "list").splitlines()) == 2


async def test_what_a_killed_worker_left_goes_and_what_another_uses_stays(
    workspaces, repository, blobs, tmp_path, monkeypatch, git
):
    def fail(*_):
        raise OSError(28, "full")

    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    tree = (await workspaces.base(run="r1")).hash
    with monkeypatch.context() as patched:
        patched.setattr(working_copies, "copy_files", fail)
        with pytest.raises(OSError, match="full"):
            await workspaces.prepare(run="r2", source=str(repository), writable=True)
        patched.setattr(local, "remove_folder", fail)
        async with workspaces.checkout(tree=tree):
            pass
    home = tmp_path / "home"
    left = {path.name for path in home.iterdir()}
    assert len(left) == 6, "three folders and their locks"
    other = LocalWorkspaces(home, blobs)
    kept = workspaces._place("r1").name
    async with (
        other.checkout(tree=tree) as checked,
        other._locked(preparing := workspaces._place("r3")),
    ):
        preparing.mkdir()
        await workspaces.remove_unfinished()
        assert set(files(checked)) == set(files(root)) == KEPT
        assert {path.name for path in home.iterdir() if path.is_dir()} == {
            kept, preparing.name, Path(checked).parent.name,
        }  # fmt: skip
    assert len(git("worktree", "list").splitlines()) == 2
    await workspaces.remove_unfinished()
    assert {path.name for path in home.iterdir()} == {kept, f".{kept}.lock"}


async def test_a_lock_goes_with_its_folder_and_no_two_have_it(workspaces, monkeypatch):
    root = await workspaces.prepare(run="r1", source=None, writable=True)
    lock = Path(root).parent.with_name(f".{Path(root).parent.name}.lock")
    await workspaces.release(run="r1")
    assert not lock.exists()
    taken = fcntl.flock

    def removed_meanwhile(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", taken)
        lock.unlink()
        taken(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    await workspaces.prepare(run="r1", source=None, writable=True)
    assert lock.exists()


async def test_a_large_folder_is_refused_by_name(workspaces, folder, monkeypatch):
    monkeypatch.setattr(working_copies.require_size, "__kwdefaults__", {"cap": 1_000})
    (folder / "big.bin").write_bytes(b"x" * 2_000)
    with pytest.raises(InvalidInput, match=r"largest: big\.bin") as caught:
        await workspaces.prepare(run="r1", source=str(folder), writable=True)
    assert "git repository" in caught.value.cure


async def test_a_missing_source_is_refused(workspaces, tmp_path):
    with pytest.raises(InvalidInput, match="is not a folder"):
        await workspaces.prepare(run="r1", source=str(tmp_path / "absent"), writable=True)


@pytest.mark.parametrize("kind", ["folder", "repository"])
async def test_release(workspaces, kind, request, git):
    source = request.getfixturevalue(kind)
    before = files(source)
    root = await workspaces.prepare(run="r1", source=str(source), writable=True)
    await workspaces.release(run="r1")
    await workspaces.release(run="r1")
    assert not Path(root).exists()
    assert files(source) == before
    if kind == "repository":
        assert len(git("worktree", "list").splitlines()) == 1
        assert not (source / ".git" / "worktrees").exists()


async def test_release_after_the_folder_was_removed_by_hand(workspaces, repository, git):
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    shutil.rmtree(root)
    await workspaces.release(run="r1")
    assert len(git("worktree", "list").splitlines()) == 1


async def test_snapshot_and_restore(workspaces, repository):
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    work = Path(root)
    (work / "src" / "main.py").write_text("print(2)\n")
    (work / "added" / "deep").mkdir(parents=True)
    (work / "added" / "deep" / "x").write_text("x")
    (work / "run.sh").chmod(0o644)
    (work / "new.txt").unlink()
    (work / "noise.log").write_text("ignored")
    second = (await workspaces.snapshot(run="r1", root=root)).tree
    wanted = files(root)
    base = await workspaces.base(run="r1")
    await workspaces.restore(run="r1", root=root, tree=base.hash)
    assert set(files(root)) == KEPT | {"noise.log"}
    assert os.access(work / "run.sh", os.X_OK)
    assert not (work / "added").exists()
    assert (await workspaces.snapshot(run="r1", root=root)).tree == base
    await workspaces.restore(run="r1", root=root, tree=second.hash)
    assert files(root) == wanted
    assert not os.access(work / "run.sh", os.X_OK)


async def test_restore_swaps_files_and_folders(workspaces, folder, tmp_path):
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    base = (await workspaces.base(run="r1")).hash
    work = Path(root)
    (work / "readme.md").unlink()
    (work / "readme.md").mkdir()
    (work / "readme.md" / "inner").write_text("x")
    (work / "src" / "main.py").unlink()
    (work / "src").rmdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (work / "src").symlink_to(outside)
    other = (await workspaces.snapshot(run="r1", root=root)).tree.hash
    await workspaces.restore(run="r1", root=root, tree=base)
    assert files(root) == files(folder)
    assert list(outside.iterdir()) == []
    await workspaces.restore(run="r1", root=root, tree=other)
    assert (work / "readme.md" / "inner").read_text() == "x"
    assert list(outside.iterdir()) == []


async def test_restore_only_touches_the_runs_own_folder(workspaces, folder):
    await workspaces.prepare(run="r1", source=str(folder), writable=True)
    base = (await workspaces.base(run="r1")).hash
    with pytest.raises(NotAllowed, match="is not the working folder"):
        await workspaces.restore(run="r1", root=str(folder), tree=base)


async def test_a_file_is_not_lost_by_being_ignored_later(workspaces, repository, blobs):
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    (Path(root) / ".gitignore").write_text("*\n")
    tree = await manifest(blobs, (await workspaces.snapshot(run="r1", root=root)).tree)
    assert set(tree) == KEPT


async def test_snapshots_read_unchanged_files_once(workspaces, folder, blobs, monkeypatch):
    monkeypatch.setattr(snapshots, "_SETTLED_NS", 0)
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    before = blobs.puts
    (Path(root) / "readme.md").write_text("changed")
    ref = (await workspaces.snapshot(run="r1", root=root)).tree
    changed = await manifest(blobs, ref)
    content = await blobs.get(changed["readme.md"]["blob"])
    assert content == b"changed"
    assert blobs.puts - before == 2  # the changed file and the manifest


async def test_odd_file_names_survive(workspaces, folder):
    odd = os.fsencode(str(folder)) + b"/\xff\xfe name\n"
    with open(odd, "wb") as file:
        file.write(b"odd")
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    base = (await workspaces.base(run="r1")).hash
    inside = os.fsencode(root) + b"/\xff\xfe name\n"
    os.unlink(inside)
    await workspaces.restore(run="r1", root=root, tree=base)
    with open(inside, "rb") as file:
        assert file.read() == b"odd"


@pytest.mark.parametrize(
    "text",
    [
        "nothing",
        "[]",
        '{"../x": {"blob": "b"}}',
        '{"/x": {"blob": "b"}}',
        '{".git/config": {"blob": "b"}}',
        '{"x": {"blob": "b", "mode": "160000"}}',
    ],
)
async def test_other_blobs_are_no_trees(workspaces, blobs, folder, text):
    await workspaces.prepare(run="r1", source=str(folder), writable=True)
    base = (await workspaces.base(run="r1")).hash
    bad = (await blobs.put_text(text)).hash
    with pytest.raises(StoreError):
        await workspaces.patch(base=base, tree=bad)
    with pytest.raises(StoreError):
        await workspaces.apply(base=base, tree=bad, target=str(folder))


async def test_a_folder_that_a_program_made_deep_is_stored_and_released(tmp_path, blobs):
    with removed_again(tmp_path / "home") as home:
        workspaces = LocalWorkspaces(home, blobs)
        root = await workspaces.prepare(run="r1", source=None, writable=True)
        deepen(root)
        (Path(root) / "work.txt").write_text("work")
        tree = await manifest(blobs, (await workspaces.snapshot(run="r1", root=root)).tree)
        assert set(tree) == {"work.txt"}
        await workspaces.release(run="r1")
        assert await workspaces.runs() == {}
        assert not Path(root).exists()


async def test_folders_of_other_version_controls_are_neither_copied_nor_stored(
    workspaces, folder, blobs
):
    for name in (".hg", ".svn", "sub/.jj"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config").write_text("theirs")
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    assert set(files(root)) == {"link", "readme.md", "run.sh", "src/main.py"}
    (Path(root) / ".hg").mkdir()
    (Path(root) / ".hg" / "hgrc").write_text("[hooks]")
    ref = (await workspaces.snapshot(run="r1", root=root)).tree
    assert ref == await workspaces.base(run="r1")


async def test_files_that_are_too_large_are_named_and_left_where_they_are(
    workspaces, folder, blobs, monkeypatch
):
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    base = await workspaces.base(run="r1")
    monkeypatch.setattr(snapshots, "FILE_CAP", 1_000)
    (Path(root) / "build.bin").write_bytes(bytes(2_000))
    (Path(root) / "readme.md").write_bytes(bytes(2_000))
    (Path(root) / "work.txt").write_text("work")
    stored = await workspaces.snapshot(run="r1", root=root)
    assert stored.left_out == tuple(
        f"{name} (larger than 1,000 bytes)" for name in ("build.bin", "readme.md")
    )
    tree, before = await manifest(blobs, stored.tree), await manifest(blobs, base)
    assert set(tree) == {*before, "work.txt"}
    assert tree["readme.md"] == before["readme.md"], "it must not look deleted"
    await workspaces.restore(run="r1", root=root, tree=base.hash)
    assert not (Path(root) / "work.txt").exists()
    assert [(Path(root) / name).stat().st_size for name in ("build.bin", "readme.md")] == [
        2_000
    ] * 2


async def test_a_workspace_that_cannot_be_stored_as_a_whole_is_refused(
    workspaces, folder, monkeypatch
):
    deepen(folder, levels=210)
    with pytest.raises(InvalidInput, match="or more levels deep"):
        await workspaces.prepare(run="r1", source=str(folder), writable=True)
    shutil.rmtree(folder / "a")
    monkeypatch.setattr(snapshots, "FILE_CAP", 5)
    with pytest.raises(InvalidInput, match=r"main\.py \(larger than 5 bytes\)"):
        await workspaces.prepare(run="r1", source=str(folder), writable=True)
