"""The unified diff of two trees, as `git apply` accepts it; binary files are only named."""

import asyncio
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from perdure.adapters.bounded_process.process import TooMuch, work_now
from perdure.adapters.workspaces.snapshots import Leaf, Tree, changed_paths
from perdure.domain.ports import BlobStore

CONTEXT = 3
_TEXT_CAP = 2 * 1024 * 1024
# A tag and four line numbers: lines `i1` to `i2` of the old text become `j1` to `j2` of the new.
Step = tuple[str, int, int, int, int]


def steps_between(old: Sequence[str], new: Sequence[str]) -> list[Step]:
    """The steps that turn one list of lines into another; only the middle is compared.

    Raises:
        TooMuch: comparing these lines takes too long.
    """
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    # Not into what the start has taken: no line may count at both ends.
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    steps: list[Step] = [("equal", 0, start, 0, start)] if start else []
    steps += _between(middle_old, middle_new, start) if middle_old or middle_new else []
    if end:
        steps.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    # Join adjacent equal steps, whose lines count together as context.
    joined: list[Step] = []
    for step in steps:
        if joined and joined[-1][0] == step[0] == "equal":
            last = joined.pop()
            step = ("equal", last[1], step[2], last[3], step[4])
        joined.append(step)
    return joined


def _between(old: Sequence[str], new: Sequence[str], start: int) -> list[Step]:
    # The cast is safe: the task is our own, and returns this form.
    found = cast("list[Step]", work_now("differences", [*old], [*new]))
    return [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in found]


@dataclass(frozen=True, slots=True)
class _Side:
    leaf: Leaf
    data: bytes

    @property
    def is_text(self) -> bool:
        if b"\0" in self.data or len(self.data) > _TEXT_CAP:
            return False
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return False
        return True

    @property
    def lines(self) -> list[str]:
        # Not `splitlines`, which also splits at characters that git keeps within a line.
        pieces = self.data.decode().split("\n")
        return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


async def unified_patch(blobs: BlobStore, base: Tree, tree: Tree) -> str:
    """The changes from `base` to `tree`, file by file in order of path."""
    parts: list[str] = []
    for path in changed_paths(base, tree):
        old, new = await _side(blobs, base.get(path)), await _side(blobs, tree.get(path))
        if old and new and (old.leaf.mode == "120000") != (new.leaf.mode == "120000"):
            # Git cannot express a change of kind: the file is deleted and the link added.
            parts += [*_file(path, old, None), *_file(path, None, new)]
        else:
            # In a thread, where the generator runs: comparing may wait for a process.
            parts += await asyncio.to_thread(list, _file(path, old, new))
    return "".join(parts)


async def _side(blobs: BlobStore, leaf: Leaf | None) -> _Side | None:
    return None if leaf is None else _Side(leaf, await blobs.get(leaf.blob))


def _file(path: str, old: _Side | None, new: _Side | None) -> Iterator[str]:
    left, right = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    yield f"diff --git {left} {right}\n"
    yield from _modes(old, new)
    old_data, new_data = old.data if old else b"", new.data if new else b""
    if old_data == new_data:
        return
    source, target = left if old else "/dev/null", right if new else "/dev/null"
    if (old and not old.is_text) or (new and not new.is_text):
        yield f"Binary files {source} and {target} differ\n"
        return
    yield f"--- {_named(source)}\n+++ {_named(target)}\n"
    yield from hunks(old.lines if old else [], new.lines if new else [])


def _modes(old: _Side | None, new: _Side | None) -> Iterator[str]:
    if old is None and new is not None:
        yield f"new file mode {new.leaf.mode}\n"
    elif new is None and old is not None:
        yield f"deleted file mode {old.leaf.mode}\n"
    elif old and new and old.leaf.mode != new.leaf.mode:
        yield f"old mode {old.leaf.mode}\nnew mode {new.leaf.mode}\n"


def hunks(old: Sequence[str], new: Sequence[str], *, context: int = CONTEXT) -> Iterator[str]:
    """The hunks between two lists of lines; lines keep their line feeds."""
    for group in _groups(old, new, context):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[i1:i2])
            else:
                yield from (_line("-", line) for line in old[i1:i2])
                yield from (_line("+", line) for line in new[j1:j2])


def _groups(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[list[Step]]:
    """The steps in groups with context; one group that replaces all if comparing takes too long."""
    try:
        steps = steps_between(old, new)
    except TooMuch:
        steps = [("replace", 0, len(old), 0, len(new))]
    # `difflib` does the grouping; the steps are set, so that it does not compare again.
    matcher = difflib.SequenceMatcher(None, "", "")
    vars(matcher)["opcodes"] = [*steps]
    for group in matcher.get_grouped_opcodes(context):
        yield [*group]


def _line(mark: str, line: str) -> str:
    return (
        f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
    )


def _span(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _named(path: str) -> str:
    """The name in a header line; a tab ends one with spaces, as git and patch expect."""
    return f"{path}\t" if " " in path and not path.startswith('"') else path


def _quoted(path: str) -> str:
    """The name, quoted as git does if it has other than plain characters."""
    data = path.encode(errors="surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in data):
        return path
    return '"' + "".join(_byte(byte) for byte in data) + '"'


def _byte(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
