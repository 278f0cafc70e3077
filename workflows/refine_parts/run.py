"""The state of a refine run: its current rubric, its drafts, and what may be amended."""

from pydantic import JsonValue, ValidationError
from temporalio import workflow

from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.rubric import Rubric, WorkerRequirements, needs_of, unknown_checks
from perdure.domain.foundation.problems import problems_of
from perdure.domain.refine.planning import plan_lines
from perdure.domain.refine.resume import between_iterations, first_state
from perdure.domain.refine.spec import RefineSettings, RefineSpec, settings_problems
from perdure.domain.refine.state import RefineFrame, RefineInput, RefineState
from perdure.domain.run.activity_messages import OpenWorkspaceReport
from perdure.domain.run.messages import Amend, AnyMessage
from perdure.domain.run.resume import as_stored
from perdure.domain.scoring.combine import part_states
from perdure.domain.turns.guidance import demands_hash, in_force
from perdure.domain.turns.settings import Turns, resolve
from perdure.workflows.engine.policies import Requirements
from perdure.workflows.engine.run import Run

# Patch: a termination tree ended a run before the limit that was counted with, so drafts were
# planned for and written beyond the tree's, and its last one kept tokens back.
COUNTS_WITH_THE_TREE = "iterations are counted with the termination tree"

# Patch: a draft was measured against scores by another goal, or from before something was said.
SCORED_BY_DEMANDS = "scores go by the goal and the guidance in force"


def permitted_iterations(settings: RefineSettings) -> int:
    """The iterations after which the run ends whatever the scores are."""
    planned, hard = settings.planned_limit, settings.hard_limit
    return planned if planned == hard or workflow.patched(COUNTS_WITH_THE_TREE) else hard


class RefineRun(Run[RefineSpec, RefineState]):
    """A goal and a rubric, with the drafts so far."""

    def __init__(self, given: RefineInput) -> None:
        fresh = first_state(given.spec, at=workflow.now())
        super().__init__(given, kind="refine", spec=given.spec, state=given.state, fresh=fresh)
        self.turns: Turns = resolve(given.spec.agent)

    @property
    def rubric(self) -> Rubric:
        """The current rubric: fixed at the start, replaced only by a person's `amend`."""
        return self.state.rubric or self.spec.rubric

    @property
    def demands(self) -> str:
        """Names the goal and the guidance that judges go by now; empty if that is not known."""
        control = self.state.control
        # The frame, which judges read, has a goal that waits only after the next step.
        if control.goal is not None or not workflow.patched(SCORED_BY_DEMANDS):
            return ""
        return demands_hash(self.spec.goal, in_force(control.standing))

    @property
    def iteration(self) -> int:
        return self.state.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The largest number of iterations."""
        return self.spec.refine.planned_limit

    def parts(self) -> tuple[tuple[str, bool, str], ...]:
        """The parts (or dimensions) of the best output, and what each still lacks."""
        kept = self.state.kept
        return part_states(self.rubric, kept.evaluation if kept else None)

    def plan_lines(self) -> tuple[str, ...]:
        """The plan, its fix steps for the open findings last."""
        return plan_lines(self.state.plan)

    def frame_part(self, rubric: Rubric) -> dict[str, JsonValue]:
        """This loop's own part of its frame."""
        frame = RefineFrame(rubric=rubric, output=self.spec.refine.output)
        return frame.model_dump(mode="json", by_alias=True)

    def iteration_state(self) -> dict[str, JsonValue]:
        """The state after the iteration before the one in progress."""
        return as_stored(between_iterations(self.state))

    def last_state(self) -> dict[str, JsonValue]:
        """The state after the last iteration."""
        return as_stored(between_iterations(self.state, ended=True))

    def message_refusal(self, message: AnyMessage) -> str | None:
        """Refuse an unusable rubric now, while its sender still waits for the answer."""
        if not isinstance(message, Amend) or message.rubric is None:
            return None
        try:
            rubric = Rubric.model_validate(message.rubric)
        except ValidationError as error:
            return "; ".join(str(one) for one in problems_of(error, message.rubric))[:500]
        # Interfaces compile patterns and schemas before they send the rubric: those libraries must
        # not be loaded in a workflow.
        unknown = [name for name in rubric.judges if name and name not in self.state.cards]
        if unknown:
            return f"judge.model: {', '.join(unknown)} is none of the models of this run"
        known = {*self.state.plugin_checks, *needs_of(self.rubric).checks.values()}
        problems = (*settings_problems(self.spec.refine, rubric), *unknown_checks(rubric, known))
        return "; ".join(str(problem) for problem in problems)[:500] or None

    def edit(self, message: Amend) -> None:
        """Prompts come from the frame, which takes a new goal before the next step."""
        super().edit(message)
        if message.goal is not None:
            self.state.control.goal = message.goal


class RefineRequirements(Requirements):
    """The requirements of the rubric."""

    def __init__(self, run: RefineRun) -> None:
        self.run = run

    def needs(self) -> WorkerRequirements:
        """The programs and plugins that the rubric asks for."""
        return needs_of(self.run.rubric)

    def judges(self) -> tuple[str, ...]:
        """The models that the rubric names as judges."""
        return tuple(name for name in self.run.rubric.judges if name is not None)

    def note_workspace(self, report: OpenWorkspaceReport) -> None:
        """Remember the checks of the worker, for a rubric that a person amends."""
        self.run.state.plugin_checks = report.checks


class RefineScoring:
    """How drafts are scored, by the settings of the task."""

    share_setting = "refine.evaluator_share"

    def __init__(self, run: RefineRun) -> None:
        self.run = run

    @property
    def evaluator_share(self) -> float:
        """How much of the token budget the judges may use."""
        return self.run.spec.refine.evaluator_share

    @property
    def judge_settings(self) -> JudgeSettings:
        """How the task wants its judges to be asked."""
        return self.run.spec.refine.judge

    @property
    def pass_score(self) -> float | None:
        """The score from which on an output is good enough."""
        return self.run.spec.refine.quality_threshold
