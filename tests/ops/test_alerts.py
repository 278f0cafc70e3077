"""The alerts in a real Prometheus: quiet when all is well, and each is heard on its fault."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml
from installation import installation
from opentelemetry.sdk.metrics import MeterProvider
from postgresql import stoppable
from prometheus import ALERTS, faster, needs_prometheus, prometheus
from rest import served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.telemetry.exposition import Exposition
from perdure.adapters.telemetry.installation_metrics import InstallationMetrics
from perdure.adapters.telemetry.step_plugin import Meters
from perdure.domain.run import metrics
from perdure.domain.run.figures import CallSums, ClockLoad, Figures, QueueLoad, ServerLoad
from perdure.interfaces.installation_figures import spent, waiting
from perdure.interfaces.rest.settings import ApiRules

pytestmark = [pytest.mark.long, needs_prometheus]

ALL = {
    rule["alert"]
    for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    for rule in group["rules"]
}
RULES = faster(ALERTS.read_text("utf-8"))
WITHIN_S = 100
GIB = 1024.0**3
HEALTHY = ServerLoad(
    failing=0,
    clock=ClockLoad(collection_fails=False, collection_overdue_s=0),
    queues=tuple(QueueLoad(queue=name, pollers=2) for name in ("loops", "models")),
)
SICK = ServerLoad(
    waiting=3,
    failing=1,
    stranded=2,
    clock=ClockLoad(collection_fails=True, collection_overdue_s=60),
    queues=(QueueLoad(queue="loops", backlog=90, age_s=400, pollers=2), QueueLoad(queue="models")),
)


def api_figures(load: ServerLoad, *, up: float, step: int) -> Callable[[], Figures]:
    """What the API tells, a look after the other; `step` says how fast it gets worse."""
    looks: Iterator[int] = itertools.count()

    def figures() -> Figures:
        at = next(looks)
        bad = at * step
        calls = CallSums(model="m", phase="executing", calls=at, unconfirmed=bad, cost_usd=bad)
        ended = ("refine", "completed", "accepted"), ("refine", "failed", "failed")
        return {
            metrics.PART_UP: {("store",): up, ("server",): up},
            metrics.RUN_ENDS: {ended[0]: float(at), ended[1]: float(bad)},
            metrics.NOTICES_DEAD: {(): float(min(bad, 1))},
            metrics.STARTS_REFUSED: {("nightly",): float(min(bad, 1))},
            **waiting(load),
            metrics.STARTS_MISSED: {("nightly",): float(bad)},
            metrics.STORE_BYTES: {("blobs",): GIB + bad * GIB},
            **spent([calls]),
        }

    return figures


def worker_calls(meters: Meters, *, sick: bool) -> None:
    """What a worker counts: of a sick one, calls without a reply, slow ones, tools that break."""
    meters.model_call(model="m", step="call_model", status="replied", seconds=400 if sick else 1)
    meters.tool_call(tool="fs.read", outcome="ok")
    if sick:
        meters.model_call(model="m", step="call_model", status="model_overloaded", seconds=1)
        meters.tool_call(tool="fs.read", outcome="failed")


class Told:
    """Endpoints of ours over values of a test, read by the library's own server."""

    def __init__(self, figures: Callable[[], Figures], *, sick: bool) -> None:
        self._sick = sick
        self._outlet = InstallationMetrics(self._look)
        self._figures = figures
        self._worker = Exposition()
        self._meters = Meters(MeterProvider([self._worker.reader]).get_meter("perdure"))

    async def _look(self) -> Figures:
        return self._figures()

    async def _api(self) -> bytes:
        return (await self._outlet.exposition())[0]

    async def _of_worker(self) -> bytes:
        worker_calls(self._meters, sick=self._sick)
        return self._worker.text()

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[dict[str, str]]:
        """The targets by their jobs."""
        async with answering(self._api) as api, answering(self._of_worker) as worker:
            yield {"perdure-api": api, "perdure-worker": worker}


@asynccontextmanager
async def answering(text: Callable[[], object]) -> AsyncGenerator[str]:
    """Answers every request with what `text` gives then; yields host and port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = await text()  # type: ignore[misc]
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


async def test_nothing_fires_while_all_is_well(tmp_path: Path) -> None:
    told = Told(api_figures(HEALTHY, up=1, step=0), sick=False)
    async with told.served() as targets, prometheus(tmp_path, targets, RULES) as watching:
        # Longer than the longest `for` of a rule; two scrapes a second were asked for.
        await eventually(lambda: watching.scraped(seconds=40), seconds=WITHIN_S)
        assert await watching.firing() == set()


@pytest.mark.slow
async def test_every_alert_fires_on_its_fault(tmp_path: Path) -> None:
    told = Told(api_figures(SICK, up=0, step=1), sick=True)
    async with told.served() as targets, prometheus(tmp_path, targets, RULES) as watching:
        values = ALL - {"PerdureApiDown", "PerdureWorkerDown"}
        await eventually(lambda: watching.fires(*values), seconds=WITHIN_S)
    # And with nobody at both addresses.
    async with prometheus(tmp_path, targets, RULES) as watching:
        down = "PerdureApiDown", "PerdureWorkerDown"
        await eventually(lambda: watching.fires(*down), seconds=WITHIN_S)


async def test_a_real_installation_without_worker_store_and_api_is_heard_of(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    watch = tmp_path / "prometheus"
    watch.mkdir()
    async with AsyncExitStack() as stack, AsyncExitStack() as api:
        store = stack.enter_context(stoppable())
        site = await stack.enter_async_context(
            installation(tmp_path / "home", address, database_url=store.url)
        )
        rules = ApiRules(public=frozenset({"metrics"}))
        door = await api.enter_async_context(served(site, rules))
        target = {"perdure-api": door.url.removeprefix("http://")}
        async with prometheus(watch, target, RULES) as watching:
            await eventually(lambda: watching.fires("PerdureNoWorker"), seconds=WITHIN_S)
            # This Prometheus reads no worker, which it says as well.
            await eventually(lambda: watching.fires("PerdureWorkerDown"), seconds=WITHIN_S)
            assert await watching.firing() == {"PerdureNoWorker", "PerdureWorkerDown"}
            await asyncio.to_thread(store.stop)
            await eventually(lambda: watching.fires("PerdureStoreAway"), seconds=WITHIN_S)
            assert "PerdureServerAway" not in await watching.firing()
            await api.aclose()
            await eventually(lambda: watching.fires("PerdureApiDown"), seconds=WITHIN_S)
