"""Requests and reports of the steps that a manager's run takes."""

from typing import Literal

from pydantic import JsonValue

from perdure.domain.delegation.completion import FileFact, Wanted
from perdure.domain.delegation.decisions import Envelope, ManagerDecision
from perdure.domain.delegation.results import Defect
from perdure.domain.delegation.worker_review import Critique
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run.activity_messages import ModelCallRequest, StructuredReport


class ManageRequest(ActivityMessage):
    """Ask the manager for its decision.

    `summary` says where in the last text of the prompt the rolling summary begins and ends.
    """

    call: ModelCallRequest
    summary: tuple[int, int] | None = None


class ManageReport(StructuredReport):
    """The decision as read; long inputs and the final result are named by address."""

    decision: ManagerDecision | None = None
    final: BlobRef | None = None


class Assignment(ActivityMessage):
    """What one worker is to be told.

    `inherited` are inputs of the task, long ones as `{"ref": address}`; `skills` the addresses of
    procedures by name, `written` procedures given with the work; `repair` asks for another version
    of the result `previous`.
    """

    envelope: Envelope
    acceptance: str = ""
    inherited: dict[str, JsonValue] = {}
    skills: dict[str, str] = {}
    written: tuple[str, ...] = ()
    pitfalls: tuple[str, ...] = ()
    repair: str = ""
    previous: str | None = None


class BriefRequest(ActivityMessage):
    """Write the briefings of one iteration's workers, who know one line of the whole `goal`.

    `said` is what people demanded of the whole since it was given.
    """

    goal: str
    assignments: tuple[Assignment, ...]
    said: tuple[str, ...] = ()


class BriefReport(ActivityMessage):
    """The address of each worker's briefing, in order."""

    briefings: tuple[str, ...]


class WorkDone(ActivityMessage):
    """How one worker ended: its output, and how its tool calls went.

    `manages`: its output is the final result of a manager, whose `confidence` is known. With an
    `acceptance` a reviewer is to be asked about it.
    """

    worker: str
    output: str | None = None
    tool_calls: int = 0
    tool_successes: int = 0
    confidence: float | None = None
    manages: bool = False
    error: str = ""
    envelope: Envelope | None = None
    acceptance: str = ""


class ReadWorkRequest(ActivityMessage):
    """Read the outputs of one iteration's workers; `before` is what their readings are compared to.

    Results are compared, up to 2,000 characters of each worker: prose as it is, structured ones by
    the values at their leaves.
    """

    work: tuple[WorkDone, ...]
    before: str | None = None


class WorkRead(ActivityMessage):
    """What a worker's output says, in short; the whole of it stays where it is.

    `stated` is the confidence that the worker gave itself; `confidence` that, or one derived, which
    counts where the work is `doubtful`.
    `result` is the address of the result alone, `skills` those of procedures that it wrote down,
    `drafts` those of tools that it wants made;
    `question` is what a reviewer is asked, `unfit` how the result misses its schema; `unread` what
    of the reply nobody could read, `unread_tools` the same of tools that it wants made.
    """

    confidence: float | None = None
    stated: float | None = None
    doubtful: bool = False
    key_finding: str = ""
    usable: bool = False
    findings: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    defects: tuple[Defect, ...] = ()
    tools_created: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    result: str | None = None
    question: BlobRef | None = None
    unfit: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unread_tools: tuple[str, ...] = ()


class ReadWorkReport(ActivityMessage):
    """The workers in order, and what they wrote together.

    `output` is that as it is compared, and `similarity` how alike it is to what was before;
    `results` are the results alone, whole.
    """

    work: tuple[WorkRead, ...]
    output: BlobRef | None = None
    results: BlobRef | None = None
    similarity: float | None = None
    seconds: float = 0.0


class MergeRequest(ActivityMessage):
    """Take what a worker changed over into the working copy of its manager."""

    run: str
    root: str
    base: str
    tree: str


class MergeReport(ActivityMessage):
    """The paths that were taken over, and those that both had changed in different ways.

    A repeat names what the attempt before it took over.
    """

    changed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    tree: BlobRef | None = None
    seconds: float = 0.0


class InspectRequest(ActivityMessage):
    """Look at what is handed over at the end, as far as a check or the rubric (`text`) needs it.

    `room`: the tokens of it that the question about the criteria may show.
    """

    wanted: Wanted | Literal["text"]
    run: str
    root: str
    deliverables: tuple[str, ...] = ()
    final: str | None = None
    goal: str = ""
    criteria: tuple[str, ...] = ()
    output_schema: dict[str, JsonValue] | None = None
    smoke_test: tuple[str, ...] | None = None
    active_time_s: float | None = None
    room: int | None = None


class InspectReport(ActivityMessage):
    """What was found, None for what was not looked at.

    `question` asks about the criteria; `text` is all that is handed over, for the rubric.
    """

    contract: tuple[str, ...] | None = None
    files: tuple[FileFact, ...] | None = None
    smoke: str | None = None
    question: BlobRef | None = None
    text: BlobRef | None = None
    seconds: float = 0.0


class ReviewRequest(ActivityMessage):
    """Ask the critic about one result, or about each of the success `criteria`."""

    call: ModelCallRequest
    criteria: tuple[str, ...] = ()


class ReviewReport(StructuredReport):
    """The critique as read, or the criteria that are not met."""

    critique: Critique | None = None
    unmet: tuple[str, ...] | None = None
