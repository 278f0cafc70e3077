"""Merges: neither side loses what only one side has changed."""

from pathlib import Path
from typing import cast

import pytest
from memory_blobs import MemoryBlobs

from perdure.adapters.workspaces.snapshots import Leaf
from perdure.adapters.workspaces.three_way_merge import merge_lines, merge_trees
from perdure.domain.ports import BlobStore

ONE, TWO, THREE, KEEP = (Leaf(blob=f"sha256:{digit * 64}") for digit in "1234")
FOLDER = {"config/a.yaml": ONE, "config/b.yaml": TWO, "keep": KEEP}
FILE = {"config": THREE, "keep": KEEP}
BLOBS = cast("BlobStore", MemoryBlobs())


@pytest.mark.parametrize(("base", "theirs"), [(FOLDER, FILE), (FILE, FOLDER)])
async def test_a_folder_that_became_a_file_is_taken_over_and_the_reverse(base, theirs):
    merged, changed, conflicts = await merge_trees(BLOBS, base=base, ours=dict(base), theirs=theirs)
    assert (merged, conflicts) == (theirs, ())
    assert changed == ("config", "config/a.yaml", "config/b.yaml")


async def test_a_folder_in_which_we_have_a_file_of_our_own_stays_whole():
    ours = {**FOLDER, "config/ours.yaml": THREE}
    merged, changed, conflicts = await merge_trees(BLOBS, base=FOLDER, ours=ours, theirs=FILE)
    assert (merged, changed, conflicts) == (ours, (), ("config",))


@pytest.mark.parametrize(("base", "theirs"), [(FOLDER, FILE), (FILE, FOLDER)])
async def test_a_repeat_names_what_was_taken_over_before(base, theirs):
    merged, changed, conflicts = await merge_trees(
        BLOBS, base=base, ours=dict(theirs), theirs=theirs
    )
    assert (merged, conflicts) == (theirs, ())
    assert changed == ("config", "config/a.yaml", "config/b.yaml")


async def test_a_merge_that_is_made_again_tells_what_it_brought(
    workspaces, folder, blobs, monkeypatch
):
    """Its first attempt was killed after it had written the files; skills are among them."""
    root = await workspaces.prepare(run="r1", source=str(folder), writable=True)
    base = (await workspaces.base(run="r1")).hash
    theirs = await workspaces.prepare(run="w1", source=str(folder), writable=True)
    (Path(theirs) / "skills").mkdir()
    (Path(theirs) / "skills" / "count.md").write_text("# Counting")
    (Path(theirs) / "readme.md").unlink()
    tree = (await workspaces.snapshot(run="w1", root=theirs)).tree.hash
    first = await workspaces.merge(run="r1", root=root, base=base, tree=tree)
    assert first.changed == ("readme.md", "skills/count.md")

    async def restore(**_):
        raise AssertionError("nothing is left to write")

    monkeypatch.setattr(workspaces, "restore", restore)
    assert await workspaces.merge(run="r1", root=root, base=base, tree=tree) == first


async def test_what_both_removed_does_not_come_back_with_a_conflict():
    ours = {"config/b.yaml": TWO, "config/ours.yaml": THREE, "keep": KEEP}
    merged, _, conflicts = await merge_trees(BLOBS, base=FOLDER, ours=ours, theirs=FILE)
    assert (merged, conflicts) == (ours, ("config",))


@pytest.mark.parametrize("above", [[], ["z\n"]], ids=["at the top", "below it"])
def test_edits_that_touch_conflict_at_the_top_too(above):
    base, ours = [*above, "a\n", "b\n"], [*above, "b\n"]
    assert merge_lines(base, ours, [*above, "a\n", "X\n", "b\n"]) is None
    assert merge_lines(base, ours, [*above, "a\n", "b\n", "X\n"]) == [*above, "b\n", "X\n"]
