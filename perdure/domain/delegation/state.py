"""The state of a `DelegationLoop`: the course of its decisions, and what travels with them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from perdure.domain.budget.accounting import Budget, Spend
from perdure.domain.delegation.decisions import ManagerDecision
from perdure.domain.delegation.progress import ManagerProgress
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.skills import SkillCatalog
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.scores import Evaluation
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.generated_tools.tool_registry import Toolbox, WantedTool
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import fork_of, slim
from perdure.domain.run.spec import LoopInput
from perdure.domain.run.state import LoopState
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending

Stage = Literal["manage", "obey", "ask", "rate", "end"]


class BestResult(FrozenModel):
    """Something that can be handed over: an answer, the files as they were then, and its score.

    `confidence` is the manager's own. `complete`: it called this the final result, and all checks
    let it pass. `evaluation` is
    what the rubric said of it.
    """

    iteration: int
    output: BlobRef | None = None
    tree: str | None = None
    score: float | None = None
    confidence: float | None = None
    complete: bool = False
    evaluation: Evaluation | None = None


class CurrentIteration(BaseModel):
    """The iteration in progress.

    `transcript` is what the manager was shown and said; `results` are those of its workers, whole;
    `similarity` is how alike their output is to the one that the rules compare it with; `ending` is
    why the run ends with it, `began` what was spent before it. `rated` is what the rubric looked
    at, `evaluation` and `score` what it said, `unrated` why it could not.
    """

    model_config = ConfigDict(extra="forbid")

    decision: ManagerDecision | None = None
    transcript: str | None = None
    final: BlobRef | None = None
    reports: list[WorkerReport] = []
    output: BlobRef | None = None
    results: BlobRef | None = None
    similarity: float | None = None
    confidence: float | None = None
    tree: str | None = None
    rated: BlobRef | None = None
    evaluation: Evaluation | None = None
    score: float | None = None
    unrated: str | None = None
    ending: Ending | None = None
    began: Spend = Spend()
    record: IterationRecord | None = None

    @property
    def made(self) -> BlobRef | None:
        """What its workers made, to be handed over."""
        return self.results or self.output


class DelegationState(LoopState):
    """State of a `DelegationLoop`.

    `recalled` is what earlier runs learned, for the manager to read.
    `inputs` are the task's named inputs as they are passed on; `shelf` holds the procedures that
    workers can be given; `toolbox` the made tools, `wanted` those to be made. `kept` is the best
    work of an iteration, `claimed` the newest that a manager called complete, `rated` the one of
    these that the rubric scored best. `question` waits for a person; `verdict` says in a sentence
    how the run ends; `judged_tokens` are those of the rubric's judges.
    """

    stage: Stage = "manage"
    turnover: CurrentIteration = CurrentIteration()
    course: ManagerProgress = ManagerProgress()
    inputs: dict[str, JsonValue] = {}
    shown: dict[str, str] = {}
    recalled: BlobRef | None = None
    shelf: SkillCatalog = SkillCatalog()
    toolbox: Toolbox = Toolbox()
    wanted: list[WantedTool] = []
    kept: BestResult | None = None
    claimed: BestResult | None = None
    rated: BestResult | None = None
    judged_tokens: int = 0
    verdict: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    unwritten: list[IterationRecord] = []
    tools_used: dict[str, int] = {}
    tools_created: list[str] = []
    artifacts: list[str] = []


class DelegationInput(LoopInput):
    """Input of `DelegationLoop`."""

    spec: DelegationSpec
    state: DelegationState | None = None


def first_state(spec: DelegationSpec, *, at: datetime) -> DelegationState:
    """The state that a delegation run starts in, with the tools that its task grants."""
    return DelegationState(
        started_at=at,
        budget=Budget(limits=spec.budget),
        toolbox=Toolbox.given(spec.tools.generated),
    )


def between_decisions(state: DelegationState, *, ended: bool = False) -> DelegationState:
    """The state after the newest finished iteration; at the `ended` with what people asked."""
    kept, course = slim(state, whole_control=ended), state.course
    if state.turnover.record is not None and not ended:
        # The next one has begun, and is done again by whoever goes on from here.
        course = course.model_copy(update={"iteration": course.iteration - 1})
        budget = kept.budget.model_copy(update={"spent": state.turnover.began})
        kept = kept.model_copy(update={"budget": budget})
    return kept.model_copy(
        update={
            "stage": "manage",
            "turnover": CurrentIteration(),
            "course": course,
            # Records that are unwritten now are stored together with this state.
            "unwritten": [],
            "children": [],
        }
    )


def cleared(state: DelegationState) -> DelegationState:
    """A failed state that may go on: unreadable replies are forgiven, and no end is decided."""
    course = state.course.model_copy(update={"unreadable": 0, "unrated": 0})
    # Without `verdict`, since its sentence about this end would explain the next one as well.
    return state.model_copy(update={"course": course, "verdict": "", "claimed": None})


def delegation_fork(
    state: DelegationState,
    spec: DelegationSpec,
    *,
    before: DelegationSpec,
    now: datetime,
    origin: Origin,
) -> DelegationState:
    """The first state of a new run that goes on from another's; its children are its own."""
    say = None if spec.goal == before.goal else f"The task is now: {spec.goal}"
    forked = fork_of(cleared(state), now=now, limits=spec.budget, origin=origin, say=say)
    fresh = {
        # A score under another rubric says nothing under this one.
        "rated": state.rated if spec.rubric == before.rubric else None,
        "judged_tokens": 0,
        # Tools that the other run made are not granted to this one: its workers would not open.
        "toolbox": Toolbox.given(spec.tools.generated),
        "tools_created": [],
    }
    return forked.model_copy(update=fresh)
