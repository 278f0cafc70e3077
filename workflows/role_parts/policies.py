"""How a stage differs from a plain conversation: its models, its turns, its tools."""

from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.definition import RoleDefinition, required_by
from perdure.domain.roles.stage_bindings import (
    seat_tools,
    seated,
    stage_chain,
    stage_extra,
    stage_system,
)
from perdure.domain.roles.state import StageBinding
from perdure.domain.run.activity_messages import OpenWorkspaceReport, StageSetup, StageTools
from perdure.domain.turns.turn import Limits
from perdure.workflows.engine.policies import InnerTurns, ModelSelection, Requirements
from perdure.workflows.role_parts.run import RoleRun


class StageModels(ModelSelection[RoleRun]):
    """The models of the stage in progress; other roles use those of the task."""

    def chain(self, role: str) -> tuple[str, ...]:
        """The models of a role, replaced by the stage's while it works."""
        if self._is_staging(role):
            return stage_chain(self._working, super().chain("executor"))
        return super().chain(role)

    def chain_key(self, role: str) -> str:
        """A stage with its own models has a failover position of its own."""
        if not self._is_staging(role):
            return role
        return f"stage {self._working.name}" if self._working.models else "executor"

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """The models that stages bring."""
        roles = self.run.definition.roles
        return {f"stage {role.name}": role.models for role in roles if role.models}

    def _is_staging(self, role: str) -> bool:
        state = self.run.state
        at_work = state.turning or state.doing == "stage" or state.reviewing
        return at_work and role == self._working.role

    @property
    def _working(self) -> RoleDefinition:
        return self.run.definition.review_stage if self.run.state.reviewing else self.run.role


class StageTurns(InnerTurns):
    """Turns inside a stage: the role loop counts and records its own iterations."""

    def __init__(self, run: RoleRun, selection: StageModels) -> None:
        self.run = run
        self.selection = selection

    @property
    def stage_name(self) -> str:
        """The stage whose tools are called."""
        return self.run.role.name

    def offered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The tools on offer; none if the model cannot use tools."""
        model = self.selection.model_of(self.run.role.role)
        return names if self.run.state.cards[model].tools else ()

    def bounded(self, limits: Limits) -> Limits:
        """End the tool turns of a stage that has used its share of the tokens.

        Guidance that arrives during its closing text goes to the next stage: asked again, a
        reviewer would review twice.
        """
        used = rules.is_share_used(
            self.run.state, self.run.role, count_cache_reads=self.run.counts_cache_reads
        )
        return limits.model_copy(update={"share_used": used, "inputs_waiting": False})


class StageRequirements(Requirements):
    """What the definition needs of the worker, and a tool grant and frame for each stage."""

    def __init__(self, run: RoleRun) -> None:
        self.run = run

    def needs(self) -> WorkerRequirements:
        """The capabilities that the definition and its nested loops require."""
        return WorkerRequirements(capabilities=required_by(self.run.snapshot))

    def seats(self) -> dict[str, StageTools]:
        """What each stage may be offered."""
        return seat_tools(self.run.definition, self.run.spec.tools)

    def seat_orders(self, report: OpenWorkspaceReport) -> dict[str, StageSetup]:
        """A frame for each stage."""
        return {
            role.name: StageSetup(
                system=stage_system(role),
                grant=report.seats[role.name],
                extra=stage_extra(self.run.snapshot, role).model_dump(mode="json"),
            )
            for role in seated(self.run.definition)
        }

    def session_and_project(self) -> tuple[str, str]:
        """The session and project that were chosen when the run started."""
        return self.run.spec.roles.session or "", self.run.spec.roles.project or ""

    def note_workspace(self, report: OpenWorkspaceReport) -> None:
        """Remember the tools of each stage."""
        state = self.run.state
        state.all_terms = list(report.terms)
        state.seats = {
            name: StageBinding(frame="", tools=grant.allowed)
            for name, grant in report.seats.items()
        }
