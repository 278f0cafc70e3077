"""Versions side by side, on two trees whose loops decide differently, under load.

The steps are those of "Versions side by side" in docs/upgrades.md.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from ground import FAST, Ground, ground
from installation import dev_server
from other_version import next_version, other_decisions
from provider import Play
from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import DeleteWorkerDeploymentVersionRequest
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.temporal.build_id import build_id
from perdure.domain.foundation.errors import NotAllowed, NotFound, ServiceUnavailable
from perdure.gateway.deployments import Deployments

TURNS = 4
NAME = "rolled"
# A server looks every few minutes whether a version is drained; here each second.
SOON = (
    "--dynamic-config-value", 'matching.wv.VersionDrainageStatusVisibilityGracePeriod="1s"',
    "--dynamic-config-value", 'matching.wv.VersionDrainageStatusRefreshInterval="1s"',
)  # fmt: skip


@pytest.fixture(scope="module")
async def versioning() -> AsyncIterator[WorkflowEnvironment]:
    """A server that says soon when a version is drained."""
    async with dev_server(*SOON) as environment:
        yield environment


@dataclass(frozen=True)
class Execution:
    """One execution of a run: the builds that completed its tasks, and the tasks that failed."""

    builds: frozenset[str]
    failures: tuple[str, ...]


def _turns(body: dict[str, object]) -> Sequence[Play]:
    """A run of some turns; after the first, its answers wait for the test."""
    messages = body["messages"]
    assert isinstance(messages, list)
    done = sum(message["role"] == "assistant" for message in messages)
    if done == TURNS - 1:
        return [Play(text="done")]
    gate = "held" if done == 1 else None
    return [Play(text="", calls=[("effect.again", {"word": str(done)})], gate=gate)]


def _environment(drill: Ground, tree: Path | None) -> Mapping[str, str]:
    given = dict(drill.environment())
    if tree is not None:
        given["PYTHONPATH"] = os.pathsep.join((str(tree), given["PYTHONPATH"]))
    return given


def _deployments(drill: Ground) -> Deployments:
    return drill.site.gateway.deployments(NAME, build_id())


async def _registered_beside(rolling: Deployments, known: str) -> str:
    """The other build, once a worker has registered it."""
    found = list[str]()

    async def registered() -> bool:
        found.extend(one.id for one in (await rolling.status()).builds if one.id != known)
        return bool(found)

    await eventually(registered)
    return found[0]


async def _executions(drill: Ground, run: str) -> list[Execution]:
    """All executions of a run, the oldest first."""
    client, found = drill.site.client, list[Execution]()
    newest = await client.get_workflow_handle(run).fetch_history()
    execution = newest.events[0].workflow_execution_started_event_attributes.first_execution_run_id
    while execution:
        history = await client.get_workflow_handle(run, run_id=execution).fetch_history()
        found.append(_execution(history.events))
        execution = history.events[
            -1
        ].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


def _execution(events: Sequence[HistoryEvent]) -> Execution:
    done = [
        event.workflow_task_completed_event_attributes.deployment_version.build_id
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    failures = [
        event.workflow_task_failed_event_attributes.failure.message
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]
    return Execution(frozenset(done), tuple(failures))


@pytest.mark.long
@pytest.mark.parametrize(
    "upgrade",
    [
        pytest.param(True, id="upgrade"),
        pytest.param(False, id="rollback", marks=pytest.mark.slow),
    ],
)
async def test_each_run_is_replayed_by_the_version_that_decided(
    versioning: WorkflowEnvironment, tmp_path: Path, *, upgrade: bool
) -> None:
    address = versioning.client.service_client.config.target_host
    ahead = other_decisions(tmp_path / "ahead")
    first, second = (None, ahead) if upgrade else (ahead, None)
    async with ground(tmp_path, address, deployment=f"{NAME}-{upgrade}") as drill:
        drill.provider.choose = _turns
        rolling = drill.site.gateway.deployments(f"{NAME}-{upgrade}", build_id())
        async with drill.site.worker_process(**_environment(drill, first)) as before:
            moving = [await drill.start(goal=f"look {n}") for n in range(6)]
            staying = [await drill.start(goal=f"stay {n}", upgrade="pinned") for n in range(2)]
            await drill.billed(2 * len(moving + staying))
            old = (await rolling.status()).current
            assert old is not None
            async with drill.site.worker_process(**_environment(drill, second)):
                new = await _registered_beside(rolling, old.id)
                assert (old.id == build_id()) is upgrade
                with pytest.raises(NotAllowed, match="it still begins runs"):
                    await rolling.drain(old.id)
                await rolling.promote(new)
                fresh = [await drill.start(goal=f"new {n}") for n in range(4)]
                left = await rolling.drain(old.id)
                assert left.build.status == "draining"
                drill.provider.open("held")
                results = [
                    await drill.site.gateway.result(run) for run in (*moving, *staying, *fresh)
                ]
                assert {(one.outcome, one.output) for one in results} == {("accepted", "done")}
                assert {one.iteration_count for one in results} == {TURNS}
                # Drained workers end by themselves.
                await before.gone()
                after = await rolling.status()
        assert [(one.id, one.status) for one in after.builds if one.runs == 0] == [
            (new, "current"),
            (old.id, "drained"),
        ]
        homes = {
            **dict.fromkeys(moving, (old.id, new)),
            **dict.fromkeys(staying, (old.id,)),
            **dict.fromkeys(fresh, (new,)),
        }
        for run, builds in homes.items():
            executions = await _executions(drill, run)
            assert [sorted(one.builds) for one in executions] == [[build] for build in builds], run
            assert not any(one.failures for one in executions), run
        # Nobody paid for an answer twice.
        assert len(drill.provider.lines()) == TURNS * len(results)


@pytest.mark.slow
async def test_a_ramp_begins_its_share_of_the_new_runs(
    versioning: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = versioning.client.service_client.config.target_host
    ahead = other_decisions(tmp_path / "ahead")
    async with ground(tmp_path, address, deployment="ramped") as drill:
        drill.provider.choose = lambda _: [Play(text="done")]
        rolling = drill.site.gateway.deployments("ramped", build_id())

        async def begun_by(count: int) -> Counter[str]:
            """The builds in which some new runs begin, and end."""
            runs = [await drill.start(goal=f"run {n}") for n in range(count)]
            assert {(await drill.site.gateway.result(run)).output for run in runs} == {"done"}
            return Counter(
                [build for run in runs for build in (await _executions(drill, run))[0].builds]
            )

        async with (
            drill.site.worker_process(**_environment(drill, None)),
            drill.site.worker_process(**_environment(drill, ahead)),
        ):
            await rolling.promote()
            new = await _registered_beside(rolling, build_id())
            with pytest.raises(NotAllowed, match="is current: it begins all runs"):
                await rolling.ramp(build_id(), 50)
            assert await begun_by(4) == {build_id(): 4}
            ramping = (await rolling.ramp(new, 100)).build(new)
            assert ramping is not None
            assert (ramping.status, ramping.percent) == ("ramping", 100)
            with pytest.raises(NotAllowed, match="is ramping: it still begins runs"):
                await rolling.drain(new)
            assert await begun_by(4) == {new: 4}
            await rolling.ramp(new, 50)
            # That 40 runs all fall to one side happens once in half a million million times.
            assert set(await begun_by(40)) == {build_id(), new}
            await rolling.ramp(new, 0)
            assert await begun_by(4) == {build_id(): 4}


@pytest.mark.slow
async def test_runs_of_a_build_that_is_gone_wait_in_words_and_can_be_moved(
    versioning: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = versioning.client.service_client.config.target_host
    ahead = next_version(tmp_path / "ahead")
    async with ground(tmp_path, address, deployment=NAME) as drill:
        drill.provider.choose = _turns
        async with drill.site.worker_process(**_environment(drill, ahead)) as before:
            run = await drill.start()
            await drill.billed(2)
            gone = (await _deployments(drill).status()).builds[0]
            await before.kill()
        drill.provider.open("held")
        async with drill.site.worker_process(**_environment(drill, None)):
            with pytest.raises(NotFound, match="No one build nonsense has registered"):
                await _deployments(drill).promote("nonsense")
            await _deployments(drill).promote()

            async def told() -> bool:
                status = await drill.site.status(run)
                return f"pinned to the build {gone.id}" in status.dispatch

            await eventually(told)
            drained = await _deployments(drill).drain(gone.id, move=True)
            assert (drained.moved, drained.stays) == ((run,), {})
            assert (await drill.site.gateway.result(run)).output == "done"


@pytest.mark.long
async def test_runs_of_a_build_that_was_deleted_at_the_server_are_told_and_can_be_moved(
    tmp_path: Path,
) -> None:
    """The server deletes a version that has no workers, whatever is pinned there."""
    forgets_pollers = ("--dynamic-config-value", 'matching.PollerHistoryTTL="1s"')
    async with (
        dev_server(*SOON, *forgets_pollers) as environment,
        ground(
            tmp_path, environment.client.service_client.config.target_host, deployment=NAME
        ) as drill,
    ):
        drill.provider.choose = _turns
        rolling = _deployments(drill)
        ahead = next_version(tmp_path / "ahead")
        async with drill.site.worker_process(**_environment(drill, ahead)) as before:
            run = await drill.start()
            await drill.billed(2)
            gone = (await rolling.status()).builds[0].id
            await before.kill()
        drill.provider.open("held")

        version = DeleteWorkerDeploymentVersionRequest(
            namespace=environment.client.namespace,
            deployment_version=WorkerDeploymentVersion(deployment_name=NAME, build_id=gone),
            skip_drainage=True,
        )

        async def deleted() -> bool:
            # The server refuses while somebody fetched for it a moment ago.
            service = environment.client.workflow_service
            try:
                await service.delete_worker_deployment_version(version)
            except RPCError as error:
                return error.status == RPCStatusCode.NOT_FOUND
            return True

        async with drill.site.worker_process(**_environment(drill, None)):
            await _registered_beside(rolling, gone)
            await rolling.promote()
            await eventually(deleted, seconds=300, every=1)
            told = [(one.status, one.runs) for one in (await rolling.status()).builds]
            assert told == [("current", 0), ("deleted", 1)]
            assert await rolling.serving() == NAME
            for name, others in {None: {NAME: 1}, "renamed": {NAME: 1}, NAME: {}}.items():
                known = drill.site.gateway.deployments(name, build_id())
                assert await known.elsewhere() == others
            drained = await rolling.drain(gone, move=True)
            assert (drained.moved, drained.stays) == ((run,), {})
            assert (await drill.site.gateway.result(run)).output == "done"
            assert [one.id for one in (await rolling.status()).builds] == [build_id()]


@pytest.mark.long
async def test_a_server_without_versions_serves_as_before(tmp_path: Path) -> None:
    switched_off = ("--dynamic-config-value", "system.enableDeploymentVersions=false")
    async with dev_server(*switched_off) as environment:
        address = environment.client.service_client.config.target_host
        async with ground(tmp_path, address, timing=FAST, deployment=NAME) as drill:
            drill.provider.plays = [Play(text="done")]
            async with drill.site.worker_process(**_environment(drill, None)):
                result = await drill.site.gateway.result(await drill.start())
                with pytest.raises(ServiceUnavailable, match="keeps no versions of workers"):
                    await _deployments(drill).status()
            assert result.output == "done"
            assert "versions_not_kept" in (drill.site.home / "worker.log").read_text()
