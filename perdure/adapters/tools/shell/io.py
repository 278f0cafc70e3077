"""The workspace that commands read, and the page that they write; both are limited."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from perdure.adapters.files.links import inside
from perdure.adapters.files.paths import shown, why_protected
from perdure.adapters.files.rooted_files import FolderEntry, Parts, RootedDirectory
from perdure.adapters.tools.read_files import SKIPPED_FOLDERS, as_text
from perdure.adapters.tools.shell.grammar import path_parts
from perdure.domain.foundation.errors import ToolFailure

# Bounds the memory of one command; the host cuts further what a model is shown.
PAGE_CAP = 1_000_000
WALK_CAP = 50_000


@dataclass(slots=True)
class Place:
    """The workspace as a command sees it, and the page that it fills.

    Args:
        files: the workspace's descriptor.
        stopping: returns true from the deadline on.
    """

    files: RootedDirectory
    stopping: Callable[[], bool]
    _lines: list[str] = field(default_factory=list[str])
    _size: int = 0

    def put(self, line: str) -> None:
        """Add a line; raises `PageFull` if the page is full or time is over."""
        self._lines.append(line)
        self._size += len(line) + 1
        if self._size > PAGE_CAP:
            raise PageFull(f"the output is longer than {PAGE_CAP:,} characters")
        self.check_time()

    def check_time(self) -> None:
        if self.stopping():
            raise PageFull("the time is over")

    @property
    def page(self) -> str:
        return "\n".join(self._lines)

    def text(self, path: str) -> str:
        """The text of the file that an operand names."""
        return as_text(path, self.data(path))

    def data(self, path: str) -> bytes:
        """The content of the file that an operand names."""
        return self.files.read(self.real(path_parts(path)))

    def real(self, parts: Parts) -> Parts:
        """The path with its links followed; raises `ToolFailure` if they leave the workspace."""
        return inside(self.files, parts)

    def lines(self, path: str) -> list[str]:
        """The lines of a file, split at line feeds only, as the real commands do."""
        return text_lines(self.text(path))

    def walk(self, parts: Parts) -> Iterator[tuple[Parts, FolderEntry]]:
        """Everything below a folder that tools may see."""
        for count, (inner, entry) in enumerate(self.files.walk(parts, skip=SKIPPED_FOLDERS)):
            if count >= WALK_CAP:
                raise PageFull(f"more than {WALK_CAP:,} files; start at a folder further down")
            self.check_time()
            if why_protected(inner, use="read") is None:
                yield inner, entry

    def is_folder(self, parts: Parts) -> bool:
        """Whether the path is a real folder; raises `ToolFailure` if it does not exist."""
        status = self.files.status(parts)
        if status is None:
            raise ToolFailure(
                f"{shown('/'.join(parts))} does not exist. See what is there with ls.",
                reason="not_found",
            )
        try:
            with self.files.folder(parts):
                return True
        except ToolFailure:
            return False


class PageFull(Exception):
    """The page is full or time is over; the page so far is returned with the reason."""


def text_lines(text: str) -> list[str]:
    """Lines split at line feeds, without an empty one after the last."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def name_of(parts: Parts) -> str:
    """A path as commands print it."""
    return "/".join(parts).encode(errors="backslashreplace").decode() or "."
