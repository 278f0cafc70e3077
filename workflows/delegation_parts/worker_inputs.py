"""What a manager's workers are started with: task, tools, files, and budget."""

from perdure.domain.agent.state import AgentInput
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.delegation.decisions import Envelope, inherited, inputs_written
from perdure.domain.delegation.messages import Assignment
from perdure.domain.delegation.plan import acceptance_of
from perdure.domain.delegation.skills import resolve
from perdure.domain.delegation.state import DelegationInput
from perdure.domain.delegation.worker_specs import manager_spec, tools_for, worker_spec, writes
from perdure.domain.run.spec import LoopInput, Placement
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.child_runs import ChildSpec
from perdure.workflows.engine.engine import Engine


class WorkerInputs:
    """Turns a manager's envelopes into child runs."""

    def __init__(self, run: DelegationRun, engine: Engine) -> None:
        self.run = run
        self.snapshots = engine.snapshots

    def free_places(self) -> int:
        """How many sub-managers may start now, by depth, at once, and in the whole tree."""
        settings = self.run.spec.delegation.submanagers
        if self.run.state.budget.limits.depth < 1:
            return 0
        return max(0, min(settings.at_once, self.run.sub_managers_left))

    def assignment(self, envelope: Envelope) -> Assignment:
        """What goes into a worker's briefing."""
        state = self.run.state
        found = resolve(envelope.skills, state.shelf)
        self.run.inform(found.note)
        return Assignment(
            envelope=envelope,
            acceptance=acceptance_of(envelope, state.course.plan),
            inherited=inherited(envelope, state.inputs),
            skills=dict(found.known),
            written=found.written,
            pitfalls=self.run.state.course.reviews.recurring,
        )

    def order_of(
        self,
        given: Assignment,
        *,
        briefing: str,
        share: float | None,
        tree: str | None,
        sub_managers: int | None,
    ) -> ChildSpec:
        """The child run for an assignment; with `sub_managers` it is a manager itself."""
        envelope, spec = given.envelope, self.run.spec
        tools, unknown = tools_for(
            envelope, spec, self.run.state.terms, self.run.state.toolbox.pinned
        )
        if unknown:
            names = ", ".join(unknown)
            self.run.state.course = self.run.state.course.with_notes(
                f"No tool is named {names}; none was given."
            )
        manages = sub_managers is not None

        def make(run: str, site: Placement, limits: BudgetLimits) -> LoopInput:
            if sub_managers is not None:
                below = manager_spec(
                    envelope,
                    spec,
                    tools=tools,
                    limits=limits,
                    inputs={**given.inherited, **inputs_written(envelope)},
                    sub_managers=sub_managers,
                    acceptance=given.acceptance,
                    skills=tuple(given.skills),
                    written=given.written,
                )
                # A managed run asks its manager instead of people: see `ASKED_ABOVE`.
                managed = site.model_copy(update={"managed": True})
                return DelegationInput(run=run, site=managed, spec=below)
            site = site.model_copy(update={"briefing": briefing})
            worker = worker_spec(
                envelope, spec, tools=tools, limits=limits, handed_on=given.inherited
            )
            return AgentInput(run=run, site=site, spec=worker)

        default = spec.delegation.submanagers.fraction if manages else None
        return ChildSpec(
            name=envelope.worker,
            kind="delegation" if manages else "agent",
            goal=envelope.instructions,
            make=make,
            spawns=manages,
            fraction=default if share is None else share,
            writable=tree is not None and writes(tools, self.run.state.terms),
            role="executor" if manages else "worker",
            tree=tree,
        )

    async def take_base_snapshot(self) -> str | None:
        """The tree that workers begin with; None if the run does not write."""
        if self.run.state.base_tree is None:
            return None
        stored = await self.snapshots.take()
        return (
            stored.tree.hash
            if stored is not None
            else self.run.state.tree or self.run.state.base_tree
        )
