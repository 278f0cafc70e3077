"""Nobody there refuses a start; a worker that is there and busy never does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TypeVar

import pytest
from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.worker import Worker

from perdure.domain.foundation.errors import ModelUnavailable
from perdure.domain.run.bookkeeping_messages import ReadyReport
from perdure.domain.run.spec import Placement as RunSite
from perdure.domain.run.status import RunStatus
from perdure.gateway.readiness import Readiness
from perdure.gateway.types import InstallationInfo, QueueState, Waits
from tests.gateway.tiny import ADDRESS, Site, ready, spec

T = TypeVar("T")
SITE = RunSite(loops="loops", models="models", tools="tools")


class Queues:
    """Answers probes as told: `busy` queues after the first question, `gone` ones never."""

    def __init__(
        self, *, busy: int = 0, lacks: Mapping[str, str] | None = None, version: str = "1"
    ) -> None:
        self.version = version
        self.lacks = dict(lacks or {})
        self.asked: list[tuple[str, float]] = []
        self.silent = busy
        self.open = asyncio.Event()
        self.described = DescribeTaskQueueResponse()

    async def probe(self, queue: str, *, seconds: float) -> ReadyReport | None:
        self.asked.append((queue, seconds))
        await self.open.wait()
        if queue != "models" or len([q for q, _ in self.asked if q == queue]) > self.silent:
            return ReadyReport(version=self.version, queue=queue, lacks=self.lacks)
        return None

    async def polled(self, queue: str) -> bool:
        return True

    async def ask(self, request: Callable[["Queues"], Awaitable[T]]) -> T:
        return await request(self)

    namespace = "default"

    @property
    def workflow_service(self) -> "Queues":
        return self

    async def describe_task_queue(self, _: object) -> DescribeTaskQueueResponse:
        return self.described


def readiness_of(queues: Queues) -> Readiness:
    return Readiness(
        queues,  # pyright: ignore[reportArgumentType]  (the part that is used)
        facts=InstallationInfo(address=ADDRESS),
        waits=Waits(ready=5, patience=20),
    )


async def test_a_queue_that_is_limited_at_the_server_is_said_to_be() -> None:
    queues = Queues(busy=9)
    queues.open.set()
    limit = queues.described.config.queue_rate_limit
    limit.rate_limit.requests_per_second = 0
    limit.metadata.reason, limit.metadata.update_identity = "maintenance", "ops"
    found = await readiness_of(queues).ask(QueueState(queue="models", serves="models"))
    assert found.found == (
        "workers are busy: none answers; the queue models is limited to 0 tasks a second at the "
        "Temporal server by ops (maintenance)"
    )
    assert "--task-queue models --task-queue-type activity --queue-rps-limit default" in found.cure


async def test_a_busy_worker_is_asked_again_with_patience() -> None:
    queues = Queues(busy=1)
    queues.open.set()
    assert await readiness_of(queues).require(SITE, spec()) is None
    assert [seconds for queue, seconds in queues.asked if queue == "models"] == [5, 20]


async def test_a_worker_that_stays_busy_is_noted_not_refused() -> None:
    queues = Queues(busy=2)
    queues.open.set()
    note = await readiness_of(queues).require(SITE, spec())
    assert note is not None
    assert "the workers of models are busy" in note
    assert "perdure worker" in note


async def test_who_asks_at_the_same_time_shares_one_question() -> None:
    queues = Queues()
    readiness = readiness_of(queues)
    askers = [asyncio.create_task(readiness.require(SITE, spec())) for _ in range(20)]
    while len(queues.asked) < 3:
        await asyncio.sleep(0)
    askers[0].cancel()  # whoever leaves does not take the answer from the others
    queues.open.set()
    found = await asyncio.gather(*askers, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [None] * 19
    assert sorted(queue for queue, _ in queues.asked) == ["loops", "models", "tools"]


async def test_an_answer_counts_for_later_starts_and_never_refuses_one() -> None:
    queues, now = Queues(), [100.0]
    queues.open.set()
    readiness = Readiness(
        queues,  # pyright: ignore[reportArgumentType]  (the part that is used)
        facts=InstallationInfo(address=ADDRESS),
        waits=Waits(known=30),
        clock=lambda: now[0],
    )
    for _ in range(5):
        await readiness.require(SITE, spec())
    assert len(queues.asked) == 3
    now[0] += 31
    await readiness.require(SITE, spec())
    assert len(queues.asked) == 6

    queues.lacks = {"claude": "no key"}
    claude = spec(models={"executor": "claude-x"})
    now[0] += 31
    with pytest.raises(ModelUnavailable):
        await readiness.require(SITE, claude)
    queues.lacks = {}  # somebody set the key, and started the workers anew
    assert await readiness.require(SITE, claude) is None


async def test_a_model_that_no_worker_can_call_refuses_the_start() -> None:
    queues = Queues(lacks={"claude": "the workers have no key. Set ANTHROPIC_API_KEY"})
    queues.open.set()
    given = spec(models={"executor": "claude-x"})
    with pytest.raises(ModelUnavailable) as caught:
        await readiness_of(queues).require(SITE, given)
    assert "models.executor: claude-x: the workers have no key" in caught.value.message
    assert "Nothing was started" in caught.value.message
    assert await readiness_of(queues).require(SITE, spec(models={"executor": "local"})) is None


@pytest.fixture
async def hogged(site: Site) -> AsyncIterator[Site]:
    """A site whose only slot for model calls is taken."""
    free, taken = asyncio.Event(), asyncio.Event()

    @activity.defn(name="hog")
    async def hog() -> None:
        taken.set()
        await free.wait()

    queue = f"perdure-{site.records.name}-models"
    await site.work(models=False)
    async with AsyncExitStack() as stack:
        worker = Worker(
            site.client, task_queue=queue, activities=[ready, hog], max_concurrent_activities=1
        )
        await stack.enter_async_context(worker)
        handle = await site.client.start_activity(
            "hog",
            id=f"hog-{site.records.name}",
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=60),
        )
        async with asyncio.timeout(30):
            await taken.wait()
        yield site
        free.set()
        await handle.result()


@pytest.mark.long
async def test_a_run_starts_behind_a_worker_without_a_free_slot(hogged: Site) -> None:
    run = await hogged.gateway.start(spec())
    row = await hogged.records.run(run)
    assert row is not None
    told = RunStatus.model_validate_json(row.status or "").dispatch
    assert f"perdure-{hogged.records.name}-models" in told
    assert "busy" in told
    states = {state.serves: state for state in await hogged.gateway.readiness(spec())}
    assert (states["models"].ready, states["models"].served) == (False, True)
    assert states["models"].found == "workers are busy: none answers"
