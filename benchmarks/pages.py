"""P1: what the page costs: bytes of a first view, long views, answers, many watchers."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from statistics import median

import httpx2
import yaml
from sqlalchemy import insert, select

from benchmarks.page_answers import measure_answers
from benchmarks.page_visitors import Served, served, visitor
from benchmarks.processes import WorkerProcess
from benchmarks.sides import PLENTY_S, PLENTY_TOKENS, PLENTY_USD
from benchmarks.site import Site
from perdure.adapters.stores.tables import runs
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.specs import RUN_SPEC

LONG_RUN, WATCHED_RUN = "p1-long", "p1-watched"
LONGEST = 300
FEW_RUNS, LISTED_RUNS = 100, 10_000
LOOKS = 7
ANSWERS = 9
STEP_S = 3
"""How long a draft takes in the run that is watched; a model takes that or longer."""
COUNT_EVERY_S = 3.0
"""So often an open page asks how many questions wait."""
ASSET = re.compile(r'(?:href|src)="(/assets/[^"]+)"')


class Pages(FrozenModel):
    """The result of P1; times in milliseconds, processor time in cores.

    `answer_ms` is from the middle one of `answers` being sent to the run's page that shows it,
    `watched_s` for how long `watchers` followed one run, `parts` how often one of them was sent
    what had changed.
    """

    first_bytes: int
    first_requests: int
    iterations: int
    run_ms: float
    listed_runs: int
    few_runs: int
    few_ms: float
    list_ms: float
    answers: int
    answer_ms: float
    watchers: int
    watched_s: float
    parts: int
    api_cores: float
    idle_api_cores: float
    worker_cores: float
    idle_worker_cores: float


async def measure_pages(
    site: Site, *, iterations: int, watchers: int, seconds: float, on_run: Callable[[str], None]
) -> Pages:
    """Open the page as browsers do.

    Args:
        site: where the runs are.
        iterations: of the run whose page is timed.
        watchers: how many follow one run at a time.
        seconds: for how long.
        on_run: told before each part.
    """
    on_run(f"P1: a run of {iterations} iterations, and {LISTED_RUNS:,} runs in the list")
    await _refine(site, LONG_RUN, iterations=iterations)
    await site.gateway.result(LONG_RUN)
    async with served(site) as api, visitor(site, api) as person:
        await _fill_list(site, 0, FEW_RUNS)
        few_ms = await _timed(person, "/runs")
        await _fill_list(site, FEW_RUNS, LISTED_RUNS)
        first_bytes, first_requests = await _first_view(api, person)
        run_ms = await _timed(person, f"/runs/{LONG_RUN}")
        list_ms = await _timed(person, "/runs")
        on_run(f"P1: {ANSWERS} answers, seen on the page of the run")
        answer_ms = await measure_answers(site, api, person, answers=ANSWERS)
        on_run(f"P1: {watchers} watchers of one run, {seconds:.0f} s")
        await _refine(site, WATCHED_RUN, iterations=LONGEST, step_s=STEP_S)
        await asyncio.sleep(STEP_S)
        idle_api, idle_worker, _ = await _cores(api, site.product, asyncio.sleep(seconds, 0))
        async with AsyncExitStack() as stack:
            people = [await stack.enter_async_context(visitor(site, api)) for _ in range(watchers)]
            busy_api, busy_worker, parts = await _cores(api, site.product, _watch(people, seconds))
        await site.client.get_workflow_handle(WATCHED_RUN).signal("stop", {"mode": "now"})
    return Pages(
        first_bytes=first_bytes,
        first_requests=first_requests,
        iterations=iterations,
        run_ms=run_ms,
        listed_runs=LISTED_RUNS,
        few_runs=FEW_RUNS,
        few_ms=few_ms,
        list_ms=list_ms,
        answers=ANSWERS,
        answer_ms=answer_ms,
        watchers=watchers,
        watched_s=seconds,
        parts=parts,
        api_cores=busy_api,
        idle_api_cores=idle_api,
        worker_cores=busy_worker,
        idle_worker_cores=idle_worker,
    )


async def _refine(site: Site, run: str, *, iterations: int, step_s: float = 0) -> None:
    """Start a run that is never good enough."""
    drafts = [
        {"text": f"Draft {number}: a bottle of steel.", "delay_s": step_s}
        for number in range(iterations)
    ]
    script = yaml.safe_dump({"replies": drafts}).encode()
    check = {"check": "contains", "all": ["steel", "soap"]}
    spec = {
        "kind": "refine",
        "goal": "Write a product text for a steel bottle.",
        "models": {"executor": f"scripted:{await site.stores.blobs.put(script)}"},
        "tools": {"access": "minimal"},
        "rubric": [{"name": "mentions", "evaluator": check}],
        "refine": {
            "max_iterations": iterations,
            "min_iterations": iterations,
            "improvement_threshold": None,
            "patience": iterations,
            "plan": "off",
            "classify": "off",
        },
        "budget": {"tokens": PLENTY_TOKENS, "cost_usd": PLENTY_USD, "active_time": PLENTY_S},
        "recall": False,
        "learn": False,
    }
    await site.gateway.start(RUN_SPEC.validate_python(spec), run_id=run)


async def _fill_list(site: Site, first: int, last: int) -> None:
    """Keep the ended run many times over."""
    async with site.stores.database.write() as connection:
        found = await connection.execute(select(runs).where(runs.c.id == LONG_RUN))
        row = dict(found.mappings().one()) | {"start_key": None}
        began = datetime.now(UTC)
        copies = [
            {**row, "id": f"p1-{number:05d}", "started_at": began - timedelta(minutes=number + 1)}
            for number in range(first, last)
        ]
        await connection.execute(insert(runs), copies)


async def _first_view(api: Served, person: httpx2.AsyncClient) -> tuple[int, int]:
    """Bytes of the inbox with an empty cache, as they pass on the wire, and requests to draw it.

    The bytes are with those of the tab's icon, which browsers fetch when the page is drawn.
    """
    page, size = await _wire(person, "/inbox")
    assets = sorted(set(ASSET.findall(page)))
    sizes = [size, *[(await _wire(person, asset))[1] for asset in assets]]
    return sum(sizes), 1 + sum(not asset.endswith("icon.svg") for asset in assets)


async def _wire(person: httpx2.AsyncClient, path: str) -> tuple[str, int]:
    async with person.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        answer.raise_for_status()
        await answer.aread()
        return answer.text, answer.num_bytes_downloaded


async def _timed(person: httpx2.AsyncClient, path: str) -> float:
    """The middle time of one view, without the first look at it."""
    times: list[float] = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        (await person.get(path)).raise_for_status()
        times.append(1_000 * (time.perf_counter() - began))
    return median(times[1:])


async def _cores(
    api: Served, worker: WorkerProcess, work: Awaitable[int]
) -> tuple[float, float, int]:
    """Processor time per second of API and worker, while something goes on, and what came of it."""
    began, of_api, of_worker = time.perf_counter(), api.cpu_seconds(), worker.cpu_seconds()
    found = await work
    took = time.perf_counter() - began
    spent = (api.cpu_seconds() - of_api, worker.cpu_seconds() - of_worker)
    return spent[0] / took, spent[1] / took, found


async def _watch(people: Sequence[httpx2.AsyncClient], seconds: float) -> int:
    """Follow one run as so many open tabs do; how often a part that had changed came."""
    return sum(await asyncio.gather(*(_tab(person, seconds) for person in people)))


async def _tab(person: httpx2.AsyncClient, seconds: float) -> int:
    """One open tab: it follows the run, and asks how many questions wait."""
    came = 0

    async def follow() -> None:
        nonlocal came
        async with person.stream("GET", f"/runs/{WATCHED_RUN}/live") as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                came += line.startswith("id:")

    async def count() -> None:
        while True:
            await asyncio.sleep(COUNT_EVERY_S)
            (await person.get("/inbox/count", headers={"hx-request": "true"})).raise_for_status()

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(follow())
            group.create_task(count())
    return came
