"""The built-in tools that read files: `fs.read`, `fs.list`, `fs.search`."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from perdure.adapters.files.links import inside
from perdure.adapters.files.measures import measured
from perdure.adapters.files.paths import VERSION_CONTROL, is_dotenv, parse, shown, why_protected
from perdure.adapters.files.rooted_files import FolderEntry, Parts, RootedDirectory
from perdure.adapters.tools.regex import Finder, finder, glob_matcher
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.llm.attachments import read_attachment
from perdure.domain.llm.file_signatures import media_type_of
from perdure.domain.tools.definitions import OUTPUT_CAP_BYTES, OUTPUT_CAP_LINES, Showing, ShownFile
from perdure.extending.tool_decorator import ToolContext, tool

# Their many files would hide those of the workspace itself.
SKIPPED_FOLDERS = VERSION_CONTROL | {
    "node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache",
}  # fmt: skip
SEARCH_FILE_CAP = 2 * 1024 * 1024
SEARCH_FILES = 20_000
MATCHES = 200
_LINE_SHOWN = 400


@tool(name="fs.read", idempotent=True, aliases=("read_file",))
def fs_read(
    path: str,
    context: ToolContext,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=OUTPUT_CAP_LINES)] = OUTPUT_CAP_LINES,
) -> str | Showing:
    """Read a file of the workspace; of a text, the last line says what is left and gives the hash.

    An image or PDF is shown whole.

    Args:
        path: the file, relative to the workspace.
        offset: how many lines to skip.
        limit: how many lines to show.
    """
    parts = parse(path, use="read")
    with RootedDirectory(context.grant.root, guarded=True) as files:
        # All of it, even if a part is shown: the hash covers the whole file.
        data = files.read(inside(files, parts))
    if media_type_of(data) is not None:
        return _shown(path, data)
    lines = as_text(path, data).splitlines(keepends=True)
    # `>` and not `>=`: an empty file has an offset 0 too.
    if offset > len(lines):
        raise ToolFailure(
            f"{shown(path)} has {len(lines)} lines; offset {offset} is past its end.",
            reason="range",
        )
    kept, cut = _within_bytes(lines[offset : offset + limit])
    footer = _footer(path, data, lines=len(lines), start=offset, count=len(kept), cut=cut)
    text = "".join(kept)
    return text + ("\n" if text and not text.endswith("\n") else "") + footer


def _shown(path: str, data: bytes) -> Showing:
    """An image or PDF as an attachment; the text describes it for models that cannot see."""
    name = shown(path)
    found = read_attachment(data, name=name, ref="", measure=measured)
    if isinstance(found, str):
        raise ToolFailure(f"{name} cannot be shown: {found}.", reason="binary")
    text = f"{found.words}\n[{name}: shown as a whole; sha256 {content_hash(data)}]"
    return Showing(text=text, files=(ShownFile(name=name, data=data),))


@tool(name="fs.list", idempotent=True, aliases=("list_dir", "list_files"))
def fs_list(context: ToolContext, path: str = ".", recursive: bool = False) -> str:
    """List a folder of the workspace: folders end in /, links in @, files show their bytes.

    Args:
        path: the folder, relative to the workspace.
        recursive: also everything below it (package and version control folders stay closed).
    """
    parts = parse(path, use="read")
    lines: list[str] = []
    with RootedDirectory(context.grant.root, guarded=True) as files:
        parts = inside(files, parts)
        found = (
            files.walk(parts, skip=SKIPPED_FOLDERS)
            if recursive
            else (((*parts, entry.name), entry) for entry in files.entries(parts))
        )
        for count, (inner, entry) in enumerate(found):
            if count >= OUTPUT_CAP_LINES or context.stopping():
                lines.append(f"[… more than {count} entries; list a folder below {shown(path)} …]")
                break
            # Dotenv files are listed, so that a model knows that they exist; it cannot read them.
            if why_protected(inner, use="read") is None or is_dotenv(entry.name):
                lines.append(_listed(inner[len(parts) :], entry))
    return "\n".join(lines) or f"{shown(path)} is empty."


@tool(name="fs.search", idempotent=True, aliases=("grep", "search_files"))
def fs_search(
    pattern: str,
    context: ToolContext,
    path: str = ".",
    glob: str | None = None,
    regex: bool = False,
    ignore_case: bool = False,
    limit: Annotated[int, Field(ge=1, le=MATCHES)] = MATCHES,
) -> str:
    """Find lines in the workspace's text files; gives path:line: text.

    Args:
        pattern: literal text, or a regular expression (RE2: no look-around) when regex is true.
        path: the file or folder to look in.
        glob: only files of this form, such as *.py or src/**/*.md.
        regex: whether pattern is a regular expression.
        ignore_case: match letters of either case.
        limit: how many matching lines to show.
    """
    find = finder(pattern, regex=regex, ignore_case=ignore_case)
    wanted = glob_matcher(glob) if glob else None
    parts = parse(path, use="read")
    search = _Search(find=find, limit=limit)
    with RootedDirectory(context.grant.root, guarded=True) as files:
        for inner in searchable(files, inside(files, parts)):
            if search.is_full or context.stopping():
                break
            if wanted is None or wanted("/".join(inner)):
                search.look_into(files, inner)
    return search.report()


@dataclass(slots=True)
class _Search:
    """The matches so far, and how many files were skipped."""

    find: Finder
    limit: int
    matches: list[str] = field(default_factory=list[str])
    files: int = 0
    skipped: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.matches) >= self.limit or self.files >= SEARCH_FILES

    def look_into(self, files: RootedDirectory, parts: Parts) -> None:
        self.files += 1
        try:
            text = as_text("", files.read(parts, cap=SEARCH_FILE_CAP))
        except ToolFailure:
            self.skipped += 1
            return
        for number, line in enumerate(text.splitlines(), start=1):
            if self.is_full:
                return
            if span := self.find(line):
                self.matches.append(f"{'/'.join(parts)}:{number}: {_around(line, span)}")

    def report(self) -> str:
        notes = [f"{len(self.matches)} matching lines in {self.files} files"]
        if self.is_full:
            notes.append("stopped at the limit: narrow the pattern, path or glob to see the rest")
        if self.skipped:
            notes.append(f"{self.skipped} files skipped (not text, too large or unreadable)")
        return "\n".join([*self.matches, f"[{'; '.join(notes)}]"])


def searchable(files: RootedDirectory, parts: Parts) -> Iterator[Parts]:
    """The regular files at or below a path that tools may read."""
    status = files.status(parts)
    if status is None:
        raise ToolFailure(
            f"{shown('/'.join(parts))} does not exist. See what is there with fs.list.",
            reason="not_found",
        )
    if not _is_folder(files, parts):
        yield parts
        return
    for inner, entry in files.walk(parts, skip=SKIPPED_FOLDERS):
        if entry.kind == "file" and why_protected(inner, use="read") is None:
            yield inner


def as_text(path: str, data: bytes) -> str:
    """The bytes as UTF-8 text; raises `ToolFailure` for binary content."""
    # NUL is valid UTF-8, but no text file has it.
    if b"\0" in data:
        raise ToolFailure(
            f"{shown(path)} is a binary file of {len(data)} bytes and cannot be read as text.",
            reason="binary",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(
            f"{shown(path)} is not UTF-8 text (byte {error.start}).", reason="binary"
        ) from error


def content_hash(data: bytes) -> str:
    """The SHA-256 that `fs.write` and `fs.edit` take as `expected_hash`."""
    return hashlib.sha256(data).hexdigest()


def _is_folder(files: RootedDirectory, parts: Parts) -> bool:
    try:
        with files.folder(parts):
            return True
    except ToolFailure:
        return False


def _within_bytes(lines: list[str]) -> tuple[list[str], bool]:
    """As many whole lines as fit the output limit, and whether a single longer line was cut."""
    kept: list[str] = []
    left = OUTPUT_CAP_BYTES
    for line in lines:
        size = len(line.encode())
        if size > left:
            # Only whole lines, so that the next offset is right. A first line that is too long is
            # cut, as a reader would never get past it otherwise.
            start = line.encode()[:left].decode(errors="ignore")
            return (kept, False) if kept else ([start], True)
        kept.append(line)
        left -= size
    return kept, False


def _footer(path: str, data: bytes, *, lines: int, start: int, count: int, cut: bool) -> str:
    end = start + count
    span = f"lines {start + 1}-{end} of {lines}" if count else f"no lines of {lines}"
    rest = f'; {lines - end} lines left, read on with "offset": {end}' if end < lines else ""
    long = f"; line {end} is longer than {OUTPUT_CAP_BYTES:,} bytes and was cut" if cut else ""
    return f"[{shown(path)}: {span}{long}{rest}; sha256 {content_hash(data)}]"


def _listed(parts: Parts, entry: FolderEntry) -> str:
    name = "/".join(parts).encode(errors="backslashreplace").decode()
    match entry.kind:
        case "folder":
            return f"{name}/"
        case "link":
            return f"{name}@"
        case "file":
            return f"{name} {entry.status.st_size}"
        case "other":
            return f"{name} (pipe, socket or device)"


def _around(line: str, span: tuple[int, int]) -> str:
    """The line, or the part of a long line around the match."""
    if len(line) <= _LINE_SHOWN:
        return line
    start = max(0, span[0] - _LINE_SHOWN // 4)
    return f"…{line[start : start + _LINE_SHOWN]}…"
