"""Checks whether loops can be served beside a user's own worker, and adapts its configuration."""

import inspect
from collections.abc import Sequence
from dataclasses import replace

from temporalio.common import VersioningBehavior
from temporalio.worker import WorkerConfig

from perdure.activities.open_task import OpenTask
from perdure.activities.read_run_output import ReadRunOutput
from perdure.adapters.temporal.joined_converter import is_joined
from perdure.domain.foundation.errors import InvalidInput
from perdure.embedding.activity_targets import activity_type
from perdure.workflows.registry import TASK_STARTS

DEFINITION = "__temporal_workflow_definition"
ADDED = (OpenTask.open_task, ReadRunOutput.read_run_output)
OTHER_QUEUE = "or let the loops start on a queue of their own: PerdurePlugin(queues=[…])."


def require_fitting(config: WorkerConfig, *, queues: Sequence[str]) -> None:
    """Refuse a worker beside which loops would wait forever.

    Args:
        config: the worker's configuration, without what the plugin adds.
        queues: the queues of the plugin.

    Raises:
        InvalidInput: its client lacks the plugin, it takes no activities, it polls one of the
            queues, or it has an activity or workflow with a name that the plugin adds.
    """
    client, queue = config.get("client"), config.get("task_queue", "")
    if client is not None and not is_joined(client.data_converter):
        raise InvalidInput(
            f"The client of the worker of {queue} does not write what loops read: it was "
            "connected without PerdurePlugin, or a later plugin set another data converter.",
            cure="Give PerdurePlugin to Client.connect(…, plugins=[…]), behind plugins that set a "
            "converter, and make the worker with that client, without `plugins`.",
        )
    if queue in queues:
        raise InvalidInput(
            f"The worker polls {queue}, which is one of the `queues` of PerdurePlugin.",
            cure="Name another queue there, or leave `queues` out to share the worker's.",
        )
    if not queues:
        _require_place(config, queue)


def _require_place(config: WorkerConfig, queue: str) -> None:
    # A task is opened by an activity, so loops would be taken here and never begin.
    if config.get("no_remote_activities"):
        raise InvalidInput(
            f"The worker of {queue} has no_remote_activities, so nothing there opens a task.",
            cure=f"Leave it out, {OTHER_QUEUE}",
        )
    if set(config.get("workflows", ())) & set(TASK_STARTS):
        raise InvalidInput(
            f"The worker of {queue} has PerdurePlugin twice.",
            cure="Give one to its client, and none to the worker; two installations need a client "
            "each.",
        )
    given = {activity_type(one) for one in config.get("activities", ())}
    taken = [name for one in ADDED if (name := activity_type(one)) in given]
    if taken:
        raise InvalidInput(
            f"The worker of {queue} has an activity {taken[0]!r}, as PerdurePlugin adds one.",
            cure=f"Give yours another name, {OTHER_QUEUE}",
        )
    theirs = {_workflow_type(one) for one in config.get("workflows", ())}
    names = [name for one in TASK_STARTS if (name := _workflow_type(one)) in theirs]
    if names:
        raise InvalidInput(
            f"The worker of {queue} has a workflow {names[0]!r}, as PerdurePlugin adds one.",
            cure=f"Give yours another name, {OTHER_QUEUE}",
        )


def with_behavior(config: WorkerConfig) -> WorkerConfig:
    """The configuration with a default versioning behavior, which workflows that open tasks need.

    An existing default is kept. A new one is set only if each of the user's workflows has a
    behavior of its own, so that it applies to ours alone. Otherwise the SDK refuses the worker, as
    it would without the plugin.
    """
    versioned = config.get("deployment_config")
    if versioned is None or not versioned.use_worker_versioning:
        return config
    unsaid = VersioningBehavior.UNSPECIFIED
    if versioned.default_versioning_behavior != unsaid:
        return config
    if not all(_behavior(one) for one in config.get("workflows", ())):
        return config
    # Opening a task is one step and the same in every version.
    upgrading = VersioningBehavior.AUTO_UPGRADE
    known = replace(versioned, default_versioning_behavior=upgrading)
    completed = config.copy()
    completed["deployment_config"] = known
    return completed


def _workflow_type(kind: type) -> str | None:
    name: object = getattr(inspect.getattr_static(kind, DEFINITION, None), "name", None)
    return name if isinstance(name, str) else None


def _behavior(kind: type) -> bool:
    """Whether a workflow has a versioning behavior, or sets it when it runs."""
    made: object = inspect.getattr_static(kind, DEFINITION, None)
    said: object = getattr(made, "versioning_behavior", None)
    return bool(getattr(made, "dynamic_config_fn", None)) or (
        said is not None and said != VersioningBehavior.UNSPECIFIED
    )
