"""One piece of a worker's work: how it ended, and the facts that the manager's rules need."""

from dataclasses import dataclass, replace

from temporalio import workflow

from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.messages import WorkDone, WorkRead
from perdure.domain.delegation.results import WorkerEnd, WorkerReport
from perdure.domain.delegation.summary import shortened
from perdure.domain.delegation.worker_review import Critique, keeps_repair
from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.generated_tools.tool_registry import SURE
from perdure.domain.run.result import RunResult
from perdure.workflows.engine.child_runs import ChildOutcome, NotStarted

ERROR_CHARACTERS = 300
# Patch: with its first try, a repaired piece of work lost the tools that it had asked for, and the
# skills of those below it.
FIRST_TRY_COUNTS = "what a first try asked for and saved counts"
# Patch: work for which there was no budget was taken for done badly, and refused from then on.
NEVER_BEGAN = "work that has not begun is not poor"
# Patch: a worker that did not say how sure it is of sound work was sent back to it with each tool
# that it asked for, and had to beat a confidence that nobody stated.
SILENCE_IS_NO_DOUBT = "who states no confidence is not unsure"
ENDED_BY_ITSELF = frozenset[Outcome]({"accepted", "best_effort"})


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One piece of work and how it ended; `critique` is the reviewer's opinion of it.

    `below` names the skills that were saved below a manager who did it.
    """

    envelope: Envelope
    acceptance: str
    end: ChildOutcome | NotStarted
    read: WorkRead
    tree: str | None = None
    critique: Critique | None = None
    below: tuple[str, ...] = ()


def report_of(piece: WorkItem) -> WorkerReport:
    """The facts about a result that the manager's rules need."""
    envelope, end, read = piece.envelope, piece.end, piece.read
    crashed = isinstance(end, NotStarted) or (
        end.result is None or (end.result.outcome == "failed" and not read.usable)
    )
    ended: WorkerEnd = "crashed" if crashed else "done"
    if isinstance(end, NotStarted) and workflow.patched(NEVER_BEGAN):
        ended = "deferred"
    error = error_of(end)
    if read.unfit:
        error = f"the result does not fit its schema: {'; '.join(read.unfit)}"
    return WorkerReport(
        worker=envelope.worker,
        subtask=envelope.subtask,
        end=ended,
        confidence=None if crashed else read.confidence,
        stated=None if crashed else read.stated,
        doubtful=read.doubtful and not crashed,
        key_finding=read.key_finding if not crashed else "",
        error=shortened(error, ERROR_CHARACTERS),
        output=read.result,
        critique=piece.critique.score if piece.critique else None,
        usable=read.usable and not crashed and not read.unfit,
        cut_short=not crashed and _cut_short(end, read),
        artifacts=read.artifacts,
        run=end.run if isinstance(end, ChildOutcome) else None,
    )


def work_done(
    envelope: Envelope, end: ChildOutcome | NotStarted, *, acceptance: str = ""
) -> WorkDone:
    result = end.result if isinstance(end, ChildOutcome) else None
    manages = result is not None and result.kind == "delegation"
    return WorkDone(
        worker=envelope.worker,
        output=result.output_ref if result is not None else None,
        tool_calls=result.spend.tool_calls if result is not None else 0,
        tool_successes=result.tool_successes if result is not None else 0,
        confidence=_sureness(result) if result is not None and manages else None,
        manages=manages,
        error=error_of(end),
        # Whoever reads the work needs no inputs, and they would stand in the history once more.
        envelope=envelope.model_copy(update={"inputs": {}}),
        acceptance=acceptance,
    )


def _cut_short(end: ChildOutcome | NotStarted, read: WorkRead) -> bool:
    """Whether the work was ended from outside and nobody said how good it is.

    Of a sub-manager only its own confidence counts: each of its workers did only a part.
    """
    result = end.result if isinstance(end, ChildOutcome) else None
    if result is None or result.outcome in ENDED_BY_ITSELF:
        return False
    return (result.confidence if result.kind == "delegation" else read.stated) is None


def _sureness(result: RunResult) -> float | None:
    """The confidence of a sub-manager in its work; 0 if it gave up."""
    if result.reason == "gave_up":
        return 0.0
    if result.confidence is not None:
        return result.confidence
    return result.best.score if result.best is not None else None


def error_of(end: ChildOutcome | NotStarted) -> str:
    if isinstance(end, NotStarted):
        return end.why
    if end.result is None:
        return end.error
    if end.result.outcome == "accepted":
        return ""
    return shortened(end.result.explanation, ERROR_CHARACTERS)


def tree_of(end: ChildOutcome | NotStarted) -> str | None:
    result = end.result if isinstance(end, ChildOutcome) else None
    found = (item.ref for item in (result.artifacts if result else ()) if item.kind == "tree")
    return next(found, None)


def skills_of(end: ChildOutcome | NotStarted) -> tuple[str, ...]:
    result = end.result if isinstance(end, ChildOutcome) else None
    return () if result is None else result.skills


def is_better(before: WorkItem, after: WorkItem) -> bool:
    if before.critique is None or after.critique is None:
        return after.critique is not None
    return keeps_repair(before.critique, after.critique)


def lacks_its_tool(read: WorkRead) -> bool:
    """Whether a worker that asked for a tool needs it for its own work."""
    return (read.confidence or 0.0) < SURE and not _is_silent(read)


def went_on(before: WorkItem, after: WorkItem) -> WorkItem:
    """The newer result, unless the worker is less sure of it, or has none."""
    less_sure = (after.read.confidence or 0.0) < (before.read.confidence or 0.0)
    worse = less_sure and not _is_silent(after.read)
    return before if worse or not after.read.usable else in_place_of(before, after)


def _is_silent(read: WorkRead) -> bool:
    """Whether a worker did not say how sure it is, and its work gives no reason for doubt."""
    said_nothing = read.confidence is not None and read.stated is None and not read.doubtful
    return said_nothing and workflow.patched(SILENCE_IS_NO_DOUBT)


def in_place_of(before: WorkItem, after: WorkItem) -> WorkItem:
    """A newer result under the worker's own name; what it wrote down before is not lost."""
    skills = tuple(dict.fromkeys((*before.read.skills, *after.read.skills)))
    read = after.read.model_copy(update={"skills": skills})
    kept = replace(after, envelope=before.envelope, read=read)
    drafts = tuple(dict.fromkeys((*before.read.drafts, *after.read.drafts)))
    below = tuple(dict.fromkeys((*before.below, *after.below)))
    is_same = drafts == after.read.drafts and below == after.below
    if is_same or not workflow.patched(FIRST_TRY_COUNTS):
        return kept
    return replace(kept, read=read.model_copy(update={"drafts": drafts}), below=below)
