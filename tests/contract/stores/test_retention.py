"""What collections and erasures read of the stores, page by page, and which runs are of a tree."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.erasure import SqlErasure
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.retention.erasure import RootRun
from perdure.domain.run.status import StoredRun

START = datetime(2026, 1, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


def row(run: str, *, ended: datetime | None = START, parent: str | None = None) -> StoredRun:
    return StoredRun(
        id=run, kind="agent", goal="g", label=f"label-{run}", lifecycle="completed",
        outcome="accepted", started_at=START, ended_at=ended, parent=parent,
    )  # fmt: skip


async def put(database: Database, *rows: StoredRun) -> None:
    for each in rows:
        await SqlRecords(database).put_run(each)


async def test_ended_roots_are_read_oldest_first_in_pages(database: Database) -> None:
    # Several ended in one moment, so that a page ends between them.
    moments = [3, 1, 1, 1, 2, 5]
    rows = [row(f"r{at}-{n}", ended=START + at * HOUR) for n, at in enumerate(moments)]
    await put(database, *rows, row("open", ended=None), row("r1-1.w1", parent="r1-1"))
    erasure, by = SqlErasure(database), START + 3 * HOUR
    found: list[str] = []
    last: RootRun | None = None
    while page := await erasure.ended(by=by, after=last, limit=2):
        assert len(page) <= 2
        found += [one.id for one in page]
        last = page[-1]
    assert found == ["r1-1", "r1-2", "r1-3", "r2-4", "r3-0"]
    assert last == RootRun(
        id="r3-0", label="label-r3-0", outcome="accepted", ended_at=START + 3 * HOUR
    )


async def test_all_roots_are_read_in_pages(database: Database) -> None:
    await put(database, *(row(name) for name in ("a", "b", "c")))
    await put(database, row("d", ended=None), row("b.w1", parent="b"))
    erasure, found, last = SqlErasure(database), list[str](), ""
    while page := await erasure.roots(after=last, limit=3):
        found += [one.id for one in page]
        last = page[-1].id
    assert found == ["a", "b", "c", "d"]


async def test_ended_runs_whose_parent_is_gone_become_roots(database: Database) -> None:
    await put(database, row("a"), row("a.w1", parent="a"), row("b.w1", parent="b"))
    await put(database, row("b.w1.w2", parent="b.w1"), row("c.w1", parent="c", ended=None))
    erasure = SqlErasure(database)
    await erasure.adopt()
    assert [one.id for one in await erasure.roots()] == ["a", "b.w1"]
    assert [one.id for one in await erasure.ended(by=START)] == ["a", "b.w1"]
    assert [one.id for one in await erasure.tree("b.w1")] == ["b.w1", "b.w1.w2"]


async def test_a_root_that_is_named_like_a_child_is_no_part_of_a_tree(database: Database) -> None:
    await put(database, row("a"), row("a.w1", parent="a"), row("a.b"), row("a.b.w1", parent="a.b"))
    erasure = SqlErasure(database)
    assert [one.id for one in await erasure.tree("a")] == ["a", "a.w1"]
    assert [one.id for one in await erasure.tree("a.b")] == ["a.b", "a.b.w1"]


async def test_open_runs_are_known_by_id(database: Database) -> None:
    await put(database, row("a"), row("b", ended=None), row("b.w1", ended=None, parent="b"))
    assert sorted(await SqlRecords(database).open_runs()) == ["b", "b.w1"]


@pytest.mark.parametrize("root", ["order-7", "a_b", "a%b", "A-1", "größe", "x y", "order.7"])
async def test_a_tree_has_what_is_below_and_nothing_that_only_looks_like_it(
    database: Database, root: str
) -> None:
    below = [f"{root}.w1", f"{root}.w1.w2", f"{root}.", f"{root}.Z", f"{root}.\U0010fffd"]
    # As other languages sort, punctuation and case hardly count, and `_` or `%` would be anything.
    others = [
        f"{root}-w1", f"{root}w1", f"{root}/w1", f"{root} .w1", f"x{root}.w1", f"{root[:-1]}.w1",
        f"{root.swapcase()}.w1", f"{root.replace('_', 'x').replace('%', 'yy')}0.w1",
    ]  # fmt: skip
    # A run that learned has no row: one of that name is somebody's own.
    others.append(learn_run_id(root))
    await put(database, *(row(name) for name in {root, *others}))
    await put(database, *(row(name, parent=root) for name in below))
    found = [run.id for run in await SqlErasure(database).tree(root)]
    assert found == sorted({root, *below})


async def test_the_memory_of_a_look_at_roots_is_that_of_a_page(database: Database) -> None:
    """No statement reads more rows than a page has, nor what a row holds beside."""
    heard: list[str] = []

    def hear(_connection: object, _cursor: object, statement: str, *_given: object) -> None:
        heard.append(statement)

    await put(database, row("a"))
    event.listen(database.engine.sync_engine, "before_cursor_execute", hear)
    try:
        await SqlErasure(database).ended(by=START)
        await SqlErasure(database).roots()
    finally:
        event.remove(database.engine.sync_engine, "before_cursor_execute", hear)
    asked = [statement for statement in heard if "FROM runs" in statement]
    assert len(asked) == 2
    for statement in asked:
        assert "LIMIT" in statement
        assert "result" not in statement and "goal" not in statement
