"""The activity `open_workspace`: make a run's working folder and pin its tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Finished, Stopwatch, within
from perdure.domain.evaluation.program_checks import named_program
from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.evaluation.verifier_ports import Verifier
from perdure.domain.foundation.errors import LOAD_PLUGIN, InvalidInput, NotAllowed
from perdure.domain.ports import HookRunner, MadeCatalog, ToolHost, ToolServers
from perdure.domain.roles.definition import unusable_reasons
from perdure.domain.run.activity_messages import (
    OpenWorkspaceReport,
    OpenWorkspaceRequest,
    StageTools,
)
from perdure.domain.tools.definitions import ToolDefinition, ToolGrant
from perdure.domain.tools.mcp_servers import PinnedServer
from perdure.domain.tools.selection import (
    Selection,
    any_names,
    may_change_files,
    offers,
    select,
    steers_loops,
    timeout_of,
)
from perdure.domain.tools.workspaces import Workspaces
from perdure.domain.turns.tool_call_rules import ToolPolicy


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A run's folder with its first snapshot, and the tools on offer."""

    root: str
    base: str | None
    writable: bool
    selection: Selection
    servers: tuple[PinnedServer, ...]


@dataclass(frozen=True, kw_only=True)
class OpenWorkspace:
    """Prepares folders; runs on the queue whose workers can see the workspace.

    `host_queue` is that of this host alone, in an installation that may have several.
    """

    host: ToolHost
    servers: ToolServers
    workspaces: Workspaces
    commands: tuple[str, ...]
    checks: tuple[str, ...]
    verifier: Verifier
    made: MadeCatalog
    hooks: HookRunner
    host_queue: str | None = None

    @activity.defn
    @translated
    async def open_workspace(self, step: OpenWorkspaceRequest) -> OpenWorkspaceReport:
        """Choose the tools, make the folder, and snapshot it if the run may write.

        A rubric that needs what this worker lacks is refused here, before any model is called.
        """
        watch = Stopwatch()
        opened = await within(self._prepared(step), seconds=None)
        if not isinstance(opened, Finished):
            raise NotAllowed("the workspace was not opened: the run was stopped")
        prepared = opened.value
        selection = prepared.selection
        grant = ToolGrant(
            root=prepared.root,
            writable=prepared.writable,
            level=step.tools.access or "minimal",
            allowed=selection.names,
            commands=self.commands,
            session=step.session,
            project=step.project,
            servers=prepared.servers,
            orchestrates=step.orchestrates,
            generated={
                name: hash for name, hash in step.tools.generated.items() if name in selection.names
            },
        )
        return OpenWorkspaceReport(
            grant=grant,
            seats={name: _seat(seat, selection.tools, grant) for name, seat in step.seats.items()},
            tools=selection.tools,
            terms=tuple(_terms(tool, step) for tool in selection.tools),
            base_tree=prepared.base,
            checks=self.checks,
            seconds=watch.seconds,
            # A user's folder that is only read has no host: every worker that sees it can serve.
            host=self.host_queue if prepared.writable or step.source is None else None,
        )

    async def _prepared(self, step: OpenWorkspaceRequest) -> _Prepared:
        """Prepare folder and tools; MCP servers come last, because some work in the folder."""
        made = await self.made.facts(step.tools.generated, root=step.root or step.run)
        own, asked = (*await self.host.catalog(), *made), step.tools.mcp
        # Before the folder is copied, which may take minutes.
        _refuse(unusable_reasons(step.needs.capabilities, own))
        _refuse(self.hooks.problems(step.hooks))
        selection = _selected(step, own, later=tuple(server.prefix for server in asked))
        level = step.tools.access or "minimal"
        writable = selection.writes or may_change_files(level, self.servers.accesses(asked))
        root, base = await self._open(step, writable=writable)
        if not asked:
            return _Prepared(root, base, writable, selection, ())
        # Pinned with a hash of each tool: a server that changes its tools under a run is noticed.
        pinned = await self.servers.pin(asked, root=root)
        # Tools that steer loops are for the same runs, whether they are ours or a server's.
        later = [fact for fact in pinned.facts if step.orchestrates or not steers_loops(fact.name)]
        selection = _selected(step, (*own, *later))
        _require_offered(step, pinned.facts)
        return _Prepared(root, base, writable, selection, pinned.servers)

    async def _open(self, step: OpenWorkspaceRequest, *, writable: bool) -> tuple[str, str | None]:
        # The folder is named by the run, so a retried attempt prepares the same one.
        root = await self.workspaces.prepare(run=step.run, source=step.source, writable=writable)
        if not writable:
            if step.source is None and step.tree is not None:
                await self.workspaces.restore(run=step.run, root=root, tree=step.tree)
            await self._require(step, root=root, tree=None)
            return root, None
        # A fork, a repaired child, or a run whose folder is on a host that is gone.
        if step.tree is not None:
            await self.workspaces.restore(run=step.run, root=root, tree=step.tree, base=step.base)
        base = await self.workspaces.base(run=step.run)
        await self._require(step, root=root, tree=step.tree or base.hash)
        return root, base.hash

    async def _require(self, step: OpenWorkspaceRequest, *, root: str, tree: str | None) -> None:
        """Refuse a rubric whose programs or checks this worker does not have."""
        lacking = self._unknown(step.needs)
        programs = step.needs.programs
        if any(named_program(check) is None for check in programs.values()):
            # Without a named program the files decide which one runs: ask those that are judged.
            judged = tree or (await self.workspaces.snapshot(run=step.run, root=root)).tree.hash
            async with self.workspaces.checkout(tree=judged) as folder:
                lacking |= await self.verifier.obstacles(programs, folder=folder)
        else:
            lacking |= await self.verifier.obstacles(programs, folder=root)
        _refuse(lacking)

    def _unknown(self, needs: WorkerRequirements) -> dict[str, str]:
        have = ", ".join(self.checks) or "none"
        return {
            name: f"no check is named {check} on this worker; plugins there bring {have}. "
            f"{LOAD_PLUGIN}"
            for name, check in needs.checks.items()
            if check not in self.checks
        }


def _refuse(lacking: Mapping[str, str]) -> None:
    if lacking:
        raise InvalidInput("; ".join(f"{name}: {why}" for name, why in lacking.items()))


def _seat(seat: StageTools, tools: tuple[ToolDefinition, ...], grant: ToolGrant) -> ToolGrant:
    """The stage's part of the run's grant, in the same folder.

    Stages never get the tools that start or steer loops: loops inside a loop are delegations or
    `loop:` stages, which are limited in depth and budget.
    """
    possible = [tool for tool in tools if not steers_loops(tool.name)]
    offered = select(possible, level=seat.level, allow=seat.allow, belongs=True)
    return grant.model_copy(
        update={
            "level": seat.level,
            "allowed": offered.names,
            "writable": offered.writes,
            "orchestrates": False,
        }
    )


def _selected(
    step: OpenWorkspaceRequest, catalog: Sequence[ToolDefinition], *, later: Sequence[str] = ()
) -> Selection:
    """The tools of the run; raises `InvalidInput` if the task asks for impossible ones."""
    wanted = step.tools.allow
    selection = select(
        catalog,
        level=step.tools.access or "minimal",
        # A generated tool is asked for by its hash, which is its permission.
        allow=None if wanted is None else (*wanted, *step.tools.generated),
        deny=step.tools.deny,
        approve=step.tools.approve,
        timeouts=step.tools.timeouts,
        belongs=bool(step.session or step.project),
        later=later,
        orchestrates=step.orchestrates,
    )
    if selection.problems:
        raise InvalidInput("; ".join(selection.problems))
    return selection


def _require_offered(step: OpenWorkspaceRequest, facts: Sequence[ToolDefinition]) -> None:
    """Refuse an MCP server if the access level offers none of its tools."""
    level = step.tools.access or "minimal"
    for server in step.tools.mcp:
        own = [fact for fact in facts if fact.name.startswith(server.prefix)]
        if not any(offers(level, fact) for fact in own):
            classes = ", ".join(sorted({fact.access for fact in own})) or "no tools at all"
            raise InvalidInput(
                f"tools.mcp: the server {server.name!r} brings {classes}, of which access level "
                f"{level} offers nothing. Raise tools.access, or leave the server out."
            )


def _timeout(tool: ToolDefinition, step: OpenWorkspaceRequest) -> float:
    """The time limit of a call: the task's for this tool, else the shorter of tool and profile."""
    theirs = tool.activity is not None
    named = timeout_of(step.tools.timeouts, tool.name) is not None
    if step.tool_timeout_s is None or named or theirs:
        return tool.timeout_s
    return min(tool.timeout_s, step.tool_timeout_s)


def _terms(tool: ToolDefinition, step: OpenWorkspaceRequest) -> ToolPolicy:
    return ToolPolicy(
        name=tool.name,
        access=tool.access,
        idempotent=tool.idempotent,
        activity=tool.activity,
        needs_approval=tool.needs_approval,
        timeout_s=_timeout(tool, step),
        exclusive=tool.exclusive,
        meta=tool.meta,
        repeat_exempt=any_names(step.tools.repeat_exempt, tool.name),
        person=tool.access == "person",
        tags=tool.tags,
    )
