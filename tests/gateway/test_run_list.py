from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

import pytest
from temporalio.client import Client
from waiting import eventually

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.run.messages import Stop
from perdure.domain.run.result import Mark, RunResult, SpendReport
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.gateway.gateway import Gateway
from perdure.gateway.run_list import TOP, Cursor, Listing, StoredPlace
from perdure.gateway.types import InstallationInfo, RunFilter
from perdure.gateway.visibility import query_of, quoted
from tests.gateway.memory_stores import MemoryBlobs, MemoryJournal, MemoryRecords
from tests.gateway.tiny import ADDRESS, Site, row, spec

ENDED = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "part"),
    [
        (RunFilter(status="running"), "PerdureLifecycle = 'running' AND ExecutionStatus"),
        (RunFilter(status="cancelled"), "PerdureLifecycle = 'stopped'"),
        (RunFilter(kind="refine", phase="evaluating"), "PerdureKind = 'refine' AND PerdurePhase"),
        (RunFilter(outcome="best_effort"), "PerdureOutcome = 'best_effort'"),
        (RunFilter(label="a b"), "PerdureLabel = 'a b'"),
    ],
)
def test_a_filter_becomes_a_query_of_root_runs(wanted: RunFilter, part: str) -> None:
    query = query_of(wanted, loops="theirs")
    assert part in query
    assert "TaskQueue IN ('theirs', 'perdure')" in query
    assert "ParentWorkflowId IS NULL" in query


@pytest.mark.parametrize("label", ["' OR 1=1", 'a"b', "a\\b", "a\nb", "x" * 1_001])
def test_a_label_cannot_leave_its_literal(label: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be searched for"):
        query_of(RunFilter(label=label), loops="theirs")


@pytest.mark.parametrize(
    "text",
    ["", "store.x", "store.7", "store.5.-1", f"store.{'9' * 18}.1", "elsewhere.1", "run.%%%"],
)
def test_a_made_up_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a cursor"):
        Cursor.read(text)


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(token=b"\x00abc"),
        Cursor(token=b"", early=("a.b-1", "c")),
        Cursor(stored=TOP),
        Cursor(stored=StoredPlace(ENDED + timedelta(microseconds=7), passed=12)),
    ],
)
def test_a_cursor_reads_back(cursor: Cursor) -> None:
    assert Cursor.read(cursor.text()) == cursor


async def test_runs_are_listed_by_filter_and_page_by_page(site: Site) -> None:
    await site.work()
    label = f"l{site.records.name}"
    runs = {await site.gateway.start(spec(metadata={"label": label})) for _ in range(3)}

    async def listed() -> bool:
        return len((await site.gateway.list(RunFilter(label=label))).runs) == 3

    await eventually(listed)
    seen: list[str] = []
    cursor = None
    while True:
        page = await site.gateway.list(RunFilter(label=label, limit=2, cursor=cursor))
        seen += [item.id for item in page.runs]
        if (cursor := page.cursor) is None:
            break
    assert sorted(seen) == sorted(runs)
    assert (await site.gateway.list(RunFilter(label=label, status="paused"))).runs == ()


async def test_only_runs_of_this_installation_are_counted(
    site: Site, blobs: MemoryBlobs, journal: MemoryJournal
) -> None:
    await site.work()
    for _ in range(2):
        await site.gateway.start(spec())

    async def connect() -> Client:
        return site.client

    neighbour = Gateway(
        connect=connect,
        blobs=blobs,
        records=MemoryRecords(),  # pyright: ignore[reportArgumentType]  (the part that is used)
        journal=journal,  # pyright: ignore[reportArgumentType]  (the part that is used)
        facts=InstallationInfo(address=ADDRESS),
    )
    running = RunFilter(status="running")

    async def counted() -> bool:
        return await site.gateway.count(running) == 2

    await eventually(counted)
    assert await neighbour.count(running) == 0


async def test_runs_beyond_retention_follow_from_the_store(site: Site) -> None:
    await site.work()
    label = f"l{site.records.name}"
    run = await site.gateway.start(spec(metadata={"label": label}))
    for name, more in (
        ("old-1", {"label": label, "lifecycle": "completed", "ended_at": ENDED}),
        ("old-2", {"label": "another", "lifecycle": "completed", "ended_at": ENDED}),
    ):
        await site.records.put_run(row(name, **more))

    async def listed() -> list[tuple[str, str]] | None:
        found = await site.gateway.list(RunFilter(label=label))
        sources = [(item.id, item.source) for item in found.runs]
        return sources if (run, "run") in sources else None

    assert await eventually(listed) == [(run, "run"), ("old-1", "store")]


@pytest.mark.parametrize("status", [None, "failed", "running"])
async def test_a_run_that_the_server_deleted_is_listed_as_failed(
    site: Site, status: Literal["failed", "running"] | None
) -> None:
    await site.records.put_run(row("gone"))
    await site.records.put_run(row("about-to-begin", started_at=datetime.now(UTC)))
    found = (await site.gateway.list(RunFilter(status=status))).runs
    told = [(item.id, item.lifecycle, item.phase, item.trouble) for item in found]
    cure = "the Temporal server does not know it: `perdure retry gone` goes on from the store"
    wanted = [] if status == "running" else [("gone", "failed", "ended", cure)]
    assert told == wanted


async def test_a_run_that_was_terminated_is_in_no_phase_any_more(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec("ask"))
    await site.client.get_workflow_handle(run).terminate()

    async def listed() -> tuple[str, str | None] | None:
        found = {item.id: item for item in (await site.gateway.list()).runs}
        row = found.get(run)
        return (row.lifecycle, row.phase) if row and row.lifecycle != "running" else None

    assert await eventually(listed) == ("stopped", "ended")
    ended = await site.gateway.list(RunFilter(phase="ended"))
    at_work = await site.gateway.list(RunFilter(phase="executing"))
    assert ([item.id for item in ended.runs], at_work.runs) == ([run], ())


@pytest.mark.parametrize("label", [None, "wanted"])
async def test_every_stored_run_is_reached_page_by_page(
    away: Gateway, records: MemoryRecords, label: str | None
) -> None:
    """Far more than are looked at for one page; few of them have the label."""
    labels = {f"old-{number:04d}": "wanted" if number % 900 == 0 else "" for number in range(2_500)}
    for name, given in labels.items():
        await records.put_run(row(name, label=given, lifecycle="completed", ended_at=ENDED))
    seen: list[str] = []
    cursor = None
    while True:
        page = await away.list(RunFilter(limit=200, label=label, cursor=cursor))
        seen += [item.id for item in page.runs]
        if (cursor := page.cursor) is None:
            break
    assert sorted(seen) == [name for name, given in labels.items() if label in {None, given}]


async def test_runs_that_begin_or_go_between_two_pages_double_and_skip_none(
    away: Gateway, records: MemoryRecords
) -> None:
    names = [f"run-{number:03d}" for number in range(300)]
    ended = {"lifecycle": "completed", "ended_at": ENDED}
    for number, name in enumerate(names):
        began = ENDED - timedelta(minutes=number // 2)  # two of each moment
        await records.put_run(row(name, started_at=began, **ended))
    first = await away.list(RunFilter(limit=101))
    for number in range(7):
        later = ENDED + timedelta(hours=1)
        await records.put_run(row(f"new-{number}", started_at=later, **ended))
    second = await away.list(RunFilter(limit=100, cursor=first.cursor))
    for name in names[:50]:
        await records.delete_run(name)
    third = await away.list(RunFilter(limit=100, cursor=second.cursor))
    told = [item.id for page in (first, second, third) for item in page.runs]
    assert (told, third.cursor) == (names, None)


async def test_without_the_server_the_store_lists_and_says_so(
    away: Gateway, records: MemoryRecords
) -> None:
    await records.put_run(row("open-1"))
    page = await away.list()

    assert [item.id for item in page.runs] == ["open-1"]
    assert "does not answer" in page.note


async def test_the_store_lists_what_ended_runs_came_to(
    away: Gateway, records: MemoryRecords
) -> None:
    """The status of one that was ended from outside is that of its start; its result is not."""
    best = Mark(iteration=2, score=0.75)
    result = RunResult(
        id="r1", kind="agent", outcome="failed", reason="internal", explanation="x", best=best,
        iteration_count=3, spend=SpendReport(cost_usd=Decimal("0.25")),
    )  # fmt: skip
    ended = {"lifecycle": "failed", "ended_at": ENDED}
    at_start = RunStatus(
        id="r1", kind="agent", goal="g", lifecycle="running", phase="starting",
        budget=BudgetStatus(limits=BudgetLimits()),
    ).model_dump_json()  # fmt: skip
    told = result.model_dump_json()
    await records.put_run(row("r1", status=at_start, result=told, **ended))
    await records.put_run(row("r2", status=at_start, **ended))
    shown = {one.id: one for one in (await away.list()).runs}
    figures = {name: (one.iteration, one.score, one.cost_usd) for name, one in shown.items()}
    assert figures == {"r1": (3, 0.75, 0.25), "r2": (None, None, None)}


async def test_a_terminated_run_is_not_listed_as_running(site: Site) -> None:
    await site.work()
    label = f"l{site.records.name}"
    run = await site.gateway.start(spec(metadata={"label": label}))
    await site.client.get_workflow_handle(run).terminate("by hand")

    async def stopped() -> bool:
        found = (await site.gateway.list(RunFilter(label=label))).runs
        return [item.lifecycle for item in found] == ["stopped"]

    await eventually(stopped)
    assert (await site.gateway.list(RunFilter(label=label, status="running"))).runs == ()


@pytest.mark.parametrize(("status", "found"), [("stopped", 1), ("failed", 0), ("waiting", 0)])
async def test_a_terminated_run_is_found_among_the_stopped(
    site: Site, status: Literal["stopped", "failed", "waiting"], found: int
) -> None:
    await site.work()
    label = f"l{site.records.name}"
    run = await site.gateway.start(spec("ask", metadata={"label": label}))
    waiting = RunFilter(label=label, status="waiting")
    await eventually(lambda: _listed(site, waiting))
    await site.client.get_workflow_handle(run).terminate("by hand")
    await eventually(lambda: _listed(site, RunFilter(label=label, status="stopped")))
    assert len((await site.gateway.list(RunFilter(label=label, status=status))).runs) == found


async def _listed(site: Site, wanted: RunFilter) -> bool:
    return bool((await site.gateway.list(wanted)).runs)


async def test_a_row_tells_when_the_run_began_and_not_its_newest_execution(site: Site) -> None:
    await site.work()
    label = f"l{site.records.name}"
    run = await site.gateway.start(spec(metadata={"label": label}))
    site.records.rows[run] = site.records.rows[run].model_copy(update={"started_at": ENDED})
    await eventually(lambda: _listed(site, RunFilter(label=label)))
    (found,) = (await site.gateway.list(RunFilter(label=label))).runs
    assert found.started_at == ENDED


async def test_a_row_begins_no_later_than_its_execution_whatever_the_clock_of_its_host(
    site: Site,
) -> None:
    await site.work()
    label = f"l{site.records.name}"
    run = await site.gateway.start(spec(metadata={"label": label}))
    ahead = datetime.now(UTC) + timedelta(hours=1)
    site.records.rows[run] = site.records.rows[run].model_copy(update={"started_at": ahead})
    await eventually(lambda: _listed(site, RunFilter(label=label)))
    (found,) = (await site.gateway.list(RunFilter(label=label))).runs
    assert found.started_at is not None
    assert found.started_at < ahead


async def test_how_a_run_ended_stands_though_an_execution_of_before_was_terminated(
    site: Site,
) -> None:
    """So it is if the execution that a reset had begun is deleted: the server has the older one."""
    await site.work()
    label = f"l{site.records.name}"
    run = await site.gateway.start(spec("ask", metadata={"label": label}))
    await eventually(lambda: _listed(site, RunFilter(label=label, status="waiting")))
    await site.client.get_workflow_handle(run).terminate("reset")
    await eventually(lambda: _listed(site, RunFilter(label=label, status="stopped")))
    ended = {"lifecycle": "completed", "outcome": "accepted", "ended_at": ENDED}
    result = RunResult(
        id=run, kind="agent", outcome="accepted", reason="completed", explanation="x",
        iteration_count=3, spend=SpendReport(cost_usd=Decimal("0.25")),
    )  # fmt: skip
    kept = ended | {"result": result.model_dump_json()}
    site.records.rows[run] = site.records.rows[run].model_copy(update=kept)
    for wanted in (RunFilter(label=label), RunFilter(label=label, status="completed")):
        (row,) = (await site.gateway.list(wanted)).runs
        assert (row.lifecycle, row.outcome, row.cost_usd) == ("completed", "accepted", 0.25)
    assert not await _listed(site, RunFilter(label=label, status="stopped"))


async def test_the_server_is_asked_of_no_stored_run_that_the_filter_leaves_out() -> None:
    """A filter that few of a thousand runs fit asked it page by page for all of them."""
    records, asked = MemoryRecords(), list[str]()

    class Empty:
        async def page(self, query: str, **_more: object) -> tuple[list[object], None]:
            asked.append(query)
            return [], None

    for number in range(200):
        old = {"lifecycle": "completed", "ended_at": ENDED}
        await records.put_run(row(f"old-{number}", label="x" if number == 3 else "y", **old))
    listing = Listing(
        server=Empty(),  # type: ignore[arg-type]
        records=records,  # type: ignore[arg-type]
        journal=MemoryJournal(),  # type: ignore[arg-type]
        facts=InstallationInfo(address=ADDRESS),
        now=lambda: ENDED,
    )
    found = (await listing.page(RunFilter(label="x"))).runs
    assert [one.id for one in found] == ["old-3"]
    named = [query for query in asked if "WorkflowId IN" in query]
    assert len(named) == 1
    assert "old-3" in named[0]
    assert "old-4'" not in named[0]


async def test_a_unique_prefix_and_last_are_enough(away: Gateway, records: MemoryRecords) -> None:
    await records.put_run(row("agent-steel-aaa", started_at=ENDED))
    await records.put_run(row("agent-stone-bbb"))

    assert await away.resolve("agent-ste") == "agent-steel-aaa"
    assert await away.resolve("agent-stone-bbb") == "agent-stone-bbb"
    assert await away.resolve("@last") == "agent-steel-aaa"
    with pytest.raises(InvalidInput, match="agent-steel-aaa, agent-stone-bbb"):
        await away.resolve("agent-st")
    with pytest.raises(NotFound, match="The nearest: agent-steel-aaa"):
        await away.resolve("agent-steal")
    with pytest.raises(InvalidInput, match="cannot be the beginning"):
        await away.resolve("a' OR '1")


async def test_a_run_deep_in_a_tree_is_found_by_its_long_id(
    away: Gateway, records: MemoryRecords
) -> None:
    run = "agent-steel" + ".w10-research-the" * 40
    await records.put_run(row(run))
    assert await away.resolve(run) == run
    assert quoted(run) == f"'{run}'"


async def test_an_exact_id_wins_over_longer_ones(away: Gateway, records: MemoryRecords) -> None:
    await records.put_run(row("run-1"))
    await records.put_run(row("run-11"))
    assert await away.resolve("run-1") == "run-1"


async def test_last_of_nothing_says_how_to_begin(away: Gateway) -> None:
    with pytest.raises(NotFound, match="no run yet"):
        await away.resolve("@last")


async def test_a_run_that_only_the_server_knows_is_found(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec(), run_id=f"far-{site.records.name}-1")
    kept = site.records.rows.pop(run)
    try:

        async def found() -> str | None:
            try:
                return await site.gateway.resolve(run[:-2])
            except NotFound:
                return None

        assert await eventually(found) == run
    finally:
        site.records.rows[run] = kept
        await site.gateway.verb(run, Stop())
