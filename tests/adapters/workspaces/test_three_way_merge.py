"""Merges: neither side loses what only one side has changed."""

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


@pytest.mark.parametrize("above", [[], ["z\n"]], ids=["at the top", "below it"])
def test_edits_that_touch_conflict_at_the_top_too(above):
    base, ours = [*above, "a\n", "b\n"], [*above, "b\n"]
    assert merge_lines(base, ours, [*above, "a\n", "X\n", "b\n"]) is None
    assert merge_lines(base, ours, [*above, "a\n", "b\n", "X\n"]) == [*above, "b\n", "X\n"]
