"""What a manager's workers are started with: their task, their tools, their part of the tree."""

from perdure.domain.agent.state import AgentInput
from perdure.domain.budget.envelope import BudgetLimits
from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.messages import Assignment
from perdure.domain.delegation.skills import resolve
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import DelegationInput, DelegationState
from perdure.domain.delegation.worker_specs import (
    acceptance_of,
    inherited,
    manager_spec,
    tools_for,
    worker_spec,
    writes,
)
from perdure.domain.run.spec import LoopInput, Placement
from perdure.workflows.engine.child_runs import ChildRuns, ChildSpec


class WorkerInputs(ChildRuns):
    """Adds the orders of a manager to a loop with children."""

    # Narrowed by the loop, which is the only thing that sets them.
    core: DelegationState  # pyright: ignore[reportIncompatibleVariableOverride]
    spec: DelegationSpec  # pyright: ignore[reportIncompatibleVariableOverride]

    def inform(self, *notes: str) -> None:
        """Tell the manager something in its next view."""
        self.core.course = self.core.course.told(*notes)

    def _free_places(self) -> int:
        """How many sub-managers may be started now: by depth, at once, and in the whole tree."""
        settings = self.spec.delegation.submanagers
        if self.core.budget.limits.depth < 1:
            return 0
        return max(0, min(settings.at_once, self.sub_managers_left))

    @property
    def sub_managers_left(self) -> int:
        """How many sub-managers this run and all below it may still have."""
        return self.spec.delegation.submanagers.per_run - self.core.budget.spent.sub_managers

    def _assignment(self, envelope: Envelope) -> Assignment:
        core = self.core
        found = resolve(envelope.skills, core.shelf)
        self.inform(found.note)
        return Assignment(
            envelope=envelope,
            acceptance=acceptance_of(envelope, core.course.plan),
            inherited=inherited(envelope, core.inputs),
            skills=dict(found.known),
            written=found.written,
            pitfalls=self.core.course.reviews.recurring,
        )

    def _order_of(
        self,
        given: Assignment,
        *,
        briefing: str,
        share: float | None,
        tree: str | None,
        sub_managers: int | None,
    ) -> ChildSpec:
        envelope, spec = given.envelope, self.spec
        tools, unknown = tools_for(envelope, spec, self.core.terms, self.core.toolbox.pinned)
        if unknown:
            names = ", ".join(unknown)
            self.core.course = self.core.course.told(f"No tool is named {names}; none was given.")
        manages = sub_managers is not None

        def make(run: str, site: Placement, limits: BudgetLimits) -> LoopInput:
            if sub_managers is not None:
                below = manager_spec(
                    envelope,
                    spec,
                    tools=tools,
                    limits=limits,
                    inputs={**given.inherited, **envelope.inputs},
                    sub_managers=sub_managers,
                    acceptance=given.acceptance,
                    skills=tuple(given.skills),
                    written=given.written,
                )
                managed = site.model_copy(update={"managed": True})
                return DelegationInput(run=run, site=managed, spec=below)
            site = site.model_copy(update={"briefing": briefing})
            worker = worker_spec(envelope, spec, tools=tools, limits=limits)
            return AgentInput(run=run, site=site, spec=worker)

        default = spec.delegation.submanagers.fraction if manages else None
        return ChildSpec(
            name=envelope.worker,
            kind="delegation" if manages else "agent",
            goal=envelope.instructions,
            make=make,
            spawns=manages,
            fraction=default if share is None else share,
            writable=tree is not None and writes(tools, self.core.terms),
            role="executor" if manages else "worker",
            tree=tree,
        )

    async def _files_so_far(self) -> str | None:
        """The files that workers begin with; None for a run that does not write."""
        if self.core.base_tree is None:
            return None
        stored = await self.snapshot()
        return stored.tree.hash if stored is not None else self.core.tree or self.core.base_tree
