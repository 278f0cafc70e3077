"""Perdure inside a worker that exists already.

client = await Client.connect("localhost:7233", plugins=[PerdurePlugin()])
worker = Worker(client, task_queue="orders", workflows=[OrderWorkflow], activities=[charge])

The worker's queue then takes tasks of loops beside the work of its own. The steps of the loops run
in the same process, on the queues of the installation.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pydantic import JsonValue
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    Replayer,
    ReplayerConfig,
    Worker,
    WorkerConfig,
    WorkflowReplayResult,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.waiting_stores import once_there
from perdure.adapters.temporal.activity_context import StepLoggingPlugin
from perdure.adapters.temporal.custom_codec import payload_codec
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.adapters.temporal.joined_converter import joined, of_loops, reads_by_default_rules
from perdure.composition.client_services import loops_of
from perdure.composition.parts import Brought, Parts, open_parts
from perdure.composition.task_steps import TaskSteps
from perdure.domain.foundation.base import build_validators
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.ports import ModelClient
from perdure.embedding.activity_targets import activity_type
from perdure.embedding.activity_tools import (
    activity_check,
    activity_tool,
    placed_check,
    placed_tool,
    require_readable,
)
from perdure.embedding.foreign_workers import require_fitting, with_behavior
from perdure.embedding.given_parts import (
    by_name,
    given_definition,
    given_role,
    queue_names,
    require_model_names,
)
from perdure.embedding.late_opening import LateOpening, Place, place_of
from perdure.embedding.loop_histories import LoopHistories
from perdure.extending.check_decorator import CustomCheck
from perdure.extending.hook_decorators import Hook
from perdure.extending.tool_decorator import Tool
from perdure.fleet.fleet import Fleet
from perdure.fleet.serving_task import require_serving, wait_for_end, while_both_run
from perdure.fleet.worker_deployment import own_build
from perdure.local_services.ready_file import say_what_is_polled
from perdure.local_services.register_search_attributes import register_search_attributes
from perdure.workflows.passed_on_headers import PassedOnHeaders
from perdure.workflows.registry import TASK_STARTS

__all__ = ["PerdurePlugin", "activity_check", "activity_tool", "passing_through"]
PACKAGE = "perdure"
DRAINED_WITHIN = timedelta(seconds=30)  # after the grace: cancelled calls, notices, stores


class PerdurePlugin(SimplePlugin):
    """Serves loops in a worker of somebody else's, and lets its client start them.

    Give it to the client; workers of that client have it then. Each queue that they poll takes
    tasks of loops. One installation (`PERDURE_HOME`, or the database that `PERDURE_DATABASE_URL`
    names) serves all workers of the plugin.

    Args:
        settings: of the installation; None reads the environment and the files, like the commands.
        tools: functions with `@tool`, and activities by `activity_tool`, that loops may call beside
            those of plugins.
        checks: functions with `@check`, and activities by `activity_check`, that rubrics may name.
        hooks: functions with `@adapt`, `@on_iteration` or `@on_end` that tasks may name.
        models: clients of models of your own; a task names one as `NAME` or `NAME:…`.
        roles: Markdown of roles, or the path of such a file, by the name that definitions use.
        definitions: of loops of roles, as fields or as paths of their files.
        queues: where loops are started, instead of on the queues of the workers themselves.

    Raises:
        InvalidInput: a setting is wrong, a name is taken, or a role or definition cannot be read.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        tools: Sequence[Tool[..., object]] = (),
        checks: Sequence[CustomCheck] = (),
        hooks: Sequence[Hook] = (),
        models: Mapping[str, ModelClient] | None = None,
        roles: Mapping[str, str | Path] | None = None,
        definitions: Sequence[Path | Mapping[str, JsonValue]] = (),
        queues: Sequence[str] = (),
    ) -> None:
        self._queues = queue_names(queues)
        self._settings = settings or Settings.load()
        self._brought = Brought(
            tools=tuple(tools),
            checks=by_name(checks, noun="checks"),
            hooks=tuple(hooks),
            models=require_model_names(models or {}),
            roles={name: given_role(name, given) for name, given in (roles or {}).items()},
            definitions=by_name(map(given_definition, definitions), noun="definitions"),
        )
        self._loops: dict[Place, _Loops] = {}
        self._configured: list[_Configured] = []
        self._late = LateOpening()
        super().__init__(
            "perdure.PerdurePlugin",
            data_converter=self._joined,
            activities=None if self._queues else [self._late.open_task, self._late.read_run_output],
            workflows=None if self._queues else TASK_STARTS,
            workflow_runner=passing_through,
            interceptors=None if self._queues else [PassedOnHeaders()],
        )

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add what opens a task, and keep the client, beside which the loops are served.

        Raises:
            InvalidInput: the loops cannot be served beside this worker, or it cannot read the
                arguments of an activity that is a tool or a check; the error says why.
        """
        # Before `super` adds ours, which would look like a clash of names.
        require_fitting(config, queues=self._queues)
        if not self._queues:
            config = with_behavior(config)
        configured = super().configure_worker(config)
        given = configured.get("plugin_shutdown_timeout", DRAINED_WITHIN)
        if given:  # else without limit; `async with Worker(…)` cuts there what still drains
            grace = timedelta(seconds=self._settings.shutdown_grace_s)
            configured["plugin_shutdown_timeout"] = max(given, grace + DRAINED_WITHIN)
        client, served = configured.get("client"), _served(configured)
        if client is not None:
            self._configured.append(_Configured(client, served))
            if reads_by_default_rules(client.data_converter):
                require_readable((*self._brought.tools, *self._brought.checks.values()), *served)
        return configured

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Serve the loops for as long as the worker runs; several workers share them.

        While a database is away, tasks of loops wait for it, and the worker's own work goes on.

        Raises:
            PerdureError: the store is unusable, what serves the loops broke, or no worker has an
                activity that is a tool or a check.
        """
        place, begun = place_of(worker.client), False
        try:
            if place not in self._loops:
                brought = self._placed(worker)
                self._loops[place] = _Loops(self._settings, brought, worker.client, self._queues)
            loops = self._loops[place]
            async with loops.served() as serving:
                begun = True
                # Read at each call: while a database is away, there are no steps yet.
                self._late.begin(place, lambda: loops.steps)
                await while_both_run(asyncio.ensure_future(next(worker)), serving)
        finally:
            self._forget(worker, place, begun=begun)

    def _placed(self, worker: Worker) -> Brought:
        """What was brought, with the queues of the activities among it.

        The worker that runs goes before those that were made, which may never run.
        """
        place = place_of(worker.client)
        made = [one.served for one in self._configured if place_of(one.client) == place]
        served = [_served(worker.config(active_config=True)), *reversed(made)]
        tools = tuple(placed_tool(one, served) for one in self._brought.tools)
        checks = {name: placed_check(one, served) for name, one in self._brought.checks.items()}
        return replace(self._brought, tools=tools, checks=checks)

    def _forget(self, ended: Worker, place: Place, *, begun: bool) -> None:
        """The next worker may come with another connection, and with other activities.

        One that has not begun, as the loops could not be served, may be run again.
        """
        known = self._loops.get(place)
        if known is not None and not known.users:
            del self._loops[place]
            self._late.end(place)
        if not begun:
            return
        for one in reversed(self._configured):
            if one.served[0] == ended.task_queue and place_of(one.client) == place:
                self._configured.remove(one)
                return

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Add what opens tasks; the loops have a replayer of their own, in `run_replayer`."""
        theirs = config.get("data_converter")
        configured = super().configure_replayer(config)
        if self._queues:
            configured["workflows"] = [*configured.get("workflows", ()), *TASK_STARTS]
        # A replay has a namespace of its own, for which nothing was encrypted.
        configured["data_converter"] = self._joined(theirs, placed=False)
        return configured

    @asynccontextmanager
    async def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[
            [Replayer, AsyncIterator[WorkflowHistory]],
            AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]],
        ],
    ) -> AsyncGenerator[AsyncIterator[WorkflowReplayResult]]:
        """Replay the histories of loops too: they share their names with what opens tasks."""
        parted = LoopHistories(replayer, histories)
        async with next(replayer, parted.of_others()) as results:
            yield parted.with_loops(results)

    def _joined(self, theirs: DataConverter | None, *, placed: bool = True) -> DataConverter:
        return joined(
            theirs or DataConverter.default,
            keys=encryption_keys(self._settings),
            plain=self._settings.encryption_plain == "read",
            codec=payload_codec(self._settings),
            placed=placed,
        )


@dataclass(frozen=True, slots=True)
class _Configured:
    """A worker of somebody else's: its queue, with the activities that it has."""

    client: Client
    served: tuple[str, frozenset[str]]


def _served(config: WorkerConfig) -> tuple[str, frozenset[str]]:
    types = map(activity_type, config.get("activities", ()))
    return config.get("task_queue", ""), frozenset(one for one in types if one)


class _Loops:
    """Serves loops beside the workers of a client, while at least one of them runs."""

    def __init__(
        self, settings: Settings, brought: Brought, client: Client, queues: Sequence[str]
    ) -> None:
        self._queues = queues
        self._settings = settings
        self._brought = brought
        self._client = client
        self.users = 0
        self.steps: TaskSteps | None = None
        self._changing = asyncio.Lock()
        self._stop = asyncio.Event()
        self._begun = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def served(self) -> AsyncGenerator["asyncio.Task[None]"]:
        """Start with the first user, and stop with the last."""
        self.users += 1  # also while it waits: what another one ends is started again for it
        try:
            async with self._changing:
                if self._serving is None or self._serving.done():
                    self._serving = await self._started()
            yield self._serving
        except BaseException:
            await self._leave()  # what ends by this error does not take its place
            raise
        ended = await self._leave()
        if ended is not None and not ended.cancelled():
            ended.result()

    async def _leave(self) -> "asyncio.Task[None] | None":
        """Count a user out; what the last one ended is returned, and may hold an error."""
        self.users -= 1
        if self.users:  # before the lock: nobody waits for another one's start
            return None
        async with self._changing:
            if self.users or self._serving is None:
                return None
            self._stop.set()
            await wait_for_end(self._serving)
            return self._serving

    async def _started(self) -> "asyncio.Task[None]":
        # Anew, as another worker may start after the last one had ended everything.
        self._stop, self._begun, self.steps = asyncio.Event(), asyncio.Event(), None
        # In a task of its own: resources must be closed in the task that opened them, and
        # the first worker may end before the others.
        serving = asyncio.create_task(self._serve())
        begun = asyncio.create_task(self._begun.wait())
        try:
            await asyncio.wait({begun, serving}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            # Nobody else knows of it yet: it would poll for ever.
            serving.cancel()
            await wait_for_end(serving)
            raise
        finally:
            begun.cancel()
        require_serving(serving)
        return serving

    async def _serve(self) -> None:
        try:
            async with AsyncExitStack() as resources:
                await self._serve_with(await self._parts(resources))
        except StoreAway:
            if not self._stop.is_set():  # otherwise it was told to end while it waited
                raise

    async def _parts(self, resources: AsyncExitStack) -> Parts:
        async def opened() -> Parts:
            parts = open_parts(self._settings, plugins=True, brought=self._brought)
            return await resources.enter_async_context(parts)

        try:
            return await opened()
        except StoreAway:
            if not self._settings.shares_a_database:
                raise  # no wait makes a place for a file
            self._begun.set()  # the worker has work of its own, which needs no store of ours
        return await once_there(opened, self._stop)

    async def _serve_with(self, parts: Parts) -> None:
        # The same connection, with a converter that keeps large values in the store.
        theirs = self._client
        client = Client(
            theirs.service_client,
            namespace=theirs.namespace,
            data_converter=of_loops(theirs.data_converter, parts.stores.blobs),
            plugins=[*parts.telemetry.plugins, StepLoggingPlugin()],
        )
        await register_search_attributes(client)
        parts.loop_tools.serve(loops_of(parts, client))
        build = await own_build(client, self._settings.deployment)
        installation = await once_there(parts.stores.records.installation, self._stop)
        fleet = Fleet(client, parts, installation, build)

        async def polling(queues: list[str]) -> None:
            if build is not None:
                await build.begin()
            say_what_is_polled(client, queues, default_model=parts.default_model)
            self.steps = fleet.task_steps()
            self._begun.set()

        starts = (fleet.tasks(queue) for queue in self._queues)
        workers = [fleet.loops(), *starts, *fleet.steps()]
        await fleet.serve(workers, self._stop, polling=polling)


def passing_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    """The worker's own runner; a sandbox passes our modules through, or types would not match."""
    build_validators()
    if runner is None or isinstance(runner, SandboxedWorkflowRunner):
        known = runner.restrictions if runner else SandboxRestrictions.default
        return replace(
            runner or SandboxedWorkflowRunner(),
            restrictions=known.with_passthrough_modules(PACKAGE),
        )
    return runner
