"""Requests to activities and reports from them: one request and one report per verb.

Content travels by reference; what is inline is short. Everything that is constant over a run lies
in its *frame*, one blob that each request names by hash.
"""

from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from perdure.domain.budget.accounting import Reservation
from perdure.domain.budget.allowances import Allowance as Allowance
from perdure.domain.evaluation.judge_cache import CacheScope
from perdure.domain.evaluation.rubric import WorkerRequirements
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.call_settings import CallSettings
from perdure.domain.llm.errors import ModelFacts
from perdure.domain.llm.requests import CacheLife, ModelProfile
from perdure.domain.llm.transcript import ToolOutcome, TranscriptRef
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.run.bookkeeping_messages import FinishReport as FinishReport
from perdure.domain.run.bookkeeping_messages import FinishRequest as FinishRequest
from perdure.domain.run.bookkeeping_messages import NotifyReport as NotifyReport
from perdure.domain.run.bookkeeping_messages import NotifyRequest as NotifyRequest
from perdure.domain.run.bookkeeping_messages import ReadyReport as ReadyReport
from perdure.domain.run.bookkeeping_messages import ReconcileRequest as ReconcileRequest
from perdure.domain.run.bookkeeping_messages import SnapshotReport as SnapshotReport
from perdure.domain.run.bookkeeping_messages import SnapshotRequest as SnapshotRequest
from perdure.domain.run.child_runs import Commission
from perdure.domain.run.hooks import WantedHook
from perdure.domain.run.result import SpendReport
from perdure.domain.tools.definitions import AccessLevel, ToolDefinition, ToolGrant
from perdure.domain.turns.entries import Entry, ResultsEntry
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.repeated_tool_calls import ToolCounters
from perdure.domain.turns.settings import InitialMessage, ToolsSpec
from perdure.domain.turns.tool_call_rules import RequestedCall, ToolPolicy


class StageTools(ActivityMessage):
    """What one stage may be offered of the run's tools: all of a level, or those of its list."""

    level: AccessLevel
    allow: tuple[str, ...] | None = None


class StageSetup(ActivityMessage):
    """The frame of one stage: its words, what it may, and what its kind of loop adds."""

    system: str
    grant: ToolGrant
    extra: dict[str, JsonValue] = {}


class StageContext(ActivityMessage):
    """The frame of one stage, and what it adds to each prompt."""

    frame: str
    system_tokens: int = 0
    task_tokens: int = 0


class Frame(FrozenModel):
    """What stays the same over a run; stored as one blob, cached by workers.

    `inputs` are the named inputs of the task as text, `attachments` those that are images or PDFs:
    in the text they are named. `output_schema` is for its answer; `extra` is what its kind adds.
    """

    run: str
    root: str
    kind: str
    goal: str
    inputs: dict[str, str] = {}
    system: str
    tools: tuple[ToolDefinition, ...]
    grant: ToolGrant
    cards: dict[str, ModelProfile]
    chains: dict[str, tuple[str, ...]]
    aliases: dict[str, str] = {}
    extra: dict[str, JsonValue] = {}
    temperature: float | None = None
    output_schema: dict[str, JsonValue] | None = None
    attachments: tuple[Attachment, ...] = ()


class OpenWorkspaceRequest(ActivityMessage):
    """Make the run's working folder and pin its tools.

    `seats` are the stages of a run of roles, each with the tools that it may be offered.
    A run that is taken up again names the `tree` its files are restored to, and the `base` that its
    changes are counted from. What its rubric `needs` must be there. `session` and `project` are the
    ids of what it belongs to; its tools keep their notes there. `root` is the run at the top of its
    tree, told where tools that were made at run time are wanted. A run that `orchestrates` may
    start and steer loops. Its `hooks` must be served there, by their place in the task.
    """

    run: str
    source: str | None
    tools: ToolsSpec
    tool_timeout_s: float | None = None
    tree: str | None = None
    base: str | None = None
    needs: WorkerRequirements = WorkerRequirements()
    session: str = ""
    project: str = ""
    root: str = ""
    seats: dict[str, StageTools] = {}
    orchestrates: bool = False
    hooks: dict[str, WantedHook] = {}


class OpenWorkspaceReport(ActivityMessage):
    """The working folder, its first snapshot (for runs that write), and the pinned tools.

    `tools` are those of all stages where there are some; `seats` says what each of them may.
    `checks` are the names of the worker's own checks, those of plugins. `host` is the queue of the
    one host that has the folder; None where every worker of the queue has it, or can do without.
    """

    grant: ToolGrant
    tools: tuple[ToolDefinition, ...] = ()
    terms: tuple[ToolPolicy, ...] = ()
    base_tree: str | None = None
    checks: tuple[str, ...] = ()
    seconds: float = 0.0
    seats: dict[str, ToolGrant] = {}
    host: str | None = None


class OpenRunRequest(ActivityMessage):
    """Write the frame and the first messages of a run.

    Each of the `seats` gets a frame of its own; the run's has the words of none.
    `resume` is the transcript of a conversation that is taken up again; it `goes_on` by itself
    where messages wait to be appended, else it is made ready for the next call. `cache_life` is the
    longest that a role asks for: reservations cover what it costs. `begins` is the execution that
    the run begins with, or is taken up with if not `is_fresh`; empty in the middle of it.
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
    grant: ToolGrant
    tools: tuple[ToolDefinition, ...] = ()
    extra: dict[str, JsonValue] = {}
    root: str = ""
    commission: Commission | None = None
    goes_on: bool = False
    resume: TranscriptRef | None = None
    now: datetime
    seats: dict[str, StageSetup] = {}
    output_schema: dict[str, JsonValue] | None = None
    cache_life: CacheLife = "5m"
    begins: str = ""
    is_fresh: bool = False


class OpenRunReport(ActivityMessage):
    """The frame's address, the first transcript, and what decisions need of the models.

    `failing` are models of the chains that failed for other runs a moment ago; `tallies` what the
    tool calls of a resumed transcript add up to; `notifies` whether the workers have a channel that
    tells people of gates (None: this one did not say). `task_media` is the most that images and
    PDFs of the task take of a prompt. `queues` are those of models that are limited in rate.
    `blind` says of roles what of the task their first model cannot be shown.
    """

    frame: str
    head: TranscriptRef | None = None
    cards: dict[str, ModelProfile] = {}
    system_tokens: int = 0
    task_tokens: int = 0
    failing: tuple[str, ...] = ()
    tallies: ToolCounters | None = None
    seats: dict[str, StageContext] = {}
    notifies: bool | None = None
    task_media: int = 0
    queues: dict[str, str] = {}
    blind: dict[str, str] = {}


class ModelCallRequest(ActivityMessage):
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
    head: TranscriptRef | None = None
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


class PairRequest(ActivityMessage):
    """Append results to a transcript that no call goes on from."""

    frame: str
    head: TranscriptRef
    append: tuple[ResultsEntry, ...]


CallStatus = Literal["replied", "does_not_fit", "interrupted", "sealed", "lost_workers"]


class ModelCallReport(ActivityMessage):
    """What a model call gave, and the account of every attempt that was not reported yet.

    `head` includes the appended entries and the reply; `before` is the head without the reply, told
    where the prompt was made shorter. An empty `model` is the one that was asked. `cut_call` names
    the tool whose call was cut short, and is not among the `calls`. `misfits` say how an answer
    misses the run's output schema; None for a reply that nobody held against one. `tools_ref` is
    where the names of the tools on offer stand, as a JSON list; None where all were, or none.
    """

    status: CallStatus
    head: TranscriptRef | None = None
    before: TranscriptRef | None = None
    stop_reason: str = ""
    text: BlobRef | None = None
    excerpt: str = ""
    calls: tuple[RequestedCall, ...] = ()
    account: AttemptTotals = AttemptTotals()
    model: str = ""
    request_id: str | None = None
    prompt_estimate: int = 0
    prompt_tokens: int = 0
    replayed: bool = False
    cut_call: str = ""
    misfits: tuple[str, ...] | None = None
    tools_ref: str | None = None


class ModelFailure(ActivityMessage):
    """Why a model call failed, with the account of its attempts; rides in error details.

    `failures` counts the provider's, over all reservations. `again_after_s`: another attempt does
    not fit what was reserved for this one; with a new reservation it may be made after so long.
    `failing_for_s` is the time since the first of these failures.
    """

    facts: ModelFacts
    account: AttemptTotals
    failures: int = 1
    again_after_s: float | None = None
    failing_for_s: float = 0.0


class JudgeRequest(ActivityMessage):
    """One judgement: a model call with a structured reply; `cache`: whose verdicts count again."""

    call: ModelCallRequest
    dimensions: tuple[str, ...]
    cache: CacheScope = "run"
    open_findings: tuple[str, ...] = ()
    next_finding: int = 1
    pass_score: float = 1.0


class StructuredReport(ActivityMessage):
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


class ToolCallRequest(ActivityMessage):
    """One tool call; its arguments are read from the transcript by call id.

    `root` is where the working folder is now, if not where the frame says. With `takes_snapshot` it
    is stored after the call, as its host may be gone by the next. `made` is a generated tool.
    """

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
    root: str = ""
    takes_snapshot: bool = False
    made: bool = False


class ToolCallReport(ActivityMessage):
    """What a tool call gave, by reference; `number` is what a good output begins with.

    `told` is the beginning of it, for people who watch. `held` is what runs that this run started
    hold of its budget; None where nobody looked. `handed_over` are the arguments of an activity
    that the loop schedules now; nothing has run. `attachments` are what the model is shown with it.
    `tree` is the working folder after the call, where that was asked for; of calls that ran side by
    side the one with the highest `tree_at` saw them all.
    """

    outcome: ToolOutcome = "ok"
    ref: BlobRef | None = None
    code: str = ""
    seconds: float = 0.0
    number: float | None = None
    told: str = ""
    held: dict[str, Reservation] | None = None
    handed_over: tuple[JsonValue, ...] | None = None
    attachments: tuple[Attachment, ...] = ()
    tree: str | None = None
    tree_at: int = 0


class KeepResultRequest(ActivityMessage):
    """Store the result of a foreign activity, or the words with which it failed."""

    name: str
    outcome: ToolOutcome
    value: JsonValue
    seconds: float = 0.0


class SettleChildRequest(ActivityMessage):
    """Close a child run that ended without a result, with all below it, and say what they used."""

    child: str
    root: str
    count_cache_reads: bool = False  # as the budget does on which it is booked


class SettleChildReport(ActivityMessage):
    """What the journal and the records know of a closed child run and of all below it."""

    spend: SpendReport


class ShelveRequest(ActivityMessage):
    """Store long inputs as blobs, so that they are passed on by reference."""

    values: dict[str, JsonValue]


class ShelveReport(ActivityMessage):
    """The inputs to pass on: short ones inline, long ones by address.

    `shown` is their text, of long ones the beginning. What people added may be `lost`: then it says
    why, and neither of the two has it.
    """

    values: dict[str, JsonValue]
    shown: dict[str, str] = {}
    lost: dict[str, str] = {}
