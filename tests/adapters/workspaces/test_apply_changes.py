"""Taking changes over: all or nothing, and never over the user's own changes."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.adapters.workspaces import apply_changes as workspaces_apply_changes
from perdure.adapters.workspaces.apply_changes import Change, apply_changes
from perdure.adapters.workspaces.snapshots import Mode
from perdure.domain.foundation.errors import NotAllowed, StoreError

FILE: Mode = "100644"


def change(path, before, after, mode: Mode = FILE):
    return Change(
        path,
        None if before is None else (FILE, before.encode()),
        None if after is None else (mode, after.encode()),
    )


def contents(root):
    return {
        path.relative_to(root).as_posix(): os.readlink(path)
        if path.is_symlink()
        else path.read_text()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "user"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_text("a1")
    (folder / "sub" / "b").write_text("b1")
    (folder / "other").write_text("other")
    return folder


CHANGES = [change("a", "a1", "a2"), change("new/c", None, "c2"), change("sub/b", "b1", None)]


def test_changes_are_made(target):
    (target / "other").write_text("changed by the user meanwhile")
    assert apply_changes(str(target), CHANGES) == ("a", "new/c", "sub/b")
    assert contents(target) == {
        "a": "a2", "new/c": "c2", "other": "changed by the user meanwhile"
    }  # fmt: skip
    assert not (target / "sub").exists()


def test_a_repeat_changes_nothing(target):
    apply_changes(str(target), CHANGES)
    before = contents(target)
    apply_changes(str(target), CHANGES)
    assert contents(target) == before


def _folder_in_the_way(target):
    (target / "new" / "c").mkdir(parents=True)
    (target / "new" / "c" / "x").write_text("x")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda target: (target / "a").write_text("mine"), "a"),
        (lambda target: (target / "a").unlink(), "a"),
        (lambda target: (target / "a").chmod(0o755), "a"),
        (lambda target: (target / "sub" / "b").write_text("mine"), "sub/b"),
        (lambda target: (target / "new").write_text("a file"), "new/c"),
        (lambda target: (target / "new").symlink_to("sub"), "new/c"),
        (_folder_in_the_way, "new/c"),
        (lambda target: ((target / "a").unlink(), (target / "a").symlink_to("other")), "a"),
    ],
    ids=["changed", "removed", "mode", "deep", "file there", "link there", "folder there", "link"],
)  # fmt: skip
def test_conflicts_are_named_and_nothing_is_written(target, spoil, named):
    spoil(target)
    before = contents(target)
    with pytest.raises(NotAllowed, match="as they were when the run began") as caught:
        apply_changes(str(target), CHANGES)
    assert f": {named}." in caught.value.message
    assert contents(target) == before


@pytest.mark.parametrize(
    "bad",
    [
        change(".github/workflows/x.yml", None, "on: push"),
        change(".env", None, "KEY=1"),
        change(".envrc", None, "rm"),
        change("link", None, "/etc/passwd", mode="120000"),
        change("sub/link", None, "../../outside", mode="120000"),
        change("sub/link", None, "x/../../outside", mode="120000"),
        change(".hg/hgrc", None, "[hooks]"),
        change(".githooks/pre-commit", None, "#!/bin/sh"),
    ],
    ids=["ci", "dotenv", "direnv", "absolute link", "escaping link", "after a name", "hg", "hooks"],
)
def test_protected_files_are_never_taken_over(target, bad):
    before = contents(target)
    with pytest.raises(NotAllowed, match="never taken over"):
        apply_changes(str(target), [*CHANGES, bad])
    assert contents(target) == before


def test_links_and_modes(target):
    apply_changes(
        str(target),
        [change("run", None, "x", mode="100755"), change("sub/link", None, "../a", mode="120000")],
    )
    assert os.access(target / "run", os.X_OK)
    assert os.readlink(target / "sub" / "link") == "../a"


RIGHTS = [
    (0o600, "100644", 0o600),
    (0o640, "100755", 0o750),
    (0o700, "100644", 0o600),
    (0o750, "100755", 0o750),
    (0o664, "100644", 0o664),
    (None, "100644", 0o640),
    (None, "100755", 0o750),
]


@pytest.mark.parametrize(("before", "mode", "after"), RIGHTS)
def test_only_the_right_to_run_a_file_changes_and_new_files_follow_the_umask(
    target, before, mode, after
):
    old = "100755" if before is not None and before & 0o111 else FILE
    if before is not None:
        (target / "f").write_text("f1")
        (target / "f").chmod(before)
    known = None if before is None else (old, b"f1")
    mask = os.umask(0o027)
    try:
        apply_changes(str(target), [Change("f", known, (mode, b"f2"))])
    finally:
        os.umask(mask)
    assert (target / "f").stat().st_mode & 0o777 == after
    assert (target / "f").read_text() == "f2"


@pytest.mark.parametrize(
    "changes",
    [
        [change("a", "a1", None), change("a/inner", None, "x")],
        [change("sub", None, "x"), change("sub/b", "b1", None)],
    ],
    ids=["file to folder", "folder to file"],
)
def test_files_and_folders_swap(target, changes):
    apply_changes(str(target), changes)
    found = contents(target)
    assert all(found.get(item.path) == (item.after and item.after[1].decode()) for item in changes)


@pytest.mark.parametrize("failing", range(3))
def test_a_failure_on_the_way_puts_everything_back(target, monkeypatch, failing):
    before = contents(target)
    real, calls = workspaces_apply_changes._place, []

    def place(*arguments):
        calls.append(arguments)
        if len(calls) > failing:
            raise OSError(28, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(workspaces_apply_changes, "_place", place)
    with pytest.raises(StoreError, match="No space left") as caught:
        apply_changes(str(target), CHANGES)
    assert "put back" in caught.value.cure
    assert contents(target) == before


NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "d"])
TREES = st.dictionaries(NAMES, st.sampled_from(["one", "two"])).filter(
    lambda tree: not any(name.startswith(f"{other}/") for name in tree for other in tree)
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(old=TREES, new=TREES)
def test_any_tree_becomes_any_other(tmp_path_factory, old, new):
    root = tmp_path_factory.mktemp("trees")
    for name, text in old.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    names = sorted({*old, *new})
    changes = [change(n, old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n)]
    apply_changes(str(root), changes)
    assert contents(root) == new


async def test_from_copy_to_patch_to_folder(workspaces, repository, git):
    root = await workspaces.prepare(run="r1", source=str(repository), writable=True)
    base = (await workspaces.base(run="r1")).hash
    with open(f"{root}/src/main.py", "a", encoding="utf-8") as file:
        file.write("print(2)\n")
    tree = (await workspaces.snapshot(run="r1", root=root)).tree.hash
    patch = await workspaces.patch(base=base, tree=tree)
    assert "+print(2)" in patch
    git("apply", "--check", "-", data=patch.encode())
    (repository / "debug.log").write_text("still ignored")
    assert await workspaces.apply(base=base, tree=tree, target=str(repository)) == ("src/main.py",)
    assert (repository / "src" / "main.py").read_text() == "print(1)\nprint(2)\n"
    (repository / "src" / "main.py").write_text("mine")
    with pytest.raises(NotAllowed, match=r"src/main\.py"):
        await workspaces.apply(base=base, tree=tree, target=str(repository))


def test_no_link_leads_outside_through_another(target):
    (target.parent / "secret").write_text("canary")
    with pytest.raises(NotAllowed, match=r"notes \(a link with `\.\.` after a name"):
        apply_changes(
            str(target),
            [
                change("x", None, ".", mode="120000"),
                change("notes", None, "x/x/../../secret", mode="120000"),
            ],
        )
    assert not os.path.lexists(target / "notes")
    goal = "./.././sub/b"
    apply_changes(str(target), [change("new/link", None, goal, mode="120000")])
    assert (target / "new" / "link").read_text() == "b1"
