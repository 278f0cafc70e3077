"""The built-in tools that write files; each call names the hash that it replaces, so repeats are
harmless.
"""

import os
import re
from collections.abc import Callable, Iterator

from perdure.adapters.files.links import inside
from perdure.adapters.files.paths import parse, shown
from perdure.adapters.files.rooted_files import READ_CAP, WRITE_CAP, Parts, RootedDirectory
from perdure.adapters.tools.read_files import as_text, content_hash
from perdure.domain.foundation.diffs import unified
from perdure.domain.foundation.errors import ToolFailure
from perdure.extending.tool_decorator import ToolContext, tool

ABSENT = "absent"
Replacement = Callable[[bytes | None], bytes | None]
_HASH = re.compile(r"[0-9a-f]{64}")
_REPEAT_SEARCH_BYTES = 64 * 1024 * 1024


@tool(name="fs.write", access="write", idempotent=True, aliases=("write_file",))
def fs_write(path: str, content: str, expected_hash: str, context: ToolContext) -> str:
    """Write a whole text file of the workspace, new or in place of what is there.

    Args:
        path: the file, relative to the workspace; missing folders are made.
        content: the new text, all of it.
        expected_hash: sha256 of the content that is replaced (fs.read shows it), or "absent" for
            a new file.
    """
    return _change(path, context, _writing(path, content, expected_hash), create=True)


@tool(name="fs.edit", access="write", idempotent=True, aliases=("edit_file",))
def fs_edit(path: str, old: str, new: str, expected_hash: str, context: ToolContext) -> str:
    """Replace one piece of a text file of the workspace; the piece must occur exactly once.

    Args:
        path: the file, relative to the workspace.
        old: the text to replace, with enough around it to be unique.
        new: the text to put there.
        expected_hash: sha256 of the file as you read it (fs.read shows it).
    """
    return _change(path, context, _editing(path, old, new, expected_hash))


def rehearse_write(path: str, content: str, expected_hash: str, context: ToolContext) -> str:
    """The diff that `fs.write` would make."""
    return _diff(path, context, _writing(path, content, expected_hash))


def rehearse_edit(path: str, old: str, new: str, expected_hash: str, context: ToolContext) -> str:
    """The diff that `fs.edit` would make."""
    return _diff(path, context, _editing(path, old, new, expected_hash))


fs_write = fs_write.rehearsed(rehearse_write, tells=("content",))
fs_edit = fs_edit.rehearsed(rehearse_edit, tells=("old", "new"))


def _writing(path: str, content: str, expected_hash: str) -> Replacement:
    # `_require_storable` refuses surrogates with a message; plain UTF-8 would raise here.
    data = content.encode(errors="surrogatepass")
    _require_storable(path, data)

    def replacement(current: bytes | None) -> bytes | None:
        if current == data:  # a repeat of this call, or nothing to do
            return None
        _require_expected(path, current, expected_hash)
        return data

    return replacement


def _editing(path: str, old: str, new: str, expected_hash: str) -> Replacement:
    def replacement(current: bytes | None) -> bytes | None:
        if current is None:
            raise ToolFailure(
                f"{shown(path)} does not exist. Make it with fs.write.", reason="not_found"
            )
        if _is_done(current, old=old.encode(), new=new.encode(), before=_plain(expected_hash)):
            return None
        _require_expected(path, current, expected_hash)
        return _edited(path, as_text(path, current), old=old, new=new)

    return replacement


def _diff(path: str, context: ToolContext, replacement: Replacement) -> str:
    """The diff of a change, after the same checks; nothing is written or locked."""
    parts = _writable_place(path, context)
    with RootedDirectory(context.grant.root, guarded=True) as files:
        parts = inside(files, parts, use="write")
        current, _ = _current(files, parts)
        data = replacement(current)
    if data is None:
        return f"{shown(path)} already has this content: nothing would change."
    before = None if current is None else current.decode(errors="replace")
    return unified(before, data.decode(), path="/".join(parts))


def _writable_place(path: str, context: ToolContext) -> Parts:
    parts = parse(path, use="write")
    if not parts:
        raise ToolFailure(". is the workspace itself; name a file in it.", reason="not_a_file")
    if not context.grant.writable:
        raise ToolFailure(
            "This run may not write in its workspace. Put the result into your answer.",
            reason="denied",
        )
    return parts


def _change(
    path: str, context: ToolContext, replacement: Replacement, *, create: bool = False
) -> str:
    """Read, check and replace the file while its folder is locked."""
    named = _writable_place(path, context)
    with RootedDirectory(context.grant.root, guarded=True) as files:
        parts = inside(files, named, use="write")
        if not parts:
            raise ToolFailure(f"{shown(path)} is a folder; name a file in it.", reason="not_a_file")
        with files.locked(parts[:-1], create=create) as folder:
            current, mode = _current(files, parts)
            data = replacement(current)
            if data is None:
                said = content_hash(current or b"")
                return f"{shown(path)} already has this content; sha256 {said}"
            # Past its deadline the call is reported as failed, so it must not write any more.
            if context.stopping():
                raise ToolFailure(f"{shown(path)} was not written: out of time.", reason="timeout")
            files.replace(folder, parts[-1], data, mode=mode)
    return f"{shown(path)} written: {len(data)} bytes; sha256 {content_hash(data)}"


def _current(files: RootedDirectory, parts: Parts) -> tuple[bytes | None, int]:
    """The content to replace (None for a new file), and the mode to keep."""
    if files.status(parts) is None:
        return None, 0o644
    with files.file(parts) as descriptor:
        status = os.fstat(descriptor)
    if status.st_nlink > 1:
        raise ToolFailure(
            f"{shown('/'.join(parts))} has {status.st_nlink} hard links, so writing it might "
            "change a file elsewhere. Write a new file instead.",
            reason="link",
        )
    return files.read(parts, cap=READ_CAP), status.st_mode & 0o777


def _edited(path: str, text: str, *, old: str, new: str) -> bytes:
    count = text.count(old) if old else 0
    if count != 1:
        found = "is empty" if not old else f"occurs {count} times"
        raise ToolFailure(
            f"The text to replace {found} in {shown(path)}; it must occur exactly once. "
            "Read the file and quote more of the lines around it.",
            reason="not_unique" if count else "no_match",
        )
    data = text.replace(old, new).encode()
    _require_storable(path, data)
    return data


def _is_done(current: bytes, *, old: bytes, new: bytes, before: str) -> bool:
    """Whether this same edit was made before: undoing it gives the expected content.

    The search is bounded. If it gives up, the edit fails as `stale` and nothing is written.
    """
    # The file is as it was read, so this is the first attempt.
    if content_hash(current) == before or old == new:
        return False
    left = _REPEAT_SEARCH_BYTES
    for start in _places(current, new):
        left -= len(current) + len(old) + 1
        if left < 0:
            return False
        if content_hash(current[:start] + old + current[start + len(new) :]) == before:
            return True
    return False


def _places(current: bytes, new: bytes) -> Iterator[int]:
    if not new:
        # What was deleted may have stood anywhere.
        yield from range(len(current) + 1)
        return
    start = current.find(new)
    while start >= 0:
        yield start
        # By one character, since places may overlap.
        start = current.find(new, start + 1)


def _require_expected(path: str, current: bytes | None, expected: str) -> None:
    found = ABSENT if current is None else content_hash(current)
    wanted = _plain(expected)
    if wanted != ABSENT and not _HASH.fullmatch(wanted):
        raise ToolFailure(
            f'expected_hash is {expected[:80]!r}; give the sha256 that fs.read shows, or "absent" '
            "for a new file.",
            reason="invalid_arguments",
        )
    if found != wanted:
        raise ToolFailure(
            f"{shown(path)} is not what you expect: it is {_state(found)}, you expected "
            f"{_state(wanted)}. Read it again with fs.read and repeat the change.",
            reason="stale",
        )


def _require_storable(path: str, data: bytes) -> None:
    if len(data) > WRITE_CAP:
        raise ToolFailure(
            f"{shown(path)} would have {len(data):,} bytes; {WRITE_CAP:,} are allowed. "
            "Split it into several files.",
            reason="too_large",
        )
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(
            "The content holds half of a surrogate pair, which is not text. Remove it and "
            "write again.",
            reason="invalid_arguments",
        ) from error


def _plain(expected: str) -> str:
    return expected.strip().lower().removeprefix("sha256:")


def _state(value: str) -> str:
    return "not there" if value == ABSENT else f"sha256 {value}"
