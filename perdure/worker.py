"""The worker: polls the queues of its installation and of every registered workspace.

Started as `python -P -m perdure.worker`. It drains on SIGTERM and SIGINT, and ends at the second;
a workspace is served within a second of its use, and no longer than it is used.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog
from temporalio.client import Client
from temporalio.worker import Worker

# Before all that it finds.

# isort: split

from perdure.about import VERSION
from perdure.activities.call_model import CallModel
from perdure.activities.evaluation import Check, Judge, Verify
from perdure.activities.generated_tools import MakeTool, RepairTool
from perdure.activities.manager import Brief, InspectWork, Manage, Shelve
from perdure.activities.memory import Extract, KeepLearnings, Mine, Recall, Review
from perdure.activities.open_run import OpenRun, Reframe
from perdure.activities.open_workspace import OpenWorkspace
from perdure.activities.plan import Plan
from perdure.activities.roles import AskVerdict, ReadStage
from perdure.activities.run_lifecycle import Finish, Notify, Reconcile, Snapshot
from perdure.activities.skills import OfferSkills, SaveSkills
from perdure.activities.support.context_cache import Frames
from perdure.activities.support.journaled_model import Backoff, JournaledModel
from perdure.activities.support.prompt_builder import PromptBuilder
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.activities.take_over import SettleChild, TakeOver
from perdure.activities.tool_calls import AskedCalls, CallTool, CheckCall
from perdure.activities.worker_probe import Ready
from perdure.activities.worker_results import MergeWork, ReadWork, ReviewWork
from perdure.adapters.bounded_process.process import misfits_of
from perdure.adapters.checks.builtin_checks import similarity
from perdure.adapters.llm.access import access_from, lacking_models
from perdure.adapters.logging.process_logs import log_process, told_at_the_end
from perdure.adapters.notifiers import notifier
from perdure.adapters.settings.variables import Settings, variable
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.waiting_stores import once_there, patiently
from perdure.adapters.temporal.client import connect
from perdure.client_services import loops_of
from perdure.composition import Parts, open_parts
from perdure.domain.foundation.errors import PerdureError, StoreAway, StoreError
from perdure.domain.foundation.names import loops_queue, models_queue, tools_queue
from perdure.domain.installation.workspace_use import WorkspaceUse, served
from perdure.domain.run.bookkeeping_messages import ServedModels
from perdure.local_services.processes import share_heaps
from perdure.local_services.ready_file import announce_ready, say_what_is_polled, withdraw_ready
from perdure.local_services.temporal_server import register_search_attributes
from perdure.workflow_registry import WORKFLOWS, allow_long_tasks, workflow_runner
from perdure.workspace_workers import WorkspaceWorkers

REGISTRY_POLL_S = 1.0
_log = structlog.get_logger(__name__)
Activity = Callable[..., object]


class Fleet:
    """The workers of one process, one per queue."""

    def __init__(self, client: Client, parts: Parts, installation: str) -> None:
        self._client = client
        self._parts, self._settings = parts, parts.settings
        self._installation = installation
        stores = parts.stores
        self._frames = Frames(stores.blobs)
        metered = JournaledModel(
            models=parts.models,
            journal=stores.journal,
            blobs=stores.blobs,
            records=stores.records,
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

    def loops(self) -> Worker:
        """Workflows and the bookkeeping steps."""
        stores = self._parts.stores
        open_run = OpenRun(
            blobs=stores.blobs,
            transcripts=stores.transcripts,
            models=self._parts.models,
            journal=stores.journal,
            records=stores.records,
            notifies=self._settings.tells_people,
        )
        review = Review(
            records=stores.records,
            memory=stores.memory,
            blobs=stores.blobs,
            frames=self._frames,
            trusts_skills=self._settings.trust_skills,
        )
        finish = Finish(
            records=stores.records,
            blobs=stores.blobs,
            memory=stores.memory,
            artifacts=stores.artifacts,
        )
        return self._worker(
            loops_queue(self._installation),
            activities=[
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
                review.review,
                KeepLearnings(stores.memory).keep_learnings,
                Mine(stores.memory).mine,
                ReadStage(
                    blobs=stores.blobs, artifacts=stores.artifacts, frames=self._frames, now=utc_now
                ).read_stage,
                self._calls.pair_results,
                Notify(notifier(self._settings)).notify,
                Ready(version=VERSION, workspace=None).ready,
            ],
            workflows=WORKFLOWS,
        )

    def models(self) -> Worker:
        """Model calls and judgements, limited in rate across all workers of the queue."""
        stores = self._parts.stores
        structured = StructuredCalls(calls=self._calls, blobs=stores.blobs)
        judge = Judge(
            structured=structured,
            frames=self._frames,
            verdicts=stores.verdicts,
            journal=stores.journal,
        )
        verdicts = AskVerdict(structured)
        return self._worker(
            models_queue(self._installation),
            activities=[
                self._calls.call_model,
                judge.judge,
                Plan(structured).plan,
                verdicts.ask_verdict,
                verdicts.judge_goal,
                Extract(structured).extract,
                RepairTool(structured, blobs=stores.blobs).repair_tool,
                Manage(structured=structured, blobs=stores.blobs).manage,
                ReviewWork(structured).review_work,
                Ready(version=VERSION, workspace=None, lacks=self._lacks, models=self._known).ready,
            ],
            per_second=self._settings.model_calls_per_second,
        )

    def _lacks(self) -> dict[str, str]:
        return lacking_models(access_from(self._settings))

    def _known(self) -> ServedModels:
        return self._parts.models.served()

    def tools(self, workspace: str | None, folder: str | None) -> Worker:
        """Tools, checks and snapshots for one workspace, or for scratch folders."""
        parts, stores = self._parts, self._parts.stores
        opening = OpenWorkspace(
            host=parts.tools,
            servers=parts.servers,
            workspaces=parts.workspaces,
            commands=self._settings.allow_commands,
            checks=parts.checks.plugin_names,
            verifier=parts.verifier,
            made=parts.made,
        )
        make = MakeTool(
            store=stores.made_tools,
            blobs=stores.blobs,
            sandbox=parts.sandbox,
            host=parts.tools,
        )
        tool = CallTool(
            blobs=stores.blobs,
            transcripts=stores.transcripts,
            frames=self._frames,
            host=parts.tools,
        )
        asked = AskedCalls(transcripts=stores.transcripts, frames=self._frames)
        look = CheckCall(blobs=stores.blobs, calls=asked, host=parts.tools)
        verify = Verify(
            blobs=stores.blobs,
            frames=self._frames,
            workspaces=parts.workspaces,
            verifier=parts.verifier,
        )
        save = SaveSkills(blobs=stores.blobs, memory=stores.memory, folder=parts.skill_folder)
        return self._worker(
            tools_queue(self._installation, workspace),
            activities=[
                save.save_skills,
                opening.open_workspace,
                tool.call_tool,
                look.check_call,
                make.make_tool,
                Check(
                    blobs=stores.blobs,
                    frames=self._frames,
                    checks=parts.checks,
                    waiting=patiently,
                ).check,
                verify.verify,
                Snapshot(workspaces=parts.workspaces, blobs=stores.blobs).snapshot,
                MergeWork(parts.workspaces).merge_work,
                InspectWork(
                    blobs=stores.blobs,
                    inspector=parts.deliverables,
                    workspaces=parts.workspaces,
                    commands=parts.commands,
                ).inspect_work,
                Ready(version=VERSION, workspace=folder).ready,
            ],
        )

    def _worker(
        self,
        queue: str,
        *,
        activities: Sequence[Activity],
        workflows: Sequence[type] = (),
        per_second: float | None = None,
    ) -> Worker:
        settings = self._settings
        worker = Worker(
            self._client,
            task_queue=queue,
            activities=activities,
            workflows=workflows,
            workflow_runner=workflow_runner(),
            workflow_failure_exception_types=[PerdureError],
            max_concurrent_activities=settings.max_concurrent_activities,
            max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks
            if workflows
            else None,
            max_cached_workflows=settings.max_cached_workflows,
            max_task_queue_activities_per_second=per_second,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=settings.sticky_s),
            graceful_shutdown_timeout=timedelta(seconds=settings.shutdown_grace_s),
            max_heartbeat_throttle_interval=timedelta(seconds=settings.heartbeat_s / 2),
            default_heartbeat_throttle_interval=timedelta(seconds=settings.heartbeat_s / 2),
        )
        if workflows:
            allow_long_tasks(worker)
        return worker


async def run_worker(settings: Settings, stop: asyncio.Event) -> None:
    """Poll until `stop` is set, then drain: fetch nothing more, finish what is in flight.

    Steps that take longer than the grace go to other workers. An absent store is waited for.
    """
    withdraw_ready(settings)
    try:
        await _serve(settings, stop)
    except StoreAway:
        if not stop.is_set():  # else it was told to end while it waited
            raise


async def _serve(settings: Settings, stop: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        opened = partial(open_parts, settings, plugins=True)
        parts = await once_there(lambda: stack.enter_async_context(opened()), stop)
        client = await connect(
            settings,
            fallback=f"127.0.0.1:{settings.temporal_port}",
            blobs=parts.stores.blobs,
            telemetry=parts.telemetry,
            tolerant=True,
        )
        await register_search_attributes(client)
        parts.loop_tools.serve(loops_of(parts))
        records = parts.stores.records
        fleet = Fleet(client, parts, await once_there(records.installation, stop))
        always = [fleet.loops(), fleet.models(), fleet.tools(None, None)]
        for worker in always:
            await stack.enter_async_context(worker)
        folders = await stack.enter_async_context(WorkspaceWorkers(fleet.tools))
        await folders.serve(_used(await once_there(records.workspace_uses, stop)))
        queues = [*(worker.task_queue for worker in always), *folders.queues]
        say_what_is_polled(client, queues, default_model=parts.default_model)
        await once_there(lambda: asyncio.to_thread(announce_ready, settings), stop)
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), REGISTRY_POLL_S)
            with contextlib.suppress(StoreError):  # a locked store is asked again
                await folders.serve(_used(await records.workspace_uses()))
        # All at once, so that the grace counts once and not once for each queue.
        await asyncio.gather(folders.shutdown(), *(worker.shutdown() for worker in always))


def _used(uses: Sequence[WorkspaceUse]) -> dict[str, str]:
    return served(uses, now=utc_now(), exists=os.path.isdir)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Drain at the first signal, end at once at the second: the server hands on what is open."""

    def told(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        _log.info("worker_drains", signal=number.name)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told, number)


async def _main() -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    # A supervisor's worker goes by the supervisor's word, wherever it was started.
    own = variable("PERDURE_READY_FILE") is None
    settings = Settings.found(folder=Path.cwd() if own else None)
    log_process(settings)
    await run_worker(settings, stop)


def main() -> None:
    """Run the worker process; it leaves at once, because the SDK can crash an ordinary exit."""
    share_heaps()
    code = 0
    try:
        asyncio.run(_main())
    except PerdureError as error:
        told_at_the_end(error, as_json=variable("PERDURE_LOG_FORMAT") == "json")
        code = error.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
