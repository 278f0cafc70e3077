"""Requests to activities and reports from them: one request and one report per verb.

Content travels by reference; what is inline is short. Everything that is constant over a run lies
in its *frame*, one blob that each request names by hash.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from perdure.domain.admission import Needs
from perdure.domain.agent.calls import CallAsked, Tallies, ToolTerms
from perdure.domain.agent.settings import InitialMessage, ToolsSpec
from perdure.domain.allowance import Allowance as Allowance
from perdure.domain.base import Frozen, StepMessage
from perdure.domain.budget import Amounts
from perdure.domain.call_settings import CallSettings
from perdure.domain.commission import Commission
from perdure.domain.evaluation import DimensionScore, Evaluation, Finding
from perdure.domain.keeping_steps import FinishReport as FinishReport
from perdure.domain.keeping_steps import FinishRequest as FinishRequest
from perdure.domain.keeping_steps import ReconcileRequest as ReconcileRequest
from perdure.domain.keeping_steps import SnapshotReport as SnapshotReport
from perdure.domain.keeping_steps import SnapshotRequest as SnapshotRequest
from perdure.domain.model_errors import ModelFacts
from perdure.domain.models import ModelCard
from perdure.domain.notices import NotifyReport as NotifyReport
from perdure.domain.notices import NotifyRequest as NotifyRequest
from perdure.domain.notices import ReadyReport as ReadyReport
from perdure.domain.refs import Ref
from perdure.domain.result import IterationRecord
from perdure.domain.roles.entries import GoalEntry, StageEntry
from perdure.domain.roles.seat_steps import OpenedSeat, SeatOrder, SeatTools
from perdure.domain.rubric import Part
from perdure.domain.tools import Grant, ToolFact
from perdure.domain.transcript import Head, ToolOutcome
from perdure.domain.usage import Account
from perdure.domain.verdicts import CacheScope


class Frame(Frozen):
    """What stays the same over a run; stored as one blob, cached by workers.

    `inputs` are the named inputs of the task as text, `output_schema` is what its answer is to fit.
    `extra` holds what a loop kind adds, as JSON of that kind's own model.
    """

    run: str
    root: str
    kind: str
    goal: str
    inputs: dict[str, str] = {}
    system: str
    tools: tuple[ToolFact, ...]
    grant: Grant
    cards: dict[str, ModelCard]
    chains: dict[str, tuple[str, ...]]
    aliases: dict[str, str] = {}
    extra: dict[str, JsonValue] = {}
    temperature: float | None = None
    output_schema: dict[str, JsonValue] | None = None


class OpenWorkspaceRequest(StepMessage):
    """Make the run's working folder and pin its tools.

    `seats` are the stages of a run of roles, each with the tools that it may be offered.
    A run that is taken up again names the `tree` its files are restored to, and the `base` that its
    changes are counted from. What its rubric `needs` must be there. `session` and `project` are the
    ids of what it belongs to; its tools keep their notes there. `root` is the run at the top of its
    tree, told where tools that were made at run time are wanted. A run that `orchestrates` may
    start and steer loops.
    """

    run: str
    source: str | None
    tools: ToolsSpec
    tool_timeout_s: float | None = None
    tree: str | None = None
    base: str | None = None
    needs: Needs = Needs()
    session: str = ""
    project: str = ""
    root: str = ""
    seats: dict[str, SeatTools] = {}
    orchestrates: bool = False


class OpenWorkspaceReport(StepMessage):
    """The working folder, its first snapshot (for runs that write), and the pinned tools.

    `tools` are those of all stages where there are some; `seats` says what each of them may.
    `checks` are the names of the worker's own checks, those of plugins.
    """

    grant: Grant
    tools: tuple[ToolFact, ...] = ()
    terms: tuple[ToolTerms, ...] = ()
    base_tree: str | None = None
    checks: tuple[str, ...] = ()
    seconds: float = 0.0
    seats: dict[str, Grant] = {}


class OpenRunRequest(StepMessage):
    """Write the frame and the first messages of a run.

    Each of the `seats` gets a frame of its own; the run's has the words of none.
    `resume` is the transcript of a conversation that is taken up again; it `goes_on` by itself
    where messages wait to be appended, else it is made ready for the next call.
    """

    run: str
    kind: str
    goal: str
    system: str = ""
    context: dict[str, JsonValue] = {}
    messages: tuple[InitialMessage, ...] = ()
    transcript: str | None = None
    converses: bool = False
    chains: dict[str, tuple[str, ...]] = {}
    assume_price: str | None = None
    grant: Grant
    tools: tuple[ToolFact, ...] = ()
    extra: dict[str, JsonValue] = {}
    root: str = ""
    commission: Commission | None = None
    goes_on: bool = False
    resume: Head | None = None
    now: datetime
    seats: dict[str, SeatOrder] = {}
    output_schema: dict[str, JsonValue] | None = None


class OpenRunReport(StepMessage):
    """The frame's address, the first transcript, and what decisions need of the models.

    `failing` are models of the chains that failed for other runs a moment ago; `tallies` what the
    tool calls of a resumed transcript add up to; `notifies` whether the workers have a channel that
    tells people of gates (None: this one did not say).
    """

    frame: str
    head: Head | None = None
    cards: dict[str, ModelCard] = {}
    system_tokens: int = 0
    task_tokens: int = 0
    failing: tuple[str, ...] = ()
    tallies: Tallies | None = None
    seats: dict[str, OpenedSeat] = {}
    notifies: bool | None = None


class SayEntry(StepMessage):
    """A text to append; long ones by reference, with their estimated tokens."""

    type: Literal["say"]
    role: Literal["user", "assistant"] = "user"
    text: str = ""
    ref: str | None = None
    tokens: int = 0
    pinned: bool = False


class ToolResultEntry(StepMessage):
    """The result of one call to append; `note` is shown to the model before it."""

    call_id: str
    name: str
    outcome: ToolOutcome = "ok"
    ref: Ref | None = None
    note: str = ""


class ResultsEntry(StepMessage):
    """All results of one reply's calls, in call order: they become one message."""

    type: Literal["results"]
    results: tuple[ToolResultEntry, ...]


class RefineEntry(StepMessage):
    """The context of a refine iteration, composed where the content is.

    `previous` is the address of the last output, `evaluation` what it lacks at `threshold`;
    `part` asks for one part only, `approach` for this way of doing it; `tokens` is what all that
    will add to the prompt, estimated; `changed` are the lines that the last iteration changed.
    `plan` and the blobs `recalled` and `skills` are for a prompt that shows no earlier output.
    """

    type: Literal["refine"]
    previous: str | None = None
    evaluation: Evaluation | None = None
    threshold: float | None = None
    guidance: tuple[str, ...] = ()
    error: str | None = None
    part: Part | None = None
    tokens: int = 0
    changed: tuple[tuple[int, int], ...] = ()
    plan: str = ""
    recalled: str | None = None
    skills: str | None = None
    approach: str = ""


class PlanEntry(StepMessage):
    """The planner's question; `problems` asks again after a bad reply."""

    type: Literal["plan"]
    recalled: str | None = None
    skills: str | None = None
    problems: tuple[str, ...] = ()


class JudgeEntry(StepMessage):
    """The judge's question about one output; `problems` asks again after a bad reply.

    With `changed` lines the rest of the output is folded, for the judge scored it before: as
    `earlier` says, by dimension. `cut`: the output is not whole, and the judge is told so.
    """

    type: Literal["judge"]
    output: str
    dimensions: tuple[str, ...]
    open_findings: tuple[Finding, ...] = ()
    problems: tuple[str, ...] = ()
    changed: tuple[tuple[int, int], ...] = ()
    earlier: dict[str, str] = {}
    said: tuple[str, ...] = ()
    cut: bool = False


Entry = Annotated[
    SayEntry | ResultsEntry | RefineEntry | PlanEntry | JudgeEntry | StageEntry | GoalEntry,
    Field(discriminator="type"),
]


class ModelCallRequest(StepMessage):
    """One logical model call; `records` of finished iterations travel along to be written.

    `state` is what the newest of them can be taken up from. Without one it is the transcript.
    `continues` is the address of what was said so far of the answer that the reply goes on with,
    joined to it by `seam`. With `room` only that many tokens are sent of the conversation, in the
    short form of a closing call. `settings` say how the model goes about it.
    A reply that is `shaped` is asked for in the run's output schema, by the model's own means.
    `followed`: whether others are sure to begin with the same prompt (False: none follows).
    """

    frame: str
    role: str = "executor"
    phase: str = "executing"
    iteration: int
    model: str
    head: Head | None = None
    append: tuple[Entry, ...] = ()
    on_offer: tuple[str, ...] | None = None
    tools_off: bool = False
    allowance: Allowance
    records: tuple[IterationRecord, ...] = ()
    compact: bool = False
    worker: str | None = None
    state: dict[str, JsonValue] | None = None
    continues: str | None = None
    seam: str = ""
    room: int | None = None
    settings: CallSettings | None = None
    shaped: bool = False
    followed: bool | None = None


class PairRequest(StepMessage):
    """Append results to a transcript that no call goes on from."""

    frame: str
    head: Head
    append: tuple[ResultsEntry, ...]


CallStatus = Literal["replied", "does_not_fit", "interrupted", "sealed", "lost_workers"]


class ModelCallReport(StepMessage):
    """What a model call gave, and the account of every attempt that was not reported yet.

    `head` includes the appended entries and the reply; `before` is the head without the reply, told
    where the prompt was made shorter. An empty `model` is the one that was asked. `cut_call` names
    the tool whose call was cut short, and is not among the `calls`. `misfits` say how an answer
    misses the run's output schema; None for a reply that nobody held against one.
    """

    status: CallStatus
    head: Head | None = None
    before: Head | None = None
    stop_reason: str = ""
    text: Ref | None = None
    excerpt: str = ""
    calls: tuple[CallAsked, ...] = ()
    account: Account = Account()
    model: str = ""
    request_id: str | None = None
    prompt_estimate: int = 0
    prompt_tokens: int = 0
    replayed: bool = False
    cut_call: str = ""
    misfits: tuple[str, ...] | None = None


class ModelFailure(StepMessage):
    """Why a model call failed, with the account of its attempts; rides in error details.

    `failures` counts the provider's, over all reservations. `again_after_s`: another attempt does
    not fit what was reserved for this one; with a new reservation it may be made after so long.
    `failing_for_s` is the time since the first of these failures.
    """

    facts: ModelFacts
    account: Account
    failures: int = 1
    again_after_s: float | None = None
    failing_for_s: float = 0.0


class JudgeRequest(StepMessage):
    """One judgement: a model call with a structured reply; `cache`: whose verdicts count again."""

    call: ModelCallRequest
    dimensions: tuple[str, ...]
    cache: CacheScope = "run"
    open_findings: tuple[str, ...] = ()
    next_finding: int = 1
    pass_score: float = 1.0


class StructuredReport(StepMessage):
    """A model call that was asked for a structure; `problems` say why the reply has none.

    `usable`: they are slips of form, and what was read counts when the second reply is no better.
    """

    call: ModelCallReport
    problems: tuple[str, ...] = ()
    usable: bool = False


class JudgeReport(StructuredReport):
    """The judgement as read, or the problems that make it no judgement.

    `cached`: the same question was answered before, in the run `cached_from`, and nobody was asked.
    """

    scores: tuple[DimensionScore, ...] = ()
    resolved: tuple[str, ...] = ()
    cached: bool = False
    cached_from: str = ""


class ToolCallRequest(StepMessage):
    """One tool call; its arguments are read from the transcript by call id."""

    frame: str
    head: str
    call_id: str
    name: str
    iteration: int
    args_hash: str
    idempotent: bool = False
    timeout_s: float = 30.0
    active_time_s: float | None = None
    stage: str = ""


class ToolCallReport(StepMessage):
    """What a tool call gave, by reference; `number` is what a good output begins with.

    `held` is what runs that this run started hold of its budget; None where nobody looked.
    """

    outcome: ToolOutcome = "ok"
    ref: Ref | None = None
    code: str = ""
    seconds: float = 0.0
    number: float | None = None
    held: dict[str, Amounts] | None = None
