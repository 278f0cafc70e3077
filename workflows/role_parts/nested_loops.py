"""Stages that are loops themselves: child runs, limited in depth and budget.

The run does not continue as new while such a child is open.
"""

from collections.abc import Callable

from pydantic import ValidationError
from temporalio import workflow

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.delegation.state import DelegationInput
from perdure.domain.foundation.names import LoopKind
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.roles.definition import RoleDefinition
from perdure.domain.roles.nested_loops import (
    nested_delegation,
    nested_spec,
    record_of_child,
    status_of_child,
    tree_of,
    with_limits,
)
from perdure.domain.roles.state import RoleInput
from perdure.domain.run.spec import CommonSpec, LoopInput, Placement
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending, TurnState
from perdure.workflows.engine.child_runs import ChildOutcome, ChildRuns, ChildSpec, NotStarted
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.role_parts.run import RoleRun
from perdure.workflows.role_parts.stages import BASE, Stages

# Patch: a run whose budget was spent before a stage that runs a loop ended as failed.
SPENT_IS_NO_FAILURE = "a loop for which the budget is spent fails no stage"
WHY_CHARACTERS = 300
NO_DEFINITION = "its loop has no definition here, so it cannot be run as a stage"


class NestedLoops:
    """Runs a stage: its turns, or its child run."""

    def __init__(self, run: RoleRun, engine: Engine, stages: Stages) -> None:
        self.run = run
        self.setup = engine.setup
        self.limits = engine.limits
        self.children = ChildRuns(engine)
        self.stages = stages

    async def run_stage(self) -> None:
        if self.run.role.loop is None:
            await self.stages.run_stage()
        else:
            await self._run_nested(self.run.role)

    async def _run_nested(self, role: RoleDefinition) -> None:
        state = self.run.state
        self.stages.bind_stage(BASE)
        # Guidance that stands reaches the child by itself; this is what was said only once.
        holds = in_force(state.control.standing)
        state.notes = [t for t in (*state.notes, *state.control.guidance) if t not in holds]
        state.control.guidance = []
        state.turn = TurnState(
            unwritten=state.turn.unwritten, record=IterationRecord(index=state.iteration)
        )
        self.stages.note_stage(role)
        try:
            order = self._order(role)
        except ValidationError as error:
            # Raised here, it would only fail the same workflow task again and again.
            why = clipped_line(f"its loop could not be started: {error}", WHY_CHARACTERS)
            await self.stages.end_stage(role, "failed", error=why)
            return
        if order is None:
            await self.stages.end_stage(role, "failed", error=NO_DEFINITION)
            return
        # The child got these with its goal; left here, the next stage would hear them a second
        # time.
        told, state.control.inputs = state.control.inputs, []
        (end,) = await self.children.run_children([order])
        if isinstance(end, NotStarted):
            # Nobody got them.
            state.control.inputs = [*told, *state.control.inputs]
            await self._unstarted(role, end)
            return
        state.turn.record = record_of_child(state.iteration, end.spend)
        await self._take_child(role, end)

    async def _unstarted(self, role: RoleDefinition, end: NotStarted) -> None:
        """End the run where its budget or time is spent; otherwise the stage has failed.

        If a person raises the budget, the stage begins once more.
        """
        state, ending = self.run.state, self.run.ending()
        spent = end.spent if ending is None else None
        if spent is not None and workflow.patched(SPENT_IS_NO_FAILURE):
            if await self.limits.ask_for_budget(spent):
                return
            out = Ending(outcome="out_of_budget", reason=spent.dimension, detail=spent.text)
            ending = self.run.ending() or out
        state.cut = state.cut or ending
        await self.stages.end_stage(role, "cut" if ending else "failed", error=end.why)

    def _order(self, role: RoleDefinition) -> ChildSpec | None:
        """The child to start; None if the snapshot has no definition of its loop."""
        if role.loop is not None and role.loop.kind == "delegation":
            managed = nested_delegation(self.run.spec, role, state=self.run.state)

            def manager(run: str, site: Placement, limits: BudgetLimits) -> LoopInput:
                return DelegationInput(run=run, site=site, spec=with_limits(managed, limits))

            return self._ordered(role, managed, manager, kind="delegation")
        snapshot = self.run.snapshot.nested.get(role.name)
        if snapshot is None:
            return None
        team = nested_spec(self.run.spec, role, snapshot, state=self.run.state)

        def made(run: str, site: Placement, limits: BudgetLimits) -> LoopInput:
            return RoleInput(run=run, site=site, spec=with_limits(team, limits))

        return self._ordered(role, team, made, kind="roles")

    def _ordered(
        self,
        role: RoleDefinition,
        spec: CommonSpec,
        make: Callable[[str, Placement, BudgetLimits], LoopInput],
        *,
        kind: LoopKind,
    ) -> ChildSpec:
        return ChildSpec(
            name=role.name,
            kind=kind,
            goal=spec.goal,
            make=make,
            spawns=True,
            fraction=role.budget,
            # On a copy of the files: a run is the only writer of its working folder.
            writable=spec.tools.access == "full",
            tree=self.run.state.tree or self.run.state.base_tree,
        )

    async def _take_child(self, role: RoleDefinition, end: ChildOutcome) -> None:
        """Take the child's text as the stage's output, and its files as the run's."""
        state, result = self.run.state, end.result
        status = status_of_child(result, stopping=self.run.ending() is not None)
        if status != "completed" or result is None or result.output_ref is None:
            state.cut = state.cut or self.run.ending()
            why = result.explanation if result else end.error
            await self.stages.end_stage(role, status, error=why, child=end.run)
            return
        read = await self.stages.read_stage(role, BlobRef(hash=result.output_ref), measure=True)
        tree = tree_of(result)
        if tree is not None and state.base_tree is not None and not isinstance(read, StepFailed):
            state.tree = tree
            # The child worked in a copy of its own; the run's folder must have its files before the
            # next stage.
            restored = await self.setup.open_workspace()
            read = restored if isinstance(restored, StepFailed) else read
        if isinstance(read, StepFailed):
            await self.stages.end_stage(role, "failed", error=read.message, child=end.run)
            return
        state.review = read.review or state.review
        output = read.text or BlobRef(hash=result.output_ref)
        await self.stages.end_stage(role, "completed", output=output, read=read, child=end.run)
