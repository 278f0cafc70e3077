"""The state of a delegation run: decisions so far, its tree of runs, its budget phase."""

from pydantic import JsonValue
from temporalio import workflow

from perdure.domain.delegation.decisions import Delegate, ManagerDecision
from perdure.domain.delegation.next_step import BudgetPhase, budget_phase
from perdure.domain.delegation.plan import TaskPlan, given_up, plan_view, with_plan_ids
from perdure.domain.delegation.repeated_work import Surroundings
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import (
    DelegationInput,
    DelegationState,
    between_decisions,
    first_state,
)
from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.outcomes import RunEnd
from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.run.activity_messages import ShelveReport
from perdure.domain.run.messages import Amend
from perdure.domain.run.resume import as_stored
from perdure.domain.run.state import control_from_above
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.turn import Ending
from perdure.domain.worker_requirements import worker_requirements
from perdure.workflows.engine.policies import Requirements
from perdure.workflows.engine.run import Run

# Patch: poor work on a subtask that was given up held back every later completion.
GIVEN_UP_IS_NO_SCORE = "what a new plan gives up is not reviewed any more"
# Patch: work on a subtask whose id was written otherwise counted for none, and nobody was told.
BY_PLAN = "subtasks are known by their ids however they are written"


class DelegationRun(Run[DelegationSpec, DelegationState]):
    """A run of a manager, with its decisions and the work of the runs below it."""

    def __init__(self, given: DelegationInput) -> None:
        fresh = first_state(given.spec, at=workflow.now())
        # What people told the runs above before this one began holds here too.
        fresh.control = control_from_above(given.site.said)
        super().__init__(given, kind="delegation", spec=given.spec, state=given.state, fresh=fresh)

    @property
    def iteration(self) -> int:
        """The number of decisions, including the one in progress."""
        return self.state.course.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The largest number of decisions."""
        return self.spec.delegation.max_iterations

    @property
    def in_counted_iteration(self) -> bool:
        """Whether a decision is being made or carried out."""
        return self.state.turnover.record is not None

    def plan_lines(self) -> tuple[str, ...]:
        """The task plan, with the status of each subtask."""
        return plan_view(self.state.course.plan)

    def iteration_state(self) -> dict[str, JsonValue]:
        """The state after the newest finished iteration."""
        return as_stored(between_decisions(self.state))

    def last_state(self) -> dict[str, JsonValue]:
        """The state after the last iteration."""
        return as_stored(between_decisions(self.state, ended=True))

    def edit(self, message: Amend) -> None:
        """Apply an amendment: the manager is asked with a new goal; the frame takes it later."""
        super().edit(message)
        if message.goal is not None:
            self.state.control.goal = message.goal

    @property
    def budget_phase(self) -> BudgetPhase:
        """The phase of the budget, which decides what the manager may still do."""
        # The scarcest dimension counts, time included: the phase changes before any limit is hit.
        left = self.state.budget.fraction_remaining(wall_time=self.wall_time)
        return budget_phase(left)

    @property
    def has_room(self) -> bool:
        """Whether the manager may have a further iteration."""
        permitted = self.spec.delegation.max_iterations
        return self.budget_phase != "reserve" and self.iteration < permitted

    @property
    def unheard(self) -> bool:
        """Whether people said something that the manager has not read but could still act on."""
        return bool(self.state.control.inputs) and self.has_room

    @property
    def sub_managers_left(self) -> int:
        """How many sub-managers this run and all below it may still have."""
        return self.spec.delegation.submanagers.per_run - self.state.budget.spent.sub_managers

    @property
    def surroundings(self) -> Surroundings:
        """What workers that start now are shown beside their own work."""
        state = self.state
        return Surroundings(
            said=tuple(in_force(state.control.standing)),
            tools=state.toolbox.pinned,
            skills=state.shelf,
            inputs=state.inputs,
            pitfalls=state.course.reviews.recurring,
        )

    def inform(self, *notes: str) -> None:
        """Tell the manager something in its next prompt."""
        self.state.course = self.state.course.with_notes(*notes)

    def needs_subtask_matching(self, decision: ManagerDecision) -> bool:
        """Whether a decision names subtasks otherwise than the plan does, and that is seen to."""
        if not isinstance(decision, Delegate):
            return False
        given = decision.delegations
        return with_plan_ids(given, self.state.course.plan) != (given, ()) and workflow.patched(
            BY_PLAN
        )

    def drop_given_up(self, before: TaskPlan) -> None:
        """Drop reviews of subtasks that a new plan has no longer: nobody can improve on them."""
        course = self.state.course
        reviews = course.reviews.without(given_up(before, course.plan))
        if reviews != course.reviews and workflow.patched(GIVEN_UP_IS_NO_SCORE):
            self.state.course = course.model_copy(update={"reviews": reviews})

    def take_inputs(self, report: ShelveReport) -> None:
        """Take inputs that were put by, and tell the manager of those that are lost."""
        # A fork begins with the state of another run: inputs that people added there stay.
        self.state.inputs = {**self.state.inputs, **report.values}
        self.state.shown = {**self.state.shown, **report.shown}
        for why in report.lost.values():
            self.inform(f"A text that people added could not be read: {why}")

    def end_by(self, verdict: RunEnd) -> Ending:
        """Turn the rules' verdict into an ending, and keep its sentence for the result."""
        self.state.verdict = verdict.explanation
        return Ending(outcome=verdict.outcome, reason=verdict.reason)


class DelegationRequirements(Requirements):
    """What the rubric and the smoke test need of the worker."""

    def __init__(self, run: DelegationRun) -> None:
        self.run = run

    def needs(self) -> WorkerRequirements:
        """The programs and plugins that the rubric asks for, and the smoke test."""
        return worker_requirements(self.run.spec)

    def judges(self) -> tuple[str, ...]:
        """The models that the rubric names as judges."""
        named = self.run.spec.rubric.judges if self.run.spec.rubric else {}
        return tuple(name for name in named if name is not None)


class DeliverableScoring:
    """The task's settings for scoring deliverables."""

    share_setting = "delegation.evaluator_share"

    def __init__(self, run: DelegationRun) -> None:
        self.run = run

    @property
    def evaluator_share(self) -> float:
        """How much of the token budget the judges may use."""
        return self.run.spec.delegation.evaluator_share

    @property
    def pass_score(self) -> float | None:
        """The score from which on a deliverable is good enough."""
        return self.run.spec.delegation.evaluation.accept

    @property
    def judge_settings(self) -> JudgeSettings:
        """How the task wants its judges to be asked."""
        return self.run.spec.delegation.judge
