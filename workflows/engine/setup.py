"""Opening a run: its working folder, then its frame, before anything is spent."""

from abc import abstractmethod

from pydantic import JsonValue
from temporalio import workflow

from perdure.activities.open_run import OpenRun
from perdure.activities.open_workspace import OpenWorkspace
from perdure.domain.budget import envelope as budgets
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.run.activity_messages import (
    OpenRunReport,
    OpenRunRequest,
    OpenWorkspaceReport,
    OpenWorkspaceRequest,
)
from perdure.domain.run.parent_assignment import commission_of
from perdure.domain.run.spec import ROLES
from perdure.domain.specs import output_schema_of
from perdure.domain.turns.failover import first_model
from perdure.domain.turns.settings import resolve
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.requirements import Requirements
from perdure.workflows.engine.step_runner import Completed, StepFailed, opening_reason


class Setup(Requirements):
    """Adds the opening to a loop, which says with what frame and conversation it begins."""

    async def open(
        self,
        *,
        converses: bool,
        extra: dict[str, JsonValue],
        goes_on: bool = False,
        resume: TranscriptRef | None = None,
    ) -> OpenRunReport | Ending:
        """Make the working folder and write the frame; a conversation may go on from a head."""
        self.record_event("run_started", kind=self.kind)
        self.sync_visibility()
        workspace = await self._open_workspace()
        if isinstance(workspace, StepFailed):
            return self._unopened(workspace)
        opened = await self._open_run(
            workspace.report, converses=converses, extra=extra, goes_on=goes_on, resume=resume
        )
        if isinstance(opened, StepFailed):
            return self._unopened(opened)
        report, core = opened.report, self.core
        core.frame, core.cards = report.frame, report.cards
        core.system_tokens, core.task_tokens = report.system_tokens, report.task_tokens
        core.root, core.base_tree = workspace.report.grant.root, workspace.report.base_tree
        core.terms = list(workspace.report.terms)
        self.admitted(workspace.report)
        core.notifies = report.notifies
        self._skip_failing(report)
        return report

    @abstractmethod
    def _ending(self) -> Ending | None:
        """Why the run must end now, or None."""

    def _unopened(self, broken: StepFailed) -> Ending:
        """Why a run ends before it began: a person or a clock ended it, else opening it failed."""
        ending = self._ending() if self.interruption is not None else None
        failed = Ending(outcome="failed", reason=opening_reason(broken), detail=broken.message)
        return ending or failed

    def _skip_failing(self, report: OpenRunReport) -> None:
        """Begin behind models that failed for other runs a moment ago."""
        for role in ROLES:
            chain = self.spec.models.chain(role)
            first = first_model(chain, report.failing)
            if first > 0 and role not in self.core.chain_index:
                self.core.chain_index = {**self.core.chain_index, role: first}
                why = "it failed within the last minute"
                self.record_event("model_failed_over", failed=chain[0], to=chain[first], why=why)

    async def _open_workspace(self) -> Completed[OpenWorkspaceReport] | StepFailed:
        self.set_step("open the workspace")
        request = OpenWorkspaceRequest(
            run=self.run_id,
            source=self.site.folder,
            tools=self.spec.tools,
            tool_timeout_s=resolve(self.spec.agent).tool_timeout,
            tree=self.core.tree or self.site.tree,
            base=self.core.base_tree or self.site.tree,
            needs=self.needs(),
            root=self.site.root if self.spec.tools.generated else "",
            session=self.belongs()[0],
            project=self.belongs()[1],
            seats=self.seats(),
            orchestrates=self.orchestrates(),
        )
        summary = "open workspace"
        opened = await self.outlasting(
            lambda activity_id: workflow.start_activity_method(
                OpenWorkspace.open_workspace,
                request,
                **activity_options.workspace_step(
                    self.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )
        self.set_step(None)
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
        spec, policy = self.spec, self.spec.budget.unknown_price
        activity_id = self.next_activity_id()
        handle = workflow.start_activity_method(
            OpenRun.open_run,
            OpenRunRequest(
                run=self.run_id,
                kind=self.kind,
                goal=spec.goal,
                system=spec.agent.system,
                context=spec.context,
                messages=spec.agent.messages,
                transcript=spec.agent.transcript,
                converses=converses,
                chains={
                    **{role: spec.models.chain(role) for role in ROLES if spec.models.chain(role)},
                    **{f"judge {name}": (name,) for name in self.judges()},
                    **self.more_chains(),
                },
                assume_price=policy.assume if isinstance(policy, budgets.AssumePrice) else None,
                grant=workspace.grant,
                tools=workspace.tools,
                extra=extra,
                goes_on=goes_on,
                resume=resume,
                root=self.site.root,
                commission=commission_of(self.site, self.spec),
                now=workflow.now(),
                seats=self.seat_orders(workspace),
                output_schema=output_schema_of(spec),
            ),
            **activity_options.store_step(self.site, activity_id=activity_id, summary="open run"),
        )
        return await self.await_step(handle, activity_id=activity_id)

    def judges(self) -> tuple[str, ...]:
        """Models that are called beside those of the roles."""
        return ()
