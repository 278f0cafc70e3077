"""What was said in a run, or where the words are when it said none itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.run.status import StoredRun
from perdure.domain.turns.records import IterationRecord, StageRecord
from perdure.interfaces.transcripts import transcript_head

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(run: str, *, parent: str | None = None, ended: bool = False) -> StoredRun:
    return StoredRun(
        id=run,
        kind="delegation",
        goal="g",
        label=None,
        lifecycle="completed" if ended else "running",
        outcome=None,
        started_at=NOW,
        ended_at=NOW if ended else None,
        parent=parent,
    )


@dataclass
class Kept:
    """What store and gateway know."""

    rows: Sequence[StoredRun]
    kept: Sequence[IterationRecord] = field(default_factory=list)

    async def records(self, run: str) -> Sequence[IterationRecord]:
        return self.kept

    async def result(self, run: str, *, wait: bool) -> object:
        raise NotAllowed("The run has not ended.")

    async def find_runs(self, *, prefix: str, limit: int) -> list[StoredRun]:
        return [row for row in self.rows if row.id.startswith(prefix)]

    async def run(self, run: str) -> StoredRun | None:
        return next((row for row in self.rows if row.id == run), None)


async def head_of(kept: Kept, iteration: int | None = None) -> str:
    services = SimpleNamespace(gateway=kept, records=kept)
    return await transcript_head(services, "d", iteration)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        pytest.param([row("d")], "d has no transcript yet", id="just-begun"),
        pytest.param([row("d", ended=True)], "without any message", id="ended-in-silence"),
        pytest.param(
            [row("d", ended=True), row("d.w2", parent="d"), row("d.w1", parent="d"),
             row("d.w1.x", parent="d.w1")],
            "Read theirs: perdure transcript d.w1, perdure transcript d.w2.",
            id="a-manager",
        ),
    ],
)  # fmt: skip
async def test_without_words_of_its_own_a_run_says_where_they_are(
    rows: list[StoredRun], told: str
) -> None:
    with pytest.raises(NotFound) as caught:
        await head_of(Kept(rows))
    assert told in str(caught.value)


async def test_the_words_of_an_iteration_of_stages_are_its_last_stage_s() -> None:
    stages = tuple(
        StageRecord(name=name, role=name, status="completed", transcript=head)
        for name, head in (("plan", "t1"), ("code", "t2"), ("check", None))
    )
    kept = Kept([row("d")], [IterationRecord(index=1, stages=stages)])
    assert await head_of(kept) == "t2"
    assert await head_of(kept, 1) == "t2"
