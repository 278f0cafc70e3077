"""The workers of one process, one per queue, with the activities that each serves."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, Worker

from perdure.about import VERSION
from perdure.activities.call_model import CallModel
from perdure.activities.collection import Collect
from perdure.activities.evaluation import Check, Verify
from perdure.activities.generated_tools import MakeTool
from perdure.activities.hooks import RunHook
from perdure.activities.manager import Brief, InspectWork, Shelve
from perdure.activities.memory import KeepLearnings, Mine, Recall, Review
from perdure.activities.open_run import OpenRun, Reframe
from perdure.activities.open_workspace import OpenWorkspace
from perdure.activities.roles import ReadStage
from perdure.activities.run_lifecycle import Finish, KeepTerms, Notify, Reconcile, Snapshot
from perdure.activities.skills import OfferSkills
from perdure.activities.support.journaled_model import Backoff, JournaledModel
from perdure.activities.support.live_text_writer import LiveTextWriter
from perdure.activities.support.prompt_builder import PromptBuilder
from perdure.activities.support.run_storage import Frames
from perdure.activities.take_over import SettleChild, TakeOver
from perdure.activities.tool_calls import AskedCalls, CallTool, CheckCall
from perdure.activities.worker_probe import Ready
from perdure.activities.worker_results import MergeWork, ReadWork
from perdure.adapters.bounded_process.process import misfits_of
from perdure.adapters.checks.builtin_checks import similarity
from perdure.adapters.files.measures import measured
from perdure.adapters.llm.access import access_from, lacking_models
from perdure.adapters.notifiers import NoNotices
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.waiting_stores import once_there, patiently
from perdure.adapters.telemetry.content import TracedModels, TracedTools
from perdure.composition.client_services import collecting_of, notices_of
from perdure.composition.parts import Parts
from perdure.composition.task_steps import TaskSteps, task_steps
from perdure.domain.foundation.errors import PerdureError, StoreError
from perdure.domain.foundation.names import (
    host_probe_queue,
    host_queue,
    loops_queue,
    models_queue,
    tools_queue,
    worker_identity,
)
from perdure.domain.installation.model_rates import queue_of_rate, queues_of
from perdure.domain.installation.workspace_use import WorkspaceUse, served
from perdure.domain.ports import Models, ToolHost
from perdure.domain.run.bookkeeping_messages import ServedModels
from perdure.event_log import get_logger
from perdure.extending.own_thread import in_own_thread
from perdure.fleet.blocked_loop import telling_what_blocks
from perdure.fleet.freed_runs import FreedRuns
from perdure.fleet.served_steps import Activity, experiment_steps, model_steps, skill_steps
from perdure.fleet.worker_deployment import OwnBuild
from perdure.fleet.worker_ends import nobody_told, require_polling
from perdure.fleet.workspace_workers import WorkspaceWorkers, look_after_folders
from perdure.workflows.passed_on_headers import PassedOnHeaders
from perdure.workflows.registry import TASK_STARTS, WORKFLOWS, allow_long_tasks, workflow_runner

REGISTRY_POLL_S = 1.0
# Sent explicitly: if a worker sends no limit, the server keeps the last one it got.
NO_LIMIT = 100_000.0
_log = get_logger(__name__)
Polling = Callable[[list[str]], Awaitable[None]]


class Fleet:
    """The workers of one process, one per queue; they register `build`, if there is one."""

    def __init__(
        self, client: Client, parts: Parts, installation: str, build: OwnBuild | None = None
    ) -> None:
        self._client = client
        self._build = build
        self._parts, self._settings = parts, parts.settings
        self._installation = installation
        host = parts.host
        self._host_queue = None if host is None else host_queue(installation, host)
        stores = parts.stores
        self._frames = Frames(stores.blobs)
        shown = self._settings.trace_content == "on"
        models: Models = TracedModels(parts.models) if shown else parts.models
        self._tools: ToolHost = TracedTools(parts.tools) if shown else parts.tools
        self._live = LiveTextWriter(stores.live(), on_failure=_not_shown)
        metered = JournaledModel(
            models=models,
            journal=stores.journal,
            blobs=stores.blobs,
            live=self._live,
            backoff=Backoff(self._settings.backoff_initial_s, self._settings.backoff_max_s),
        )
        self._calls = CallModel(
            blobs=stores.blobs,
            transcripts=stores.transcripts,
            records=stores.records,
            metered=metered,
            frames=self._frames,
            composer=PromptBuilder(stores.blobs),
            mended=parts.tools.mended,
            misfits=misfits_of,
        )
        self._checks = Check(
            blobs=stores.blobs,
            frames=self._frames,
            checks=parts.checks,
            waiting=patiently,
            aside=in_own_thread,
        )
        self._outbox = notices_of(parts, self._client)
        self._hooks = RunHook(blobs=stores.blobs, frames=self._frames, hooks=parts.hooks)

    def loops(self) -> Worker:
        """The worker of workflows and bookkeeping steps."""
        stores = self._parts.stores
        open_run = OpenRun(
            blobs=stores.blobs,
            transcripts=stores.transcripts,
            models=self._parts.models,
            journal=stores.journal,
            records=stores.records,
            notifies=self._settings.tells_people,
            measure=measured,
            queues=self._queues_of,
        )
        review = Review(
            records=stores.records,
            memory=stores.memory,
            blobs=stores.blobs,
            frames=self._frames,
            trusts_skills=self._settings.trust_skills,
            queues=self._queues_of,
        )
        records, blobs = stores.records, stores.blobs
        finish = Finish(
            records=records, blobs=blobs, memory=stores.memory, artifacts=stores.artifacts
        )
        return self._worker(
            loops_queue(self._installation),
            activities=[
                *experiment_steps(self._parts, self._client, lacks=self._lacks),
                open_run.open_run,
                Reframe(blobs=stores.blobs, frames=self._frames).reframe,
                Reconcile(stores.journal).reconcile,
                SettleChild(journal=stores.journal, records=stores.records).settle_child,
                TakeOver(journal=stores.journal, records=stores.records).take_over,
                Shelve(stores.blobs).shelve,
                Brief(stores.blobs).brief,
                ReadWork(
                    blobs=stores.blobs, similarity=similarity, inspector=self._parts.deliverables
                ).read_work,
                Recall(memory=stores.memory, blobs=stores.blobs).recall,
                OfferSkills(memory=stores.memory, blobs=stores.blobs).offer_skills,
                finish.finish,
                KeepTerms(records=records, blobs=blobs).keep_terms,
                review.review,
                KeepLearnings(stores.memory).keep_learnings,
                Mine(stores.memory).mine,
                Collect(collecting_of(self._parts, self._client)).collect,
                ReadStage(
                    blobs=stores.blobs, artifacts=stores.artifacts, frames=self._frames, now=utc_now
                ).read_stage,
                self._calls.pair_results,
                Notify(self._outbox or NoNotices()).notify,
                Ready(version=VERSION, workspace=None).ready,
            ],
            workflows=WORKFLOWS,
        )

    async def _deliver_notices(self, stop: asyncio.Event) -> None:
        if self._outbox is not None:
            await self._outbox.serve(stop)

    async def _look_after_folders(self, stop: asyncio.Event) -> None:
        if self._host_queue is not None:
            await look_after_folders(
                self._parts.workspaces, self._parts.stores.records, stop, now=utc_now
            )

    def task_steps(self) -> TaskSteps:
        """The steps on the queues on which loops are started."""
        return task_steps(self._parts, self._client, lacks=self._lacks)

    def tasks(self, queue: str) -> Worker:
        """The worker that opens runs which Temporal clients started with only a task."""
        steps = self.task_steps().activities
        return self._worker(queue, activities=steps, workflows=TASK_STARTS, shared=True)

    def _queues_of(self, models: Sequence[str]) -> dict[str, str]:
        return queues_of(models, self._settings.model_rates, installation=self._installation)

    def models(self) -> list[Worker]:
        """The workers of model calls and judgements: one for the usual queue, one for each rate.

        The server enforces the rate of a queue over all workers that poll it.
        """
        rates = {models_queue(self._installation): self._settings.model_calls_per_second}
        for pattern, rate in self._settings.model_rates.items():
            rates[queue_of_rate(self._installation, pattern)] = rate
        ready = Ready(
            version=VERSION,
            workspace=None,
            lacks=self._lacks,
            models=self._known,
            plugins=self._parts.served_plugins,
        )
        models = model_steps(self._parts.stores, calls=self._calls, frames=self._frames)
        return [
            self._worker(queue, activities=[*models, ready.ready], per_second=rate or NO_LIMIT)
            for queue, rate in rates.items()
        ]

    def _lacks(self) -> dict[str, str]:
        return lacking_models(access_from(self._settings))

    def _known(self) -> ServedModels:
        return self._parts.models.served()

    def tools(self, workspace: str | None, folder: str | None) -> Worker:
        """The worker of tools, checks and snapshots for one workspace, or for scratch folders."""
        return self._tools_of(tools_queue(self._installation, workspace), folder)

    def own_folders(self) -> list[Worker]:
        """The workers of steps in working folders of this host; empty if there is only one host."""
        if self._host_queue is None:
            return []
        there = Ready(version=VERSION, workspace=None)
        # Probes have a queue of their own, so that a fully busy host still answers.
        probe = self._worker(host_probe_queue(self._host_queue), activities=[there.ready])
        return [self._tools_of(self._host_queue, None), probe]

    def _tools_of(self, queue: str, folder: str | None) -> Worker:
        parts, stores = self._parts, self._parts.stores
        opening = OpenWorkspace(
            host=self._tools,
            servers=parts.servers,
            workspaces=parts.workspaces,
            commands=self._settings.allow_commands,
            checks=parts.checks.plugin_names,
            verifier=parts.verifier,
            made=parts.made,
            hooks=parts.hooks,
            host_queue=self._host_queue,
        )
        make = MakeTool(
            store=stores.made_tools, blobs=stores.blobs, sandbox=parts.sandbox, host=self._tools
        )
        asked = AskedCalls(
            transcripts=stores.transcripts, frames=self._frames, workspaces=parts.workspaces
        )
        tool = CallTool(
            blobs=stores.blobs,
            calls=asked,
            host=self._tools,
            workspaces=parts.workspaces,
            measure=measured,
        )
        look = CheckCall(blobs=stores.blobs, calls=asked, host=self._tools)
        verify = Verify(
            blobs=stores.blobs,
            frames=self._frames,
            workspaces=parts.workspaces,
            verifier=parts.verifier,
        )
        return self._worker(
            queue,
            activities=[
                *skill_steps(parts),
                opening.open_workspace,
                tool.call_tool,
                tool.keep_result,
                look.check_call,
                make.make_tool,
                self._checks.check,
                self._checks.read_verdicts,
                self._hooks.run_hook,
                verify.verify,
                Snapshot(workspaces=parts.workspaces, blobs=stores.blobs).snapshot,
                MergeWork(parts.workspaces).merge_work,
                InspectWork(
                    blobs=stores.blobs,
                    inspector=parts.deliverables,
                    workspaces=parts.workspaces,
                    commands=parts.commands,
                ).inspect_work,
                Ready(version=VERSION, workspace=folder, hooks=parts.hooks.listed).ready,
            ],
        )

    def steps(self) -> list[Worker]:
        """The workers of model calls, scratch folders, and working folders of this host."""
        return [*self.models(), self.tools(None, None), *self.own_folders()]

    async def serve(
        self,
        workers: Sequence[Worker],
        stop: asyncio.Event,
        *,
        polling: Polling,
        broken: Callable[[], None] = nobody_told,
    ) -> None:
        """Run these workers, and those of the folders in use, until `stop` is set; then drain.

        Args:
            workers: workers of this fleet.
            stop: ends all of them.
            polling: called once with the queues when all are polled.
            broken: called if the serving ends before that, and before what is left is drained.

        Raises:
            ServiceUnavailable: a worker ended, and nobody had asked it to.
        """
        records = self._parts.stores.records
        async with AsyncExitStack() as stack:
            stack.enter_context(telling_what_blocks())
            stack.push_async_callback(self._live.close)  # closed last, as calls drain
            for worker in workers:
                await stack.enter_async_context(worker)
            folders = await stack.enter_async_context(WorkspaceWorkers(self.tools))
            await folders.serve(_used(await once_there(records.workspace_uses, stop)))
            delivering = asyncio.create_task(self._deliver_notices(stop))
            tidying = asyncio.create_task(self._look_after_folders(stop))
            for task in (delivering, tidying):
                stack.callback(task.cancel)
            await polling([*(worker.task_queue for worker in workers), *folders.queues])
            try:
                while not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(REGISTRY_POLL_S):
                            await stop.wait()
                    require_polling(workers, stop)
                    with contextlib.suppress(StoreError):  # try again in the next round
                        await folders.serve(_used(await records.workspace_uses()))
            except BaseException:
                broken()
                raise
            # All at once, so that the grace period passes once and not once for each queue.
            await asyncio.gather(
                delivering, folders.shutdown(), *(worker.shutdown() for worker in workers)
            )

    def _worker(
        self,
        queue: str,
        *,
        activities: Sequence[Activity],
        workflows: Sequence[type] = (),
        per_second: float | None = None,
        shared: bool = False,
    ) -> Worker:
        settings = self._settings
        worker = Worker(
            self._client,
            task_queue=queue,
            # The identity is in each event of a history, so it is longer only if installations
            # may share the queue.
            identity=worker_identity(self._client.identity, self._installation) if shared else None,
            activities=activities,
            workflows=workflows,
            workflow_runner=workflow_runner(),
            interceptors=[FreedRuns(self._client), *([PassedOnHeaders()] if workflows else [])],
            workflow_failure_exception_types=[PerdureError],
            max_concurrent_activities=settings.max_concurrent_activities,
            max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks
            if workflows
            else None,
            max_cached_workflows=settings.max_cached_workflows,
            max_task_queue_activities_per_second=per_second,
            # A fixed number of polls is shared between new runs and those in the cache, which then
            # wait for seconds while the worker is idle.
            workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.sticky_s),
            graceful_shutdown_timeout=timedelta(seconds=settings.shutdown_grace_s),
            # Opening a task is one step and the same in every version; the loop after it is pinned.
            # Set here, as the server refuses a behavior on workflows if the worker has no build.
            deployment_config=self._build.config(pinned=not shared) if self._build else None,
            max_heartbeat_throttle_interval=timedelta(seconds=settings.heartbeat_s / 2),
            default_heartbeat_throttle_interval=timedelta(seconds=settings.heartbeat_s / 2),
        )
        if workflows:
            allow_long_tasks(worker)
        return worker


def _used(uses: Sequence[WorkspaceUse]) -> dict[str, str]:
    return served(uses, now=utc_now(), exists=os.path.isdir)


def _not_shown(why: str) -> None:
    _log.warning("live_text_not_shown", why=why)
