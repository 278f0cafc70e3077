"""The recorded histories of every version, each with the end that was told when it was played."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ends import Ends

from perdure.domain.status import RunStatus
from perdure.operations.replaying import replay

FOLDER = Path(__file__).parents[1] / "replay" / "histories"
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
    # A status that was told before a field existed is read with the field's default.
    before = json.loads(RunStatus.model_validate(told["status"]).model_dump_json())
    differing = sorted(name for name in now if before.get(name) != now[name])
    if not differing:
        return None
    shown = "; ".join(f"{name} was {before.get(name)!r}, now {now[name]!r}" for name in differing)
    return f"the status at its end differs: {shown}"[:500]
