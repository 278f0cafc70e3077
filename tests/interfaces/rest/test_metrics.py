"""How the installation stands: what Prometheus reads, what OTLP carries, what a look costs."""

from collections.abc import AsyncIterator
from datetime import datetime

import pytest
from installation import Installation
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from rest import TASK, Rest, served
from sqlalchemy import event

from perdure.adapters.stores.figures import SqlFigures
from perdure.adapters.telemetry.installation_metrics import InstallationMetrics
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.run import metrics
from perdure.domain.run.metrics import INSTALLATION_METRICS
from perdure.interfaces.installation_figures import STEPS, InstallationFigures


async def families(rest: Rest) -> dict[str, Family]:
    answer = await rest.client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def values(family: Family) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


async def test_the_endpoint_and_otlp_carry_the_same_metrics(rest: Rest) -> None:
    await rest.ended(await rest.start(TASK))
    services, reader = rest.api.services, InMemoryMetricReader()
    look = InstallationFigures(services.figures(), services.gateway, now=rest.api.now).look
    outlet = InstallationMetrics(look, sent=reader)
    text, _ = await outlet.exposition()
    read = {one.name: one for one in text_string_to_metric_families(text.decode())}
    data = reader.get_metrics_data()
    assert data is not None
    sent = {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    defined = {metric.name for metric in INSTALLATION_METRICS}
    # Without versions of workers, and without schedules.
    absent = {
        one.name
        for one in (
            metrics.RUNS_STRANDED,
            metrics.STARTS_REFUSED,
            metrics.STARTS_MISSED,
            metrics.COLLECTION_FAILING,
            metrics.COLLECTION_OVERDUE,
        )
    }
    assert set(read) == set(sent) == defined - absent
    for metric in INSTALLATION_METRICS:
        if metric.name in absent:
            continue
        assert read[metric.name].type == metric.kind
        assert (read[metric.name].documentation, sent[metric.name].description) == (
            (metric.description,) * 2
        )
        for sample in read[metric.name].samples:
            assert sample.name == metric.in_prometheus
            assert set(sample.labels) == set(metric.labels)


async def test_runs_calls_queues_and_the_store_are_told(rest: Rest) -> None:
    await rest.ended(await rest.start(TASK))
    found = await families(rest)
    assert values(found["perdure_runs"]) == {("agent", "completed", "accepted"): 1}
    (calls,) = values(found["perdure_model_calls"]).values()
    assert calls == 1
    assert values(found["perdure_run_ends"]) == {("agent", "completed", "accepted"): 1}
    assert (
        values(found["perdure_model_calls_unsettled"]).keys()
        == values(found["perdure_model_calls"]).keys()
    )
    assert values(found["perdure_phase_calls"]) == {("executing",): 1}
    assert values(found["perdure_part_up"]) == {("server",): 1, ("store",): 1}
    assert values(found["perdure_queue_backlog"]).keys() == {("loops",), ("models",), ("tools",)}
    assert min(values(found["perdure_queue_pollers"]).values()) >= 1
    assert values(found["perdure_store_bytes"])["all",] > 10_000
    assert values(found["perdure_runs_waiting"]) == {(): 0}


async def test_a_queue_without_a_worker_shows_what_waits(unmanned: Installation) -> None:
    async with served(unmanned) as door:
        load = await door.api.services.gateway.load()
        assert {queue.pollers for queue in load.queues} == {0}


@pytest.fixture
async def counted(unmanned: Installation) -> AsyncIterator[list[str]]:
    """The statements of the store, as they are sent."""
    sent: list[str] = []
    engines = unmanned.parts.stores.database.engines

    def note(_c: object, _k: object, statement: str, *_: object) -> None:
        sent.append(statement)

    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield sent
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


async def test_a_look_costs_the_same_however_many_runs_there_are(
    rest: Rest, counted: list[str]
) -> None:
    await rest.ended(await rest.start(TASK))
    await families(rest)  # adds up what was called

    async def statements() -> int:
        counted.clear()
        await families(rest)
        return sum(one.startswith("SELECT") and "api_tokens" not in one for one in counted)

    few = await statements()
    for number in range(6):
        await rest.ended(await rest.start(TASK | {"goal": f"look {number}"}))
    found = await families(rest)
    assert values(found["perdure_runs"]) == {("agent", "completed", "accepted"): 7}
    assert await statements() == few <= 11


class Behind(SqlFigures):
    """A store whose calls nobody added up for long."""

    pages = STEPS + 1

    async def count_calls(self, *, lost_before: datetime) -> bool:
        assert lost_before.tzinfo is not None
        self.pages -= 1
        return self.pages <= 0


async def test_sums_that_catch_up_are_not_told(unmanned: Installation) -> None:
    async with served(unmanned) as door:
        store = Behind(unmanned.parts.stores.database)
        figures = InstallationFigures(store, door.api.services.gateway, now=door.api.now)
        seen = await figures.look()
        assert seen[metrics.PART_UP]["store",] == 1
        assert metrics.MODEL_COST not in seen
        assert metrics.RUN_ENDS in seen
        assert metrics.MODEL_COST in await figures.look()


class Away:
    async def runs(self) -> dict[object, int]:
        raise StoreAway("away")


async def test_a_part_that_is_away_is_told_and_hides_no_other(unmanned: Installation) -> None:
    async with served(unmanned) as door:
        services = door.api.services
        await services.records.installation()

        figures = InstallationFigures(Away(), services.gateway, now=door.api.now)  # pyright: ignore[reportArgumentType]
        seen = await figures.look()
        assert seen[metrics.PART_UP] == {("store",): 0, ("server",): 1}
        assert metrics.RUNS not in seen
        assert metrics.QUEUE_BACKLOG in seen
