"""Servers that restrict who uses them, as Temporal Cloud and a proxy with authorization do.

Commands and workers go through a proxy that refuses methods, keys and requests over a rate, lists
in short pages and late, and is away for a while. What it cannot give is named with its cure.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from holding import HELD, Holding
from installation import Installation, dev_server, installation
from restricted import RestrictedServer, commanded, restricted, said_by
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.temporal import client, renewed_key
from perdure.domain.foundation.errors import NoRoom, RuntimeUnavailable
from perdure.domain.foundation.names import loops_queue, models_queue
from perdure.domain.run.messages import Pause
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.types import RunFilter
from perdure.gateway.worker_probe import _heartbeats, queue_limit
from perdure.operations.doctor import _attributes

SPEC = {"kind": "agent", "goal": "say", "learn": False}
SCRIPT = {"replies": [{"text": "done"}], "exhausted": "repeat_last"}
HOUR = timedelta(hours=1)
AWAY_S = 60.0
LASTING = {"replies": [{"text": "done", "delay_s": HELD}], "exhausted": "repeat_last"}


@pytest.fixture
async def proxy(server: WorkflowEnvironment) -> AsyncIterator[RestrictedServer]:
    """A server that restricts nothing yet."""
    async with restricted(server.client) as made:
        yield made


@pytest.fixture
async def site(proxy: RestrictedServer, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without workers that knows the server by its proxy alone."""
    async with installation(tmp_path / "home", proxy.address, heartbeat_s=10.0) as made:
        yield made


async def test_a_run_goes_through_a_server_that_restricts_nothing(
    site: Installation, proxy: RestrictedServer
) -> None:
    async with site.worker():
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
    assert proxy.asked["StartWorkflowExecution"] == 1


def _key_in(folder: Path, key: str) -> str:
    """Put a key into a file as a renewal does, in one step; returns the reference."""
    written = folder / "key.new"
    written.write_text(f"{key}\n")
    written.replace(folder / "key")
    return f"file:{folder / 'key'}"


async def test_a_key_that_is_renewed_in_its_file_is_taken_without_a_restart(
    proxy: RestrictedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewed_key, "LOOK_S", 0.05)
    monkeypatch.setenv("TEMPORAL_API_KEY", _key_in(tmp_path, "sk-first"))
    monkeypatch.setenv("TEMPORAL_TLS", "false")
    proxy.rules.keys = frozenset({"sk-first"})
    async with installation(tmp_path / "home", proxy.address) as site, site.worker():
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
        proxy.rules.keys = frozenset({"sk-first", "sk-second"})
        (tmp_path / "key").unlink()
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
        _key_in(tmp_path, "sk-second")
        # Client and worker have a connection each; polls that are open still have the first key.
        await eventually(lambda: "sk-second" in proxy.sent_keys)
        proxy.rules.keys = frozenset({"sk-second"})
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
    assert proxy.sent_keys == {"sk-first", "sk-second"}


async def test_a_question_to_a_queue_waits_for_room(
    site: Installation, proxy: RestrictedServer
) -> None:
    proxy.rules.busy["DescribeTaskQueue"] = 2
    assert not await site.gateway._parts.server.polled("nobodys-queue")
    proxy.rules.busy["DescribeTaskQueue"] = 2
    assert await queue_limit(site.gateway._parts.server, "nobodys-queue") is None


@pytest.mark.slow
async def test_a_server_without_room_for_longer_than_the_client_waits_fails_no_request(
    site: Installation, proxy: RestrictedServer, holding: Holding
) -> None:
    async with site.worker():
        run = await site.start(SPEC, LASTING)
        await holding.begun()
        proxy.rules.busy_until = time.monotonic() + 20
        page, status, receipt, result = await asyncio.gather(
            site.gateway.list(),
            site.status(run),
            site.gateway.verb(run, Pause()),
            site.run(SPEC, SCRIPT),
        )
        assert run in {row.id for row in page.runs}
        assert (page.note, status.id) == ("", run)
        assert (receipt.lifecycle, result.outcome) == ("paused", "accepted")
        holding.release()


OPERATOR = ("AddSearchAttributes", "ListSearchAttributes", "RemoveSearchAttributes")


async def test_where_the_search_attributes_are_there_no_operator_is_asked(
    site: Installation, proxy: RestrictedServer
) -> None:
    proxy.rules.deny(*OPERATOR)
    async with site.worker():
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
        check = await _attributes(site.settings)
    assert (check.state, check.found) == ("ok", "namespace default has them")
    assert not set(proxy.asked) & set(OPERATOR)


async def test_missing_search_attributes_are_named_with_the_commands_of_who_may_add_them(
    tmp_path: Path,
) -> None:
    async with (
        dev_server(prepared=False) as server,
        restricted(server.client) as proxy,
        installation(tmp_path / "home", proxy.address) as site,
    ):
        keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        asked = AddSearchAttributesRequest(
            namespace="default", search_attributes={"PerdureKind": keyword}
        )
        await server.client.operator_service.add_search_attributes(asked)
        proxy.rules.deny(*OPERATOR)
        with pytest.raises(RuntimeUnavailable) as caught:
            async with site.worker():
                pass
        assert "this account may not add them" in caught.value.message
        assert "PerdureLifecycle, PerdurePhase" in caught.value.message
        check = await _attributes(site.settings)
        assert check.state == "failed"
        for cure in (caught.value.cure, check.cure):
            assert (
                "tcld namespace search-attributes add --namespace default "
                "--search-attribute PerdureLifecycle=Keyword"
            ) in cure
            assert "temporal operator search-attribute create --namespace default" in cure
            assert "PerdureScore=Double" in cure
            assert "PerdureKind" not in cure


async def test_a_worker_in_a_namespace_that_is_not_there_says_so(
    proxy: RestrictedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "nowhere")
    async with installation(tmp_path / "home", proxy.address) as site:
        with pytest.raises(RuntimeUnavailable, match="has no namespace 'nowhere'") as caught:
            async with site.worker():
                pass
    assert "Correct TEMPORAL_NAMESPACE" in caught.value.cure


@pytest.mark.slow
async def test_a_server_that_is_away_for_a_while_ends_neither_worker_nor_command(
    site: Installation, proxy: RestrictedServer, holding: Holding
) -> None:
    async with site.worker():
        run = await site.start(SPEC, LASTING)
        await holding.begun()
        clients = proxy.asked["GetSystemInfo"]
        async with (
            commanded(site, "watch", run) as watching,
            commanded(site, "result", run, "--wait") as waiting,
        ):
            await eventually(lambda: proxy.asked["GetSystemInfo"] == clients + 2)
            looks = proxy.asked.get("QueryWorkflow", 0)
            await eventually(lambda: proxy.asked.get("QueryWorkflow", 0) > looks + 4)
            await proxy.cut()
            holding.release()
            await asyncio.sleep(AWAY_S)
            await proxy.start()
            (watched, told), (awaited, result) = await asyncio.gather(
                said_by(watching), said_by(waiting)
            )
    assert (watched, awaited) == (0, 0), told + result
    assert "done" in result
    assert "It is awaited for up to 90 s" in told
    assert "The Temporal server answers again" in told
    assert "WARN" not in told + result, "what Temporal's core says of each attempt"


async def test_a_worker_awaits_a_server_that_is_not_there_yet(
    site: Installation, proxy: RestrictedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)
    await proxy.cut()
    real = client._log.warning
    begun: list[asyncio.Task[None]] = []

    def awaited(event: str, **fields: object) -> None:
        assert event == "temporal_awaited"
        begun.append(asyncio.create_task(proxy.start()))
        real(event, **fields)

    monkeypatch.setattr(client._log, "warning", awaited)
    async with site.worker():
        assert begun
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"


async def test_short_pages_make_no_short_lists(
    proxy: RestrictedServer, tmp_path: Path, holding: Holding
) -> None:
    # To a host whose clock is ahead no run is young, so that it goes by the list alone.
    ahead = installation(tmp_path / "home", proxy.address, now=lambda: utc_now() + HOUR)
    async with ahead as site, site.worker():
        runs = [await site.start(SPEC, SCRIPT) for _ in range(7)]
        for run in runs:
            await site.gateway.result(run)
        await _indexed(site, 7, "completed")
        proxy.rules.most_rows = 2
        page = await site.gateway.list(RunFilter(limit=5))
        assert len(page.runs) == 5
        rest = await site.gateway.list(RunFilter(limit=5, cursor=page.cursor))
        assert {row.id for row in (*page.runs, *rest.runs)} == set(runs)
        assert len(rest.runs) == 2
        async with commanded(site, "list", "--limit", "6", "--json") as listing:
            code, said = await said_by(listing)
        assert code == 0
        assert sum(run in said for run in runs) == 6
        lasting = [await site.start(SPEC, LASTING) for _ in range(5)]
        await _indexed(site, 5, "running")
        report = await site.gateway.verb_all(Pause())
        assert set(report.taken) == set(lasting)
        holding.release()


async def _indexed(site: Installation, runs: int, lifecycle: str) -> None:
    """Wait until the server's index has so many runs of a lifecycle."""
    queue = f"TaskQueue = '{loops_queue(await site.parts.stores.records.installation())}'"

    async def there() -> bool:
        told = f"{queue} AND PerdureLifecycle = '{lifecycle}'"
        return (await site.client.count_workflows(told)).count >= runs

    await eventually(there)


async def test_runs_that_the_index_lacks_yet_are_listed_steered_and_count(
    proxy: RestrictedServer, tmp_path: Path, holding: Holding
) -> None:
    limits: dict[str, Any] = {"max_open_runs": 3, "above_max_open_runs": "refuse"}
    async with (
        installation(tmp_path / "home", proxy.address, **limits) as site,
        installation(
            tmp_path / "home", proxy.address, task_queue=site.settings.task_queue, **limits
        ) as other,
        site.worker(),
    ):
        old = await site.start(SPEC, LASTING)
        await holding.begun()
        await _indexed(site, 1, "running")
        proxy.rules.index_ends = datetime.now(UTC)
        runs = [await site.start(SPEC, LASTING) for _ in range(2)]
        await holding.begun(3)
        page = await site.gateway.list()
        assert {row.id for row in page.runs} == {old, *runs}
        short = await site.gateway.list(RunFilter(limit=2))
        assert len(short.runs) == 2
        assert {row.id for row in short.runs} == set(runs)
        rest = await site.gateway.list(RunFilter(limit=2, cursor=short.cursor))
        assert [row.id for row in rest.runs] == [old]
        single = await site.gateway.list(RunFilter(limit=1))
        more = await site.gateway.list(RunFilter(limit=1, cursor=single.cursor))
        assert {row.id for row in (*single.runs, *more.runs)} == set(runs)
        proxy.rules.index_ends = None  # what was on a page already is not on a later one
        for first in (single, short):
            pages = [first]
            while pages[-1].cursor is not None:
                wanted = RunFilter(limit=len(first.runs), cursor=pages[-1].cursor)
                pages.append(await site.gateway.list(wanted))
            assert sorted(row.id for page in pages for row in page.runs) == sorted([old, *runs])
        assert (await site.gateway.list(RunFilter(status="paused"))).runs == ()
        with pytest.raises(NoRoom):  # a process that knows of no start but by rows and server
            await other.start(SPEC, LASTING)
        report = await site.gateway.verb_all(Pause())
        assert set(report.taken) == {old, *runs}
        holding.release()


DEPLOYMENTS = (
    "DescribeWorkerDeployment",
    "ListWorkerDeployments",
    "SetWorkerDeploymentCurrentVersion",
    "SetWorkerDeploymentRampingVersion",
)
HEARTBEATS = ("RecordWorkerHeartbeat", "ListWorkers", "DescribeWorker")


@pytest.mark.parametrize(
    "status", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED], ids=str
)
async def test_without_rights_on_deployments_and_workers_runs_go_on_with_one_warning(
    site: Installation,
    proxy: RestrictedServer,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    status: grpc.StatusCode,
) -> None:
    proxy.rules.deny(*DEPLOYMENTS, *HEARTBEATS, status=status)
    async with site.worker(deployment="shop"):
        assert (await site.run(SPEC, SCRIPT)).outcome == "accepted"
        assert (await site.gateway.readiness(RUN_SPEC.validate_python(SPEC)))[0].ready
        async with commanded(site, "deploy", "status", PERDURE_DEPLOYMENT="shop") as asking:
            code, said = await said_by(asking)
    told = "".join([*capfd.readouterr(), caplog.text])
    assert told.count("versions_not_kept") == 1
    assert "Traceback" not in told + said
    assert (code, "Request unauthorized" in said) == (3, True)
    assert "PERDURE_DEPLOYMENT" in said
    right = "the right to describe and set worker deployments" in said
    assert right == (status == grpc.StatusCode.PERMISSION_DENIED)


async def test_a_worker_that_may_not_make_its_build_current_says_who_does(
    site: Installation, proxy: RestrictedServer, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.rules.deny("SetWorkerDeploymentCurrentVersion")
    name = f"shop-{uuid.uuid4().hex[:8]}"
    async with site.worker(deployment=name):
        pass
    assert "build_not_current" in caplog.text
    assert f"set-current-version --deployment-name {name}" in caplog.text


@pytest.mark.slow
async def test_workers_on_later_pages_count_too(
    site: Installation, proxy: RestrictedServer
) -> None:
    """A worker that is there is seen, also where those that have left fill the first pages."""
    proxy.rules.most_rows = 1
    queue = models_queue(await site.parts.stores.records.installation())
    async with site.worker(), site.worker():
        await eventually(lambda: proxy.asked.get("RecordWorkerHeartbeat", 0) >= 2)

        async def both() -> bool:
            found = await _heartbeats(site.client, queue)
            return len({beat.worker_instance_key for beat in found}) == 2

        await eventually(both)


async def test_who_may_not_look_at_a_run_is_told_soon(
    site: Installation, proxy: RestrictedServer, holding: Holding
) -> None:
    async with site.worker():
        run = await site.start(SPEC, LASTING)
        await holding.begun()
        asked = proxy.asked.get("DescribeWorkflowExecution", 0)
        proxy.rules.deny("DescribeWorkflowExecution")
        async with commanded(site, "watch", run) as watching:
            code, said = await said_by(watching)
        holding.release()
    assert (code, "does not let this account do that" in said) == (3, True), said
    # It waits 6 s for a change, not the 90 s that a server may be away.
    assert proxy.asked["DescribeWorkflowExecution"] - asked < 20
