"""The state of a `DelegationLoop`: the course of its decisions, and what travels with them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from perdure.domain.agent.turn import Ending
from perdure.domain.base import Frozen
from perdure.domain.budget import Spent
from perdure.domain.delegation.course import Course
from perdure.domain.delegation.decisions import ManagerDecision
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.skills import SkillShelf
from perdure.domain.delegation.tools.toolbox import Toolbox, WantedTool
from perdure.domain.evaluation import Evaluation
from perdure.domain.refs import Ref
from perdure.domain.result import IterationRecord
from perdure.domain.run import DelegationSpec, LoopInput
from perdure.domain.state import CoreState

Stage = Literal["manage", "obey", "ask", "rate"]


class Kept(Frozen):
    """Something that can be handed over: an answer, the files as they were then, and its score.

    `confidence` is the manager's own. `complete`: it called this the final result, and all gates
    let it pass. `evaluation` is
    what the rubric said of it.
    """

    iteration: int
    output: Ref | None = None
    tree: str | None = None
    score: float | None = None
    confidence: float | None = None
    complete: bool = False
    evaluation: Evaluation | None = None


class Turnover(BaseModel):
    """The iteration in progress.

    `results` are those of its workers, whole; `similarity` is how alike their output is to the one
    that the rules compare it with; `ending` is why the run ends with it, `began` what was spent
    before it. `rated` is what the rubric looked at, `evaluation` and `score` what it said,
    `unrated` why it could not.
    """

    model_config = ConfigDict(extra="forbid")

    decision: ManagerDecision | None = None
    final: Ref | None = None
    reports: list[WorkerReport] = []
    output: Ref | None = None
    results: Ref | None = None
    similarity: float | None = None
    confidence: float | None = None
    tree: str | None = None
    rated: Ref | None = None
    evaluation: Evaluation | None = None
    score: float | None = None
    unrated: str | None = None
    ending: Ending | None = None
    began: Spent = Spent()
    record: IterationRecord | None = None

    @property
    def made(self) -> Ref | None:
        """What its workers made, to be handed over."""
        return self.results or self.output


class DelegationState(CoreState):
    """State of a `DelegationLoop`.

    `recalled` is what earlier runs learned, for the manager to read.
    `inputs` are the task's named inputs as they are passed on; `shelf` holds the procedures that
    workers can be given; `toolbox` the made tools, `wanted` those to be made. `kept` is the best
    work of an iteration, `claimed` the newest that a manager called complete, `rated` the one of
    these that the rubric scored best. `question` waits for a person; `verdict` says in a sentence
    how the run ends; `judged_tokens` are those of the rubric's judges.
    """

    stage: Stage = "manage"
    turnover: Turnover = Turnover()
    course: Course = Course()
    inputs: dict[str, JsonValue] = {}
    shown: dict[str, str] = {}
    recalled: Ref | None = None
    shelf: SkillShelf = SkillShelf()
    toolbox: Toolbox = Toolbox()
    wanted: list[WantedTool] = []
    kept: Kept | None = None
    claimed: Kept | None = None
    rated: Kept | None = None
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
