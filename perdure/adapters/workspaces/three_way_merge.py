"""Three-way merge of stored trees, by path, and by line if both sides changed a file."""

import asyncio
from collections.abc import Sequence

from perdure.adapters.bounded_process.process import TooMuch
from perdure.adapters.workspaces.patches import steps_between
from perdure.adapters.workspaces.snapshots import LINK, Leaf, Tree, changed_paths
from perdure.domain.ports import BlobStore

_TEXT_CAP = 2 * 1024 * 1024
# Comparing more lines takes minutes, so a longer file is a conflict as a whole.
_MOST_LINES = 20_000

Lines = list[str]
# Lines `start` to `end` of the base become `lines`.
Edit = tuple[int, int, Lines]


async def merge_trees(
    blobs: BlobStore, *, base: Tree, ours: Tree, theirs: Tree
) -> tuple[dict[str, Leaf], tuple[str, ...], tuple[str, ...]]:
    """The merged tree, the paths taken from `theirs`, and the conflicts, which stay as `ours`.

    What both made equal counts as taken: it is what a repeated merge finds.
    """
    merged = dict(ours)
    changed: list[str] = []
    conflicts: list[str] = []
    # Deletions first: a folder that became a file is in its way, and the reverse.
    for path in sorted(changed_paths(base, theirs), key=lambda path: path in theirs):
        old, mine, new = base.get(path), ours.get(path), theirs.get(path)
        if mine == new:
            changed.append(path)
            continue
        if mine == old and not _blocked(path, merged):
            leaf = new
        else:
            leaf = await _merged(blobs, old, mine, new)
            if leaf is None:
                conflicts.append(path)
                # Of a folder that became a file, what is in it stays with it.
                kept = [one for one in changed if one.startswith(f"{path}/") and one in ours]
                merged.update((other, ours[other]) for other in kept)
                changed = [other for other in changed if other not in kept]
                continue
        changed.append(path)
        if leaf is None:
            merged.pop(path, None)
        else:
            merged[path] = leaf
    return merged, tuple(sorted(changed)), tuple(sorted(conflicts))


def merge_lines(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """The text with the changes of both sides; None if they touch the same lines.

    Raises:
        TooMuch: comparing these lines takes too long.
    """
    mine, new = _edits(base, ours), _edits(base, theirs)
    result: Lines = []
    at, edited = 0, False
    # An edit that both sides made is no conflict, and counts once.
    for start, end, lines in sorted([*mine, *(edit for edit in new if edit not in mine)]):
        if start < at or (start == at and edited and _touches(mine, new, start)):
            return None
        result += base[at:start] + lines
        at, edited = end, True
    return result + base[at:]


def _touches(mine: Sequence[Edit], new: Sequence[Edit], place: int) -> bool:
    """Whether edits of both sides meet at a line, so that their order is undefined."""
    edges = [{edge for start, end, _ in side for edge in (start, end)} for side in (mine, new)]
    return all(place in side for side in edges)


def _edits(base: Lines, other: Lines) -> list[Edit]:
    return [
        (i1, i2, other[j1:j2])
        for tag, i1, i2, j1, j2 in steps_between(base, other)
        if tag != "equal"
    ]


async def _merged(
    blobs: BlobStore, old: Leaf | None, mine: Leaf | None, new: Leaf | None
) -> Leaf | None:
    if old is None or mine is None or new is None or LINK in {old.mode, mine.mode, new.mode}:
        return None
    texts = [await _lines(blobs, leaf) for leaf in (old, mine, new)]
    base, ours, theirs = texts
    if base is None or ours is None or theirs is None:
        return None
    try:
        lines = await asyncio.to_thread(merge_lines, base, ours, theirs)
    except TooMuch:
        return None  # a conflict, which a person must merge
    if lines is None:
        return None
    mode = new.mode if new.mode != old.mode else mine.mode
    return Leaf(blob=await blobs.put("".join(lines).encode()), mode=mode)


async def _lines(blobs: BlobStore, leaf: Leaf) -> Lines | None:
    data = await blobs.get(leaf.blob)
    if b"\0" in data or len(data) > _TEXT_CAP:
        return None
    try:
        lines = data.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= _MOST_LINES else None


def _blocked(path: str, tree: Tree) -> bool:
    """Whether a file is in the way of a folder that the path needs, or the reverse."""
    parts = path.split("/")
    above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    return any(name in tree for name in above) or any(name.startswith(f"{path}/") for name in tree)
