"""Opening a run: its working folder, then its frame, before any money is spent."""

from dataclasses import KW_ONLY, dataclass

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.activities.open_run import OpenRun
from perdure.domain.budget import accounting as budgets
from perdure.domain.foundation.errors import AlreadyBegun
from perdure.domain.llm.attachments import attachment_in
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.run.activity_messages import OpenRunReport, OpenRunRequest, OpenWorkspaceReport
from perdure.domain.run.child_runs import commission_of
from perdure.domain.run.spec import ROLES
from perdure.domain.sight import reads_task
from perdure.domain.specs import output_schema_of
from perdure.domain.turns.failover import first_model
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.input import INVALID_INPUT
from perdure.workflows.engine.lost_worker_retries import LostWorkerRetries
from perdure.workflows.engine.policies import ModelSelection, Requirements
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed, StepRunner, opening_reason
from perdure.workflows.engine.working_folder import OPENS, WorkingFolder


@dataclass(frozen=True)
class Setup:
    """Opens a run: its working folder, its frame, and the conversation that it begins with."""

    run: AnyRun
    _: KW_ONLY
    steps: StepRunner
    retries: LostWorkerRetries
    folder: WorkingFolder
    selection: ModelSelection[AnyRun]
    requirements: Requirements

    async def open(
        self,
        *,
        converses: bool,
        extra: dict[str, JsonValue],
        goes_on: bool = False,
        resume: TranscriptRef | None = None,
    ) -> OpenRunReport | Ending:
        """Make the working folder and write the frame; `resume` continues a transcript."""
        self.run.record_event("run_started", kind=self.run.kind)
        self.run.sync_visibility()
        # First, because it may fail cheaply: missing programs or folders are found before any model
        # call.
        workspace = await self.open_workspace()
        if isinstance(workspace, StepFailed):
            return self._unopened(workspace)
        opened = await self._open_run(
            workspace.report, converses=converses, extra=extra, goes_on=goes_on, resume=resume
        )
        if isinstance(opened, StepFailed):
            if opened.code == AlreadyBegun.code:
                # No result is stored: that of the run which had this id stays.
                raise ApplicationError(opened.message, type=INVALID_INPUT, non_retryable=True)
            return self._unopened(opened)
        report, state = opened.report, self.run.state
        state.frame, state.cards, state.queues = report.frame, report.cards, report.queues
        state.system_tokens, state.task_tokens = report.system_tokens, report.task_tokens
        state.task_media = report.task_media
        state.base_tree = workspace.report.base_tree
        # The tools' policies are pinned here: a plugin that is upgraded while a run works must not
        # change what the run may do.
        state.terms = list(workspace.report.terms)
        self.requirements.note_workspace(workspace.report)
        state.notifies = report.notifies
        self._skip_failing(report)
        self._tell_unseen(report)
        return report

    def _unopened(self, broken: StepFailed) -> Ending:
        """Why the run ends before it began: a person or a clock ended it, or opening failed."""
        ending = self.run.ending() if self.run.interruption is not None else None
        failed = Ending(outcome="failed", reason=opening_reason(broken), detail=broken.message)
        return ending or failed

    def _tell_unseen(self, report: OpenRunReport) -> None:
        """Say which models judge or work without having seen the task's images and PDFs."""
        blind = {role: why for role, why in report.blind.items() if reads_task(self.run.spec, role)}
        self.run.state.unseen = tuple(f"{role}: {why}" for role, why in blind.items())
        for role, why in blind.items():
            self.run.record_event("input_unseen", role=role, why=why)

    def _skip_failing(self, report: OpenRunReport) -> None:
        """Skip models that failed for other runs a moment ago."""
        for role in ROLES:
            chain = self.run.spec.models.chain(role)
            first = first_model(chain, report.failing)
            if first > 0 and role not in self.run.state.chain_index:
                self.run.state.chain_index = {**self.run.state.chain_index, role: first}
                why = "it failed within the last minute"
                self.run.record_event(
                    "model_failed_over", failed=chain[0], to=chain[first], why=why
                )

    async def open_workspace(self) -> Completed[OpenWorkspaceReport] | StepFailed:
        """Make the working folder, or restore it to the run's last snapshot."""
        self.run.set_step("open the workspace")
        if servers := ", ".join(server.name for server in self.run.spec.tools.mcp):
            # Opening asks them for their tools, and one that hangs is given up only after a while.
            self.run.set_step(f"open the workspace, and wait for the MCP servers {servers}")
            self.run.record_event("servers_asked", servers=servers)
        opened = await self.retries.run_with_retries(self.folder.start_opening, what=OPENS)
        self.run.set_step(None)
        if isinstance(opened, Completed):
            self.folder.note_opened(opened.report)
        return opened

    async def _open_run(
        self,
        workspace: OpenWorkspaceReport,
        *,
        converses: bool,
        extra: dict[str, JsonValue],
        goes_on: bool,
        resume: TranscriptRef | None,
    ) -> Completed[OpenRunReport] | StepFailed:
        spec, policy = self.run.spec, self.run.spec.budget.unknown_price
        activity_id, info = self.run.next_activity_id(), workflow.info()
        handle = workflow.start_activity_method(
            OpenRun.open_run,
            OpenRunRequest(
                run=self.run.id,
                kind=self.run.kind,
                goal=spec.goal,
                system=spec.agent.system,
                context=spec.context,
                messages=spec.agent.messages,
                transcript=spec.agent.transcript,
                converses=converses,
                chains={
                    **{role: spec.models.chain(role) for role in ROLES if spec.models.chain(role)},
                    **{f"judge {name}": (name,) for name in self.requirements.judges()},
                    **self.selection.more_chains(),
                },
                assume_price=policy.assume if isinstance(policy, budgets.AssumePrice) else None,
                grant=workspace.grant,
                tools=workspace.tools,
                extra=extra,
                goes_on=goes_on,
                resume=resume,
                root=self.run.site.root,
                commission=commission_of(self.run.site, self.run.spec),
                now=workflow.now(),
                seats=self.requirements.seat_orders(workspace),
                output_schema=output_schema_of(spec),
                cache_life=spec.models.cache_life,
                begins="" if info.continued_run_id else info.original_execution_run_id,
                is_fresh=self.run.is_fresh,
            ),
            **activity_options.opening_step(
                self.run.site,
                activity_id=activity_id,
                files=sum(attachment_in(value) is not None for value in spec.context.values()),
            ),
        )
        return await self.steps.await_step(handle, activity_id=activity_id)
