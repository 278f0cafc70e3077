"""The unified diff between two trees, as `git apply` reads it; binary files are named only."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perdure.adapters.workspaces.trees import Leaf, Tree, changed_paths
from perdure.domain.ports import BlobStore

CONTEXT = 3
_TEXT_CAP = 2 * 1024 * 1024
# Beyond this many lines on each side the middle is shown as replaced: difflib would take minutes.
_DIFF_LINES = 4_000


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
        pieces = self.data.decode().split("\n")
        return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


async def unified_patch(blobs: BlobStore, base: Tree, tree: Tree) -> str:
    """The changes from `base` to `tree`, file by file in order of path."""
    parts: list[str] = []
    for path in changed_paths(base, tree):
        old, new = await _side(blobs, base.get(path)), await _side(blobs, tree.get(path))
        if old and new and (old.leaf.mode == "120000") != (new.leaf.mode == "120000"):
            # Git has no change of kind: the file goes and the link comes.
            parts += [*_file(path, old, None), *_file(path, None, new)]
        else:
            parts.extend(_file(path, old, new))
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


def hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """The hunks between two lists of lines; lines keep their line feeds."""
    for group in _groups(old, new):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[i1:i2])
            else:
                yield from (_line("-", line) for line in old[i1:i2])
                yield from (_line("+", line) for line in new[j1:j2])


Step = tuple[str, int, int, int, int]


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Step]]:
    """Steps in groups with context; equal ends are cut off first, since most edits are small."""
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start, end = max(0, start - CONTEXT), max(0, end - CONTEXT)
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(middle_old), len(middle_new)) > _DIFF_LINES:
        yield [("replace", start, len(old) - end, start, len(new) - end)]
        return
    matcher = difflib.SequenceMatcher(None, middle_old, middle_new)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield [
            (tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in group
        ]


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
    """A name with a blank ends in a tab, so that it is not cut there."""
    return f"{path}\t" if " " in path and not path.startswith('"') else path


def _quoted(path: str) -> str:
    """The name as git quotes it when it holds more than plain characters."""
    data = path.encode(errors="surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in data):
        return path
    return '"' + "".join(_byte(byte) for byte in data) + '"'


def _byte(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
