"""The state of a run of roles: its definition, its stage in progress, its end condition."""

from pydantic import JsonValue
from temporalio import workflow

from perdure.domain.budget.accounting import MAX_ITERATIONS
from perdure.domain.evaluation.termination_conditions import Condition
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.definition import LoopDefinition, LoopSnapshot, RoleDefinition
from perdure.domain.roles.resume import between_iterations, first_state, last_state
from perdure.domain.roles.spec import RolesSpec, round_limit, with_rounds
from perdure.domain.roles.state import RoleInput, RoleState
from perdure.domain.run.messages import Amend
from perdure.domain.run.resume import as_stored
from perdure.domain.run.state import control_from_above
from perdure.domain.run.status import StageNow, StageResult
from perdure.domain.run.status_views import of_iteration, stage_results
from perdure.domain.turns.settings import Turns, resolve
from perdure.workflows.engine.run import Run

# Patch: the share of a stage left out cache reads in a run whose budget counts them.
SHARES_COUNT_READS = "the share of a stage counts cache reads as the budget does"


class RoleRun(Run[RolesSpec, RoleState]):
    """A run of a team of roles, with its iterations so far."""

    def __init__(self, given: RoleInput) -> None:
        if given.spec.roles.snapshot is None:
            raise InvalidInput("roles.definition: it was not resolved before the run started")
        fresh = first_state(given.spec, at=workflow.now())
        # What people told the runs above before this one began holds here too.
        fresh.control = control_from_above(given.site.said)
        super().__init__(given, kind="roles", spec=given.spec, state=given.state, fresh=fresh)
        self.turns: Turns = resolve(given.spec.agent)
        self.snapshot: LoopSnapshot = given.spec.roles.snapshot
        self.condition: Condition = self._with_rounds()

    @property
    def definition(self) -> LoopDefinition:
        """The definition as it was when the run started; later edits do not affect the run."""
        return self.snapshot.definition

    @property
    def role(self) -> RoleDefinition:
        """The stage in progress, or the next one."""
        return self.definition.roles[min(self.state.stage, len(self.definition.roles) - 1)]

    @property
    def reviewer(self) -> str | None:
        """The stage whose verdict counts; None if there is none."""
        return rules.reviewer(self.definition, self.condition)

    @property
    def iteration(self) -> int:
        return self.state.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The largest number of iterations, including those a person granted; None for no limit."""
        limit = self.round_limit
        return None if limit >= MAX_ITERATIONS else limit + self.state.granted

    @property
    def round_limit(self) -> int:
        """The largest number of iterations, without those that a person granted."""
        return round_limit(self.condition, self.spec.roles.max_iterations)

    @property
    def counts_cache_reads(self) -> bool:
        """Whether a stage's share counts tokens as the run's budget does."""
        return self.state.budget.limits.count_cache_reads and workflow.patched(SHARES_COUNT_READS)

    @property
    def mid_stage(self) -> bool:
        """Whether a stage is at work; one that waits for a person is not."""
        return self.state.turning and self.state.question is None

    def stage_now(self) -> StageNow | None:
        """The stage in progress, for people."""
        state = self.state
        if not state.begun or state.doing != "stage":
            return None
        of = len(self.definition.roles)
        return StageNow(
            index=min(state.stage + 1, of),
            of=of,
            name=self.role.name,
            role=self.role.role,
            attempt=state.attempt,
        )

    def stage_results(self) -> tuple[StageResult, ...]:
        """The newest finished stages, those of the iteration in progress too."""
        state = self.state
        done = [one.record for one in state.done]
        return stage_results(state.records, of_iteration(state.iteration, done, state.verdicts))

    def iteration_state(self) -> dict[str, JsonValue]:
        """The state after the iteration before the one in progress."""
        return as_stored(between_iterations(self.state))

    def last_state(self) -> dict[str, JsonValue]:
        """What the ended run can be taken up from."""
        return as_stored(last_state(self.state))

    def edit(self, message: Amend) -> None:
        """Apply an amendment: the new limit at once, a new goal from the next stage on."""
        super().edit(message)
        # Made of the specification, which the amendment has just replaced.
        self.condition = self._with_rounds()
        if message.goal is not None:
            self.state.control.goal = message.goal

    def _with_rounds(self) -> Condition:
        rounds = self.spec.roles.max_iterations
        return with_rounds(self.definition.termination_condition, rounds)
