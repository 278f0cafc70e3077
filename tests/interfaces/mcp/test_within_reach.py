"""What a bound token is told over MCP: its own runs, however many others there are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.domain.foundation.errors import InvalidInput, NotFound, PerdureError
from perdure.domain.installation.access import ApiToken
from perdure.domain.run.status import StoredRun
from perdure.gateway.types import RunFilter, RunPage, RunRow
from perdure.interfaces.loop_service import LoopService
from perdure.interfaces.mcp.handler import Desk

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OTHERS = [f"agent-secret-{number}" for number in range(120)]
OWN = "agent-mine"


@dataclass
class Gateway:
    """Lists runs page by page, and names all that begin alike, as the real one does."""

    runs: Sequence[str]
    asked: list[RunFilter] = field(default_factory=list)

    async def resolve(self, name: str) -> str:
        if name in self.runs:
            return name
        if found := [run for run in self.runs if run.startswith(name)]:
            raise InvalidInput(f"{name!r} is the beginning of {len(found)} run ids: {found[0]}.")
        raise NotFound(f"There is no run {name}. The nearest: {self.runs[0]}.")

    async def list(self, wanted: RunFilter) -> RunPage:
        self.asked.append(wanted)
        begins = int(wanted.cursor or 0)
        ends = begins + wanted.limit
        rows = tuple(
            RunRow(id=run, kind="roles", goal="x", lifecycle="running")
            for run in self.runs[begins:ends]
        )
        return RunPage(runs=rows, cursor=str(ends) if ends < len(self.runs) else None)


class Records:
    async def run(self, run: str) -> StoredRun:
        return StoredRun(
            id=run,
            kind="agent",
            goal="x",
            label=None,
            outcome=None,
            lifecycle="running",
            started_at=NOW,
        )


def desk(gateway: Gateway, *runs: str) -> Desk:
    services: Any = SimpleNamespace(gateway=gateway, records=Records())
    kept: dict[str, Any] = dict.fromkeys(("definitions_kept", "blobs", "journal", "surroundings"))
    loops = LoopService(gateway=services.gateway, records=services.records, by="me", **kept)
    token = ApiToken(
        id="a1", name="test", scopes=("read",), digest="0" * 64, created_at=NOW, runs=runs
    )
    return Desk(services, loops, token=token, now=NOW)


@pytest.mark.parametrize("name", ["agent-secret", "agent-secret-1", "agent-hidden"])
async def test_a_bound_token_learns_no_ids_of_other_runs(name: str) -> None:
    bound = desk(Gateway([*OTHERS, OWN]), OWN)
    with pytest.raises(NotFound) as refused:
        await bound.status(name)
    told = str(refused.value).replace(f"There is no run {name}.", "")
    assert "secret" not in told


async def test_other_tokens_are_told_what_begins_alike() -> None:
    with pytest.raises(PerdureError, match="agent-secret-0"):
        await desk(Gateway([*OTHERS, OWN])).status("agent-sec")


async def test_a_bound_token_finds_its_runs_behind_many_others() -> None:
    bound = desk(Gateway([*OTHERS, OWN]), OWN)
    assert [row.id for row in (await bound.runs(None)).runs] == [OWN]
    found = await bound.rows(None)
    assert ([row.id for row in found.loops], found.note) == ([OWN], "")


async def test_a_list_of_all_runs_is_read_no_further_than_it_is_long() -> None:
    gateway = Gateway([*OTHERS, OWN])
    found = await desk(gateway).runs(None)
    assert (len(found.runs), found.note) == (50, "There are more than 50.")
    assert len(gateway.asked) == 1


async def test_a_list_that_was_not_read_to_its_end_says_so() -> None:
    found = await desk(Gateway([*OTHERS * 9, OWN]), OWN).runs(None)
    assert (found.runs, found.note) == ((), "There may be older ones, which were not looked for.")
