"""The activity `open_workspace`: make the working folder of a run and pin its tools."""

from temporalio import activity

from activities.beating import Finished, within
from activities.stopwatch import Stopwatch
from activities.translate import translated
from perdure.domain.admission import Needs
from perdure.domain.agent.calls import ToolTerms
from perdure.domain.agent.selection import select
from perdure.domain.commands import named_program
from perdure.domain.errors import InvalidInput, NotAllowed
from perdure.domain.ports import ToolHost, Workspaces
from perdure.domain.steps import OpenWorkspaceReport, OpenWorkspaceRequest
from perdure.domain.tools import Grant, ToolFact
from perdure.domain.verification import Verifier


class OpenWorkspace:
    """Prepares folders; runs on the queue whose workers can see the workspace."""

    def __init__(
        self,
        *,
        host: ToolHost,
        workspaces: Workspaces,
        commands: tuple[str, ...],
        checks: tuple[str, ...],
        verifier: Verifier,
    ) -> None:
        self._host = host
        self._workspaces = workspaces
        self._commands = commands
        self._checks = checks
        self._verifier = verifier

    @activity.defn
    @translated
    async def open_workspace(self, step: OpenWorkspaceRequest) -> OpenWorkspaceReport:
        """Choose the tools, make the folder, and snapshot it when the run may write.

        A rubric that needs what this worker lacks is refused: no model was asked yet.
        """
        watch = Stopwatch()
        selection = select(
            await self._host.catalog(),
            level=step.tools.access or "minimal",
            allow=step.tools.allow or (),
            deny=step.tools.deny,
            approve=step.tools.approve,
            timeouts=step.tools.timeouts,
            belongs=bool(step.session or step.project),
        )
        if selection.problems:
            raise InvalidInput("; ".join(selection.problems))
        opened = await within(self._open(step, writable=selection.writes), seconds=None)
        if not isinstance(opened, Finished):
            raise NotAllowed("the workspace was not opened: the run was stopped")
        root, base = opened.value
        return OpenWorkspaceReport(
            grant=Grant(
                root=root,
                writable=selection.writes,
                level=step.tools.access or "minimal",
                allowed=selection.names,
                commands=self._commands,
                session=step.session,
                project=step.project,
            ),
            tools=selection.tools,
            terms=tuple(_terms(tool, step) for tool in selection.tools),
            base_tree=base,
            checks=self._checks,
            seconds=watch.seconds,
        )

    async def _open(self, step: OpenWorkspaceRequest, *, writable: bool) -> tuple[str, str | None]:
        root = await self._workspaces.prepare(run=step.run, source=step.source, writable=writable)
        if not writable:
            await self._require(step, root=root, tree=None)
            return root, None
        if step.tree is not None:
            await self._workspaces.restore(run=step.run, root=root, tree=step.tree, base=step.base)
        base = await self._workspaces.base(run=step.run)
        await self._require(step, root=root, tree=step.tree or base.hash)
        return root, base.hash

    async def _require(self, step: OpenWorkspaceRequest, *, root: str, tree: str | None) -> None:
        """Refuse a rubric whose programs or checks this worker does not have."""
        lacking = self._unknown(step.needs)
        programs = step.needs.programs
        if any(named_program(check) is None for check in programs.values()):
            # Told by the files that are judged, as when they are judged.
            judged = tree or (await self._workspaces.snapshot(run=step.run, root=root)).hash
            async with self._workspaces.checkout(tree=judged) as folder:
                lacking |= await self._verifier.obstacles(programs, folder=folder)
        else:
            lacking |= await self._verifier.obstacles(programs, folder=root)
        if lacking:
            raise InvalidInput("; ".join(f"{name}: {why}" for name, why in lacking.items()))

    def _unknown(self, needs: Needs) -> dict[str, str]:
        have = ", ".join(self._checks) or "none"
        return {
            name: f"no check is named {check} on this worker; plugins there bring {have}. "
            "Install its package there, or name its module in the setting PERDURE_PLUGINS."
            for name, check in needs.checks.items()
            if check not in self._checks
        }


def _terms(tool: ToolFact, step: OpenWorkspaceRequest) -> ToolTerms:
    return ToolTerms(
        name=tool.name,
        access=tool.access,
        idempotent=tool.idempotent,
        needs_approval=tool.needs_approval,
        timeout_s=min(tool.timeout_s, step.tool_timeout_s or tool.timeout_s),
        exclusive=tool.exclusive,
        meta=tool.meta,
        repeat_exempt=tool.name in step.tools.repeat_exempt,
        person=tool.access == "person",
    )
