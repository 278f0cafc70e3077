"""A run that goes takes those below it along, and none beside it."""

from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.retention.rules import read_rules
from perdure.domain.run.status import StoredRun
from perdure.operations.erase import Eraser
from perdure.operations.gc import collect

NOW = datetime.now(UTC)
LETTER = b"A letter to Ada Lovelace."


def row(run: str, *, parent: str | None = None, spec: str | None = None) -> StoredRun:
    then = NOW - timedelta(days=9)
    return StoredRun(
        id=run, kind="agent", goal="g", label="letters", lifecycle="completed", outcome="accepted",
        started_at=then, ended_at=then, parent=parent, spec=spec,
    )  # fmt: skip


async def put(site: Installation, *runs: tuple[str, str | None]) -> None:
    ref = await site.parts.stores.blobs.put(LETTER)
    for run, parent in runs:
        await site.parts.stores.records.put_run(row(run, parent=parent, spec=ref))


async def left(site: Installation) -> list[str]:
    return sorted(run.id for run in await site.parts.stores.records.find_runs())


async def test_a_deleted_run_takes_those_below_it_along(bare: Installation) -> None:
    await put(bare, ("a", None), ("a.w1", "a"), ("a.w1.w2", "a.w1"), ("ab", None))
    # A root that somebody called so, with a child of its own.
    await put(bare, ("a.b", None), ("a.b.w1", "a.b"))
    await bare.gateway.delete("a")
    assert await left(bare) == ["a.b", "a.b.w1", "ab"]
    with pytest.raises(NotFound):
        await bare.gateway.delete("a")


async def test_an_erased_run_takes_none_beside_it_along(bare: Installation) -> None:
    await put(bare, ("a", None), ("a.w1", "a"), ("a.b", None), ("a.b.w1", "a.b"))
    found = await Eraser(bare.parts.stores, bare.gateway).erase("a", now=NOW)
    assert found.runs == ("a", "a.w1")
    assert await left(bare) == ["a.b", "a.b.w1"]


async def test_runs_whose_parent_is_gone_are_found_and_erased(bare: Installation) -> None:
    await put(bare, ("a", None), ("a.w1", "a"), ("a.w1.w2", "a.w1"))
    eraser = Eraser(bare.parts.stores, bare.gateway)
    with pytest.raises(NotAllowed, match="works for a"):
        await eraser.erase("a.w1", now=NOW)
    # Earlier versions dropped this row alone.
    await bare.parts.stores.records.delete_run("a")
    assert (await eraser.erase("a.w1", now=NOW, dry_run=True)).runs == ("a.w1", "a.w1.w2")
    assert await eraser.find(subject="ada lovelace") == ["a.w1"]
    await eraser.erase("a.w1", now=NOW)
    assert await left(bare) == []


@pytest.mark.long
async def test_rules_reach_runs_whose_parent_is_gone(bare: Installation) -> None:
    await put(bare, ("a.w1", "a"), ("a.w1.w2", "a.w1"))
    stores = bare.parts.stores
    found = await collect(
        stores, bare.gateway, bare.parts.workspaces,
        now=NOW, dry_run=False, rules=read_rules("7d"),
    )  # fmt: skip
    assert (found.runs, found.left) == (1, 0)
    assert await left(bare) == []
