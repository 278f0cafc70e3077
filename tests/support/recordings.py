"""The recorded histories of every version, each with the end that was told when it was played."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ends import Ends, as_json

from perdure.operations.replay import replay

FOLDER = Path(__file__).parents[1] / "replay" / "histories"
FOLDER_OF_THEIRS = FOLDER.with_name("theirs")
"""Histories of workflows of somebody else's, which await loops."""
EXPECTED = ".expected.json"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded execution; `expected` is None where only the history was kept."""

    name: str
    history: bytes
    expected: dict[str, Any] | None


def recordings(folder: Path = FOLDER) -> list[Recording]:
    """Every recording below a folder."""
    return [
        _read(path, str(path.relative_to(folder).with_suffix("")))
        for path in sorted(folder.rglob("*.json"))
        if not path.name.endswith(EXPECTED)
    ]


def _read(path: Path, name: str) -> Recording:
    expected = path.with_name(path.stem + EXPECTED)
    told = json.loads(expected.read_text()) if expected.exists() else None
    return Recording(name, path.read_bytes(), told)


async def departures(given: list[Recording]) -> AsyncIterator[tuple[str, str]]:
    """Name and problem of each recording that this code would not play as it was."""
    ends = Ends()
    expected = {one.name: one.expected for one in given}
    histories = {one.name: one.history for one in given}
    async for item in replay(histories, None, interceptors=[ends]):
        problem = item.problem or _other_end(expected[item.source], ends.newest)
        if problem is not None:
            yield item.source, problem


def _other_end(told: dict[str, Any] | None, now: dict[str, Any] | None) -> str | None:
    if told is None or now is None:
        return None
    for query, answer in told.items():
        then, differing = as_json(query, answer), now[query]
        if then != differing:
            return f"{query} tells something else at its end: {_first(then, differing)}"[:500]
    return None


def _first(then: Any, now: Any) -> str:
    """Where two answers differ first."""
    match then, now:
        case dict(), dict():
            pairs = [(name, then.get(name), now.get(name)) for name in now]
        case list(), list() if len(then) == len(now):
            pairs = [(str(n), old, new) for n, (old, new) in enumerate(zip(then, now, strict=True))]
        case _:
            return f"was {then!r}, now {now!r}"
    name, old, new = next((name, old, new) for name, old, new in pairs if old != new)
    return f"{name} {_first(old, new)}"
