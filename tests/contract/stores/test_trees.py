"""Trees of runs in the stores: what a subtree spent and may not spend, and who is a root."""

from datetime import UTC, datetime

import pytest

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.budget.journal import Attempt, Proceed, RunClosed
from perdure.domain.llm.usage import Usage
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.run.status import StoredRun

START = datetime(2026, 1, 2, tzinfo=UTC)
ESTIMATE = Usage(input_tokens=100)


def attempt(run: str, *, root: str = "r") -> Attempt:
    return Attempt(
        key=f"{run}/{root}/s1",
        attempt=1,
        execution=f"exec-{root}-{run}",
        root=root,
        run=run,
        phase="executing",
        role="worker",
        iteration=1,
        model="m",
        request_hash="a" * 64,
        estimate=ESTIMATE,
        estimate_cost_usd=None,
    )


@pytest.fixture
def journal(database: Database) -> SqlJournal:
    return SqlJournal(database)


async def spend(journal: SqlJournal, *runs: str, root: str = "r") -> None:
    for run in runs:
        of = attempt(run, root=root)
        await journal.begin(of)
        await journal.answer(
            of, usage=Usage(output_tokens=7), cost_usd=None, reply="x", seconds=1.0
        )


async def test_a_tree_is_a_run_and_all_below_it(journal: SqlJournal) -> None:
    await spend(journal, "r", "r.w1-a", "r.w1-a.w2-b", "r.w1-ab", "r.w11-a")
    await spend(journal, "r.w1-a", root="r.w1-a")
    rows = await journal.tree(root="r", run="r.w1-a")
    assert [row.run for row in rows] == ["r.w1-a", "r.w1-a.w2-b"]
    assert len(await journal.tree(root="r", run="r")) == 5


async def test_an_id_is_used_once_its_books_name_it(
    database: Database, journal: SqlJournal
) -> None:
    await spend(journal, "r.w1-a")
    await journal.seal_tree(root="sealed", run="sealed.w1")
    stone = Tombstone(
        run="dropped", root="dropped", kind="agent", started_at=START, at=START, why="expired"
    )
    await SqlRecords(database).delete_run("dropped", stone=stone)
    for run in ("r", "r.w1-a", "sealed", "dropped"):
        assert await journal.is_used(run)
    assert not await journal.is_used("r.w1")


async def test_a_sealed_tree_spends_no_more(journal: SqlJournal) -> None:
    await spend(journal, "r.w1-a")
    late = attempt("r.w1-a.w2-b")
    assert isinstance(await journal.begin(late), Proceed)
    rows = await journal.seal_tree(root="r", run="r.w1-a")
    assert [(row.run, row.state) for row in rows] == [
        ("r.w1-a", "answered"),
        ("r.w1-a.w2-b", "lost"),
    ]
    for run in ("r.w1-a", "r.w1-a.w2-b", "r.w1-a.w9-z"):
        again = attempt(run).model_copy(update={"key": f"{run}/s2"})
        assert isinstance(await journal.begin(again), RunClosed)
    for run, root in (("r", "r"), ("r.w2-b", "r"), ("r.w1-a", "other")):
        again = attempt(run, root=root).model_copy(update={"key": f"{root}/{run}/s2"})
        assert isinstance(await journal.begin(again), Proceed)


async def test_what_was_reported_of_a_sealed_tree_stays(journal: SqlJournal) -> None:
    late = attempt("r.w1-a")
    await journal.begin(late)
    before = await journal.seal_tree(root="r", run="r.w1-a")
    await journal.answer(late, usage=Usage(output_tokens=7), cost_usd=None, reply="x", seconds=1.0)
    after = await journal.seal_tree(root="r", run="r.w1-a")
    assert [row.usage for row in after] == [row.usage for row in before] == [ESTIMATE]


async def test_runs_that_work_for_others_are_no_roots(database: Database) -> None:
    records = SqlRecords(database)
    for run, parent in (("r", None), ("r.w1-a", "r")):
        await records.put_run(
            StoredRun(
                id=run,
                kind="agent",
                goal="g",
                label=None,
                lifecycle="running",
                outcome=None,
                started_at=START,
                parent=parent,
            )
        )
    assert [row.id for row in await records.find_runs(roots=True)] == ["r"]
    assert await records.find_runs(roots=True, offset=1) == []
    assert {row.id for row in await records.find_runs(prefix="r")} == {"r", "r.w1-a"}
    kept = await records.run("r.w1-a")
    assert kept is not None and kept.parent == "r"
