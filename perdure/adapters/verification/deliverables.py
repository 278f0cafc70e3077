"""Inspects files that are handed over: do they exist, have content, parse, and hold no stubs?"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

from pydantic import JsonValue

from perdure.adapters.bounded_process.process import TooMuch, misfits_of, work_now
from perdure.adapters.files.links import inside
from perdure.adapters.files.paths import why_protected
from perdure.adapters.files.rooted_files import RootedDirectory
from perdure.domain.delegation.completion import FileFact
from perdure.domain.delegation.placeholders import placeholders
from perdure.domain.foundation.errors import PerdureError, ToolFailure
from perdure.domain.foundation.json_extraction import value_of

READ_BYTES = 2 * 1024 * 1024
MARKS_NAMED = 8
MISFITS_NAMED = 12
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|#|/)", re.IGNORECASE)


class Deliverables:
    """The port `Inspector` for a folder of this host, which it never leaves."""

    async def facts(self, root: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        """What is known of each file below `root`."""
        return await asyncio.to_thread(_facts, root, paths)

    async def texts(self, root: str, paths: Sequence[str]) -> Mapping[str, str]:
        """The texts of those files that exist and are text."""
        return await asyncio.to_thread(_texts, root, paths)

    async def misfits(self, text: str, schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """The errors of a text against a JSON schema."""
        try:
            value = await asyncio.to_thread(value_of, text)
            errors = await misfits_of(schema, value)
        except PerdureError as error:
            errors = (str(error),)
        return errors[:MISFITS_NAMED]


def problem_of(path: str, text: str) -> str:
    """Why a file does not parse as what its suffix says; empty if it does."""
    try:
        return str(work_now("document", path, text))
    except TooMuch as error:
        return f"could not be read as {PurePosixPath(path).suffix}: {error}"


def _facts(root: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
    with RootedDirectory(root, guarded=True) as files:
        return tuple(_fact(files, path) for path in paths)


def _fact(files: RootedDirectory, path: str) -> FileFact:
    parts = _parts(path)
    if parts is None:
        return FileFact(path=path, exists=False)
    if why := why_protected(parts, use="read"):
        return FileFact(path=path, problem=f"cannot be handed over: it is {why}")
    try:
        parts = inside(files, parts)
    except ToolFailure as failure:
        return FileFact(path=path, problem=f"cannot be handed over: {failure.message}")
    status = files.status(parts)
    if status is not None and status.st_size > READ_BYTES:
        return FileFact(path=path, bytes=status.st_size)
    data = _read(files, parts)
    if data is None:
        return FileFact(path=path, exists=False)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return FileFact(path=path, bytes=len(data))
    problem = problem_of(path, text) or _lost_links(files, parts, text)
    return FileFact(
        path=path,
        bytes=len(text.strip()),
        placeholders=placeholders(text)[:MARKS_NAMED],
        problem=problem,
    )


def _texts(root: str, paths: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    with RootedDirectory(root, guarded=True) as files:
        for path in paths:
            parts = _parts(path)
            data = None if parts is None else _read(files, parts)
            if data is not None:
                found[path] = data.decode(errors="replace")
    return found


def _lost_links(files: RootedDirectory, parts: tuple[str, ...], text: str) -> str:
    """The relative links of a Markdown file whose target does not exist."""
    if not parts[-1].lower().endswith((".md", ".markdown")):
        return ""
    lost: list[str] = []
    for goal in _links_of(text):
        path = re.split("[?#]", goal, maxsplit=1)[0]
        if not path or _ELSEWHERE.match(goal):
            continue
        # As it is written first: the name of a file may hold any of these signs.
        places = (_parts("/".join((*parts[:-1], one))) for one in (goal, path, unquote(path)))
        if not any(place is not None and _is_there(files, place) for place in places):
            lost.append(path)
    return (
        f"links to what is not there: {', '.join([*dict.fromkeys(lost)][:MISFITS_NAMED])}"
        if lost
        else ""
    )


def _links_of(text: str) -> list[str]:
    try:
        found = work_now("links", text)
    except TooMuch:
        return []  # which is a reason not to look at them, and none to refuse the text
    return [str(one) for one in found] if isinstance(found, list) else []


def _is_there(files: RootedDirectory, parts: tuple[str, ...]) -> bool:
    try:
        return files.entry(inside(files, parts)) is not None
    except ToolFailure:
        return False


def _parts(path: str) -> tuple[str, ...] | None:
    """The components of a relative path; None for one that leaves the folder."""
    kept: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        if part in {"", "."}:
            continue
        if part == "..":
            if not kept:
                return None
            kept.pop()
        else:
            kept.append(part)
    return tuple(kept) if kept and not path.startswith("/") else None


def _read(files: RootedDirectory, parts: tuple[str, ...]) -> bytes | None:
    try:
        return files.read(inside(files, parts), cap=READ_BYTES)
    except (ToolFailure, OSError):
        return None
