"""Patches are what git reads: applying one to the base gives the tree."""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.adapters.workspaces import patches
from perdure.adapters.workspaces.patches import hunks, unified_patch
from perdure.adapters.workspaces.snapshots import Leaf

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


async def tree_of(blobs, files):
    return {
        path: Leaf(blob=await blobs.put(data), mode=mode) for path, (data, mode) in files.items()
    }


def plain(**files):
    return {name: (data.encode(), "100644") for name, data in files.items()}


def git_apply(folder, patch):
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=folder, input=patch.encode(), check=True, env=ENVIRONMENT, capture_output=True,
    )  # fmt: skip


TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "- x\n", "é\r\n", "last"]), max_size=9)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(old=TEXTS, new=TEXTS)
def test_hunks_applied_by_git_give_the_new_text(tmp_path_factory, old, new):
    before, after = "".join(old), "".join(new)
    if before == after or not before or not after:
        return
    folder = tmp_path_factory.mktemp("apply")
    (folder / "f").write_bytes(before.encode())
    lines = [patches._Side(Leaf(blob=""), text.encode()).lines for text in (before, after)]
    git_apply(folder, "--- a/f\n+++ b/f\n" + "".join(hunks(*lines)))
    assert (folder / "f").read_bytes() == after.encode()


NAMES = ["plain.txt", "with blank.txt", "größe.txt", 'quote".txt', "tab\tname", "deep/er/x", "b\\s"]


async def test_files_come_and_go_under_any_name(blobs, tmp_path):
    old = {name: (f"old {name}\n".encode(), "100644") for name in NAMES[:4]}
    new = {name: (f"new {name}\nmore\n".encode(), "100644") for name in NAMES[2:]}
    for name, (data, _) in old.items():
        (tmp_path / name).write_bytes(data)
    patch = await unified_patch(blobs, await tree_of(blobs, old), await tree_of(blobs, new))
    git_apply(tmp_path, patch)
    found = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert found == {name: data for name, (data, _) in new.items()}


async def test_modes_and_links(blobs, tmp_path):
    (tmp_path / "run").write_text("x\n")
    (tmp_path / "turn").write_text("y\n")
    old = {"run": (b"x\n", "100644"), "turn": (b"y\n", "100644")}
    new = {"run": (b"x\n", "100755"), "turn": (b"run", "120000")}
    patch = await unified_patch(blobs, await tree_of(blobs, old), await tree_of(blobs, new))
    git_apply(tmp_path, patch)
    assert (tmp_path / "run").stat().st_mode & 0o100
    assert (tmp_path / "turn").is_symlink()


@pytest.mark.parametrize("data", [b"\0\1", b"\xff\xfe"])
async def test_binary_files_are_named(blobs, data):
    old, new = plain(a="text\n"), {"a": (data, "100644"), "b": (data, "100644")}
    patch = await unified_patch(blobs, await tree_of(blobs, old), await tree_of(blobs, new))
    assert "Binary files a/a and b/a differ\n" in patch
    assert "Binary files /dev/null and b/b differ\n" in patch


async def test_equal_trees_have_an_empty_patch(blobs):
    tree = await tree_of(blobs, plain(a="x"))
    assert await unified_patch(blobs, tree, tree) == ""


@pytest.mark.long
async def test_large_rewrites_stay_quick_and_correct(blobs, tmp_path):
    before = "".join(f"{n}\n" for n in range(9_000))
    after = "".join(f"{n * 7 % 9_001}\n" for n in range(9_000))
    (tmp_path / "f").write_text(before)
    trees = [await tree_of(blobs, plain(f=text)) for text in (before, after)]
    git_apply(tmp_path, await unified_patch(blobs, *trees))
    assert (tmp_path / "f").read_text() == after
