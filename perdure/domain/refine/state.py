"""The state of a `RefineLoop`, and what its steps bring back."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from perdure.domain.budget.accounting import Spend
from perdure.domain.evaluation.checks import ActivityCheck, ActivityVerdict
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, EvaluationMode
from perdure.domain.evaluation.trajectory import Trajectory
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.outputs.diff import Changes, Lines, SeenOutputs
from perdure.domain.refine.planning import Plan
from perdure.domain.refine.spec import OutputSettings, RefineSpec
from perdure.domain.run.activity_messages import Frame
from perdure.domain.run.hooks import Adapted
from perdure.domain.run.spec import LoopInput
from perdure.domain.run.state import LoopState
from perdure.domain.turns.turn import Ending, TurnState

Stage = Literal["recall", "plan", "execute", "evaluate", "decide", "ask"]


class Draft(BaseModel):
    """The iteration in progress: what was written, and what is known of it so far.

    `pieces` are joined to the output; `replies` are new versions of its parts, by the part
    as text. `misfits` say how it misses the output schema; `heals`: the next draft may meet its
    failure healed. `cut` says which limit or person cut the iteration short; `began` is what was
    spent before it. `asked` are the dimensions that a judge scored, with a prompt of `judge_prompt`
    tokens; `cached`: it had scored this very output before, and `slips` are what was wrong with the
    form of its verdict. `reviewing` waits for a person's scores: all else is evaluated.
    `adapted` is what changes before the next iteration, `unadapted` why that is not known.
    `demands` names the goal and guidance that it is scored by.
    """

    model_config = ConfigDict(extra="forbid")

    pieces: list[BlobRef] = []
    # Numbers of lines too are texts: as keys of JSON they would come back as texts.
    replies: dict[str, str] = {}
    partial: bool = False
    truncated: bool = False
    misfits: tuple[str, ...] = ()
    output: BlobRef | None = None
    output_hash: str | None = None
    evaluation: Evaluation | None = None
    kind: EvaluationMode = "none"
    changes: Changes | None = None
    asked: tuple[str, ...] = ()
    cached: bool = False
    slips: tuple[str, ...] = ()
    judge_prompt: int = 0
    repeated: bool = False
    failure: str | None = None
    failure_reason: str = "model_error"
    overflow: bool = False
    heals: bool = False
    cut: Ending | None = None
    tree: str | None = None
    reviewing: bool = False
    began: Spend = Spend()
    sent: dict[str, int] = {}
    adapted: Adapted | None = None
    unadapted: str | None = None
    demands: str = ""


class BestDraft(FrozenModel):
    """An output with its evaluation: the best one, or the newest; `partial`: it was cut short.

    `truncated`: the model's output limit did that, and it could not be gone on with. `misfits`
    say how it misses the output schema.
    `changed` are the lines in which it differs from the one before it, `adaptation` the values that
    were in force, `demands` names the goal and guidance that it was scored by.
    """

    iteration: int
    output: BlobRef
    output_hash: str | None = None
    score: float | None = None
    evaluation: Evaluation | None = None
    tree: str | None = None
    partial: bool = False
    truncated: bool = False
    misfits: tuple[str, ...] = ()
    changed: tuple[Lines, ...] = ()
    adaptation: Adapted = {}
    demands: str = ""


class SavingsState(FrozenModel):
    """What a loop that resends everything would have sent, from this run's own sizes, in tokens.

    `first` is the prompt of the first draft, `history` all outputs and feedback since,
    `judgement` the newest judge's prompt for a whole output of `judged_output` tokens, `spared` the
    difference so far; `sent` and `naive` are the two sums of the newest iteration.
    """

    first: int = 0
    history: int = 0
    judgement: int = 0
    judged_output: int = 0
    spared: int = 0
    sent: int = 0
    naive: int = 0
    evaluations_skipped: int = 0
    judge_calls_saved: int = 0


class SingleAnswer(FrozenModel):
    """Why one execution settles the task without an evaluation."""

    kind: Literal["read_only", "deterministic"]
    why: str

    @property
    def evaluation(self) -> EvaluationMode:
        """How the iteration's record says that nothing was evaluated."""
        return "skipped_read_only" if self.kind == "read_only" else "skipped_deterministic"


class RecalledMemory(FrozenModel):
    """What earlier runs left for this one: blobs for prompts with their size, skills by name."""

    text: str | None = None
    skills_text: str | None = None
    tokens: int = 0
    skills: tuple[str, ...] = ()


# Stored states and histories of older versions lack newer fields, so each of those has a default.
class RefineState(LoopState):
    """State of a `RefineLoop`; `plugin_checks` are the names of its worker's own checks.

    `adaptation` holds the values in force, as the task began with them or its hook computed them.
    """

    iteration: int = 0
    stage: Stage = "execute"
    turn: TurnState = TurnState()
    turning: bool = False
    question: str = ""
    draft: Draft = Draft()
    trajectory: Trajectory = Trajectory()
    seen: SeenOutputs = SeenOutputs()
    kept: BestDraft | None = None
    newest: BestDraft | None = None
    failures_in_a_row: int = 0
    last_error: str | None = None
    tool_loop: Literal["none", "critical", "broken"] = "none"
    rubric: Rubric | None = None
    notes: list[str] = []
    economy: SavingsState = SavingsState()
    plan: Plan = Plan()
    answer_only: SingleAnswer | None = None
    recollection: RecalledMemory = RecalledMemory()
    plugin_checks: tuple[str, ...] = ()
    adaptation: Adapted = {}


class RefineInput(LoopInput):
    """Input of `RefineLoop`."""

    spec: RefineSpec
    state: RefineState | None = None


# Histories leave out what is a default here, in this message and those below: another default would
# change what they say.
class CheckRequest(ActivityMessage):
    """All deterministic checks of one output, as one activity.

    `pieces` are joined to the output (`stored`: it was scored before and is taken as it is); with
    `kept` and `replies` the output is the merge of new versions of parts into the kept one. An
    output with the hash `known` that equals `previous` is not checked again. `previous` is the
    output that a new one is compared with, and that passages it did not repeat are taken from;
    `evidence` names places in it, by dimension. The snapshot `tree` is part of the output. Checks
    that ask for it are given the `adaptation` in force.
    """

    frame: str
    pieces: tuple[str, ...] = ()
    stored: bool = False
    known: str | None = None
    kept: str | None = None
    kept_evaluation: Evaluation | None = None
    replies: dict[str, str] = {}
    previous: str | None = None
    evidence: dict[str, tuple[str, ...]] = {}
    tree: str | None = None
    adaptation: Adapted = {}


class CheckReport(ActivityMessage):
    """The output as it is scored, its canonical hash, and the scores of the checks.

    `changes` is how it differs from the output that it was compared with. `activities` are checks
    that the loop schedules now, as foreign activities; their dimensions have no score yet.
    """

    output: BlobRef
    output_hash: str | None = None
    dimensions: tuple[DimensionScore, ...] = ()
    changes: Changes | None = None
    seconds: float = 0.0
    activities: tuple[ActivityCheck, ...] = ()


class ReadVerdictsRequest(ActivityMessage):
    """Turn the results of foreign activities on an output into scores, by dimension."""

    frame: str
    output: str
    verdicts: dict[str, ActivityVerdict]


class ReadVerdictsReport(ActivityMessage):
    """Their scores."""

    dimensions: tuple[DimensionScore, ...] = ()


class VerifyRequest(ActivityMessage):
    """Commands, tests and linters on one snapshot, as one activity.

    Without a `tree` the working folder is read as it is: the run cannot write to it. `output` is
    the address of what the model wrote beside the files.
    """

    frame: str
    output: str | None = None
    tree: str | None = None
    active_time_s: float | None = None


class VerifyReport(ActivityMessage):
    """The scores; `interrupted` says why there are none."""

    dimensions: tuple[DimensionScore, ...] = ()
    interrupted: str | None = None
    seconds: float = 0.0


class ReframeRequest(ActivityMessage):
    """Write a run's frame anew, with what a person amended; what is None stays."""

    frame: str
    extra: dict[str, JsonValue] | None = None
    goal: str | None = None


class ReframeReport(ActivityMessage):
    """The new frame's address, and what the task adds to a prompt now."""

    frame: str
    task_tokens: int = 0


class RefineFrame(FrozenModel):
    """The `extra` of a frame of kind `refine`; the rubric is frozen by living here."""

    rubric: Rubric
    output: OutputSettings = OutputSettings()


def refine_frame(frame: Frame) -> RefineFrame:
    """Read the loop's own part of a frame."""
    return read_value(RefineFrame, frame.extra)
