"""What somebody else's client and worker bring themselves, with the plugin beside it."""

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict, cast

import pytest
from installation import Installation
from recordings import FOLDER, FOLDER_OF_THEIRS
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.workflowservice.v1 import SetWorkerDeploymentCurrentVersionRequest
from temporalio.client import Client, WorkflowHistory
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.service import RPCError
from temporalio.worker import Replayer, Worker, WorkerConfig, WorkerDeploymentConfig
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.adapters.temporal.joined_converter import joined
from perdure.domain.foundation.errors import InvalidInput
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from kept_others import TheirWorkflow

    from perdure.workflow import refine

SHORT = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}


class Wanted(TypedDict):
    """A type that pydantic takes from Python 3.12 on."""

    item: str
    number: int


@workflow.defn
class Ordering:
    """A workflow of theirs without any loop."""

    @workflow.run
    async def run(self, wanted: Wanted) -> str:
        return f"{wanted['number']} × {wanted['item']}"


@workflow.defn(versioning_behavior=VersioningBehavior.PINNED)
class Awaiting:
    """A workflow of theirs that awaits a loop, with a versioning behavior of its own."""

    @workflow.run
    async def run(self, model: str) -> str:
        result = await refine(
            "Be short.", rubric=[SHORT], models={"executor": model}, refine={"plan": "off"},
            recall=False, learn=False,
        )  # fmt: skip
        return str(result.output)


@workflow.defn
class Unversioned(Awaiting):
    """The same without one."""

    @workflow.run
    async def run(self, model: str) -> str:
        return await super().run(model)


async def test_their_typed_dicts_reach_their_workflows(bare: Installation) -> None:
    client = await Client.connect(bare.address, plugins=[PerdurePlugin(bare.settings)])
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Ordering]):
        told = await client.execute_workflow(
            Ordering.run, Wanted(item="bottle", number=2), id=queue, task_queue=queue
        )
    assert told == "2 × bottle"


class InMemory(StorageDriver):
    """A storage driver of theirs."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def name(self) -> str:
        return "mem"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        self.kept += [one.SerializeToString() for one in payloads]
        first = len(self.kept) - len(payloads)
        return [
            StorageDriverClaim(claim_data={"place": str(first + place)})
            for place in range(len(payloads))
        ]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        return [Payload.FromString(self.kept[int(one.claim_data["place"])]) for one in claims]


async def test_loops_fetch_what_their_storage_keeps(bare: Installation) -> None:
    model = await bare.script({"replies": [{"text": "Hi."}]})
    driver = InMemory()
    storage = ExternalStorage(drivers=[driver], payload_size_threshold=100)
    client = await Client.connect(
        bare.address,
        plugins=[PerdurePlugin(bare.settings)],
        data_converter=replace(DataConverter.default, external_storage=storage),
    )
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[Unversioned]):
        assert await client.execute_workflow(
            Unversioned.run, model, id=queue, task_queue=queue
        ) == "Hi."  # fmt: skip
    assert driver.kept


@activity.defn(name="open_task")
async def opening() -> None:
    """An activity of theirs with a name of ours."""


@workflow.defn(name="AgentLoop")
class Agents:
    """A workflow of theirs with a name of ours."""

    @workflow.run
    async def run(self) -> None:
        """Nothing."""


UNFIT: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "a client without the plugin": (
        {"client": SimpleNamespace(data_converter=DataConverter.default)},
        "connected without PerdurePlugin", "Give PerdurePlugin to Client.connect",
    ),
    "no activities": (
        {"no_remote_activities": True}, "no_remote_activities", r"PerdurePlugin(queues=[…])",
    ),
    "an activity of that name": (
        {"activities": [opening]}, "an activity 'open_task'", "Give yours another name",
    ),
    "a workflow of that name": (
        {"workflows": [Agents]}, "a workflow 'AgentLoop'", "Give yours another name",
    ),
}  # fmt: skip


def _configured(home: Path, given: Mapping[str, Any], **plugin: Any) -> WorkerConfig:
    converter = joined(DataConverter.default)
    client = SimpleNamespace(data_converter=converter, config=lambda **_: {"interceptors": []})
    config = {"client": client, "task_queue": "orders", "activities": [], **given}
    made = PerdurePlugin(Settings.load(home=home), **plugin)
    return made.configure_worker(cast(WorkerConfig, config))


@pytest.mark.parametrize(("given", "said", "cure"), UNFIT.values(), ids=UNFIT)
def test_a_worker_beside_which_loops_would_wait_is_refused(
    given: dict[str, Any], said: str, cure: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput) as caught:
        _configured(tmp_path, given)
    assert said in caught.value.message
    assert cure in caught.value.cure


@pytest.mark.parametrize("given", [one for one, _, _ in [*UNFIT.values()][1:]], ids=[*UNFIT][1:])
def test_with_queues_of_their_own_names_do_not_meet(given: dict[str, Any], tmp_path: Path) -> None:
    assert _configured(tmp_path, given, queues=["loops"])


SECONDS: Mapping[str, tuple[float | None, float | None]] = {
    "Temporal's default": (60, 150), "more": (400, 400), "no limit": (None, None),
}  # fmt: skip


@pytest.mark.parametrize(("given", "used"), SECONDS.values(), ids=SECONDS)
def test_the_end_of_a_worker_leaves_the_loops_their_grace(
    given: float | None, used: float | None, tmp_path: Path
) -> None:
    limit = None if given is None else timedelta(seconds=given)
    known = _configured(tmp_path, {"plugin_shutdown_timeout": limit})
    assert known.get("plugin_shutdown_timeout") == (
        None if used is None else timedelta(seconds=used)
    )


def _versioned(default: VersioningBehavior, name: str = "orders") -> WorkerDeploymentConfig:
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(name, "b1"),
        use_worker_versioning=True,
        default_versioning_behavior=default,
    )


BEHAVIORS: Mapping[str, tuple[type, VersioningBehavior, VersioningBehavior]] = {
    "no default": (Awaiting, VersioningBehavior.UNSPECIFIED, VersioningBehavior.AUTO_UPGRADE),
    "a default": (Awaiting, VersioningBehavior.PINNED, VersioningBehavior.PINNED),
    "one that says nothing": (
        Ordering, VersioningBehavior.UNSPECIFIED, VersioningBehavior.UNSPECIFIED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "used"), BEHAVIORS.values(), ids=BEHAVIORS)
def test_loops_have_a_versioning_behavior(
    kind: type, given: VersioningBehavior, used: VersioningBehavior, tmp_path: Path
) -> None:
    config = {"workflows": [kind], "deployment_config": _versioned(given)}
    known = _configured(tmp_path, config).get("deployment_config")
    assert known is not None
    assert known.default_versioning_behavior == used


@pytest.mark.parametrize(
    "default", [VersioningBehavior.UNSPECIFIED, VersioningBehavior.AUTO_UPGRADE],
    ids=lambda one: one.name,
)  # fmt: skip
async def test_a_versioned_worker_awaits_loops(
    default: VersioningBehavior, bare: Installation
) -> None:
    model = await bare.script({"replies": [{"text": "Hi."}]})
    client = await Client.connect(bare.address, plugins=[PerdurePlugin(bare.settings)])
    queue = f"orders-{uuid.uuid4().hex[:8]}"

    async def current() -> bool:
        try:
            await client.workflow_service.set_worker_deployment_current_version(
                SetWorkerDeploymentCurrentVersionRequest(
                    namespace=client.namespace, deployment_name=queue, build_id="b1"
                )
            )
        except RPCError:  # the server has not seen it poll yet
            return False
        return True

    async with Worker(
        client, task_queue=queue, workflows=[Awaiting],
        deployment_config=_versioned(default, queue),
    ):  # fmt: skip
        await eventually(current)
        assert await client.execute_workflow(
            Awaiting.run, model, id=queue, task_queue=queue
        ) == "Hi."  # fmt: skip


OF_LOOPS = sorted(
    one for one in FOLDER.rglob("agent_*.json") if not one.stem.endswith(".expected")
)[:3]


def _history(path: Path, text: str | None = None) -> WorkflowHistory:
    content = text or path.read_text(encoding="utf-8")
    return WorkflowHistory.from_json(path.stem, json.loads(content))


@pytest.mark.parametrize("queues", [(), ("loops",)], ids=["on theirs", "on others"])
async def test_a_namespace_with_loops_is_replayed(queues: Sequence[str], tmp_path: Path) -> None:
    theirs = FOLDER_OF_THEIRS / "their_workflow.json"
    plugin = PerdurePlugin(Settings.load(home=tmp_path), queues=queues)

    async def histories() -> AsyncIterator[WorkflowHistory]:
        for path in (*OF_LOOPS[:1], theirs, *OF_LOOPS[1:]):
            yield _history(path)

    replayer = Replayer(workflows=[TheirWorkflow], plugins=[plugin])
    found = await replayer.replay_workflows(histories())
    assert not found.replay_failures
    for path in OF_LOOPS:
        alone = Replayer(workflows=[], plugins=[plugin])
        await alone.replay_workflow(_history(path))


async def test_a_loop_of_other_code_does_not_replay(tmp_path: Path) -> None:
    path = next(one for one in OF_LOOPS if "open_run" in one.read_text(encoding="utf-8"))
    text = path.read_text(encoding="utf-8").replace('"open_run"', '"open_other"')
    replayer = Replayer(workflows=[], plugins=[PerdurePlugin(Settings.load(home=tmp_path))])
    with pytest.raises(Exception, match=r"[Nn]ondeterminis"):
        await replayer.replay_workflow(_history(path, text))
