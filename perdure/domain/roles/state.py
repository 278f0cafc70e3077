"""The state of a `RoleLoop`: its position, and what it remembers of stages and verdicts."""

from datetime import datetime
from decimal import Decimal
from typing import Literal, Self

from perdure.domain.budget.accounting import Spend
from perdure.domain.evaluation.scores import Finding
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.spec import LoopInput
from perdure.domain.run.state import LoopState
from perdure.domain.turns.entries import StageShown
from perdure.domain.turns.records import StageRecord, VerdictRecord
from perdure.domain.turns.tool_call_rules import ToolPolicy
from perdure.domain.turns.turn import Ending, TurnState

# Where the loop stands between two steps: at a stage, at the review after the last one, at the
# decision, or before the question that a decision asks.
Doing = Literal["stage", "review", "decide", "ask"]
VerdictWord = Literal["approved", "rejected", "unclear"]

PAST_KEPT = 40
SEEN_KEPT = 300


class StageBinding(FrozenModel):
    """A stage that was opened: its frame, what that adds to each prompt, and its tools by name."""

    frame: str
    system_tokens: int = 0
    task_tokens: int = 0
    tools: tuple[str, ...] = ()


class StageQuestion(FrozenModel):
    """What a stage asks before it can go on; `kind` says how it put it."""

    kind: Literal["blocked", "needs_context"]
    text: str


class Review(FrozenModel):
    """The verdict of a gate stage; `topics` tell whether the next one names the same defects.

    `open` counts the findings that stand in the way; `listed` says whether it had any by name.
    """

    word: VerdictWord
    rationale: str = ""
    findings: tuple[Finding, ...] = ()
    topics: tuple[str, ...] = ()
    open: int = 0
    listed: bool = False
    asked_again: bool = False


class StageDone(FrozenModel):
    """A stage of the iteration in progress that is over; `head` is its conversation.

    `canonical` is known where outputs are compared.
    """

    record: StageRecord
    ref: BlobRef | None = None
    head: TranscriptRef | None = None
    canonical: str | None = None


class KeptIteration(FrozenModel):
    """The best iteration so far: what it made, and how the review saw it."""

    iteration: int
    output: BlobRef | None = None
    tree: str | None = None
    approved: bool = False
    open: int | None = None
    partial: bool = False


class RoleState(LoopState):
    """State of a `RoleLoop`.

    `terms` are those of the stage in progress, `all_terms` those of all. `completed` iterations
    count against the limit, `granted` ones a person gave on top. `begun`: an iteration is in
    progress. `urged` is how often the stage in progress was told to decide by itself. `seen` are
    the outputs of the iterations so far, where the condition compares them. `goal_reason` is why
    the goal judge said no after the last one.
    """

    iteration: int = 0
    doing: Doing = "stage"
    stage: int = 0
    attempt: int = 1
    turn: TurnState = TurnState()
    turning: bool = False
    seats: dict[str, StageBinding] = {}
    all_terms: list[ToolPolicy] = []
    done: list[StageDone] = []
    past: list[StageShown] = []
    past_count: int = 0
    begun: bool = False
    began: Spend = Spend()
    began_at: datetime | None = None
    notes: list[str] = []
    answer: str | None = None
    urged: int = 0
    question: StageQuestion | None = None
    spent_by_stage: dict[str, int] = {}
    paid_by_stage: dict[str, Decimal] = {}
    tools_used: dict[str, int] = {}
    numbers: dict[str, float] = {}
    review: Review | None = None
    last_review: Review | None = None
    reviewed_text: str | None = None
    achieved: bool | None = None
    goal_reason: str = ""
    verdicts: list[VerdictRecord] = []
    verdict_counts: dict[str, int] = {}
    rejections: int = 0
    topics: tuple[str, ...] = ()
    completed: int = 0
    granted: int = 0
    failure: str | None = None
    cut: Ending | None = None
    why_asked: str = ""
    reviewing: bool = False
    kept: KeptIteration | None = None
    child: str | None = None
    seen: tuple[str, ...] = ()
    repeated: bool = False

    def carried(self) -> Self:
        """As of every loop, with the newest of the outputs that later ones are compared with."""
        return super().carried().model_copy(update={"seen": self.seen[-SEEN_KEPT:]})


class RoleInput(LoopInput):
    """Input of `RoleLoop`; the definition as it stood at the start lies in the specification."""

    spec: RolesSpec
    state: RoleState | None = None
