"""Delta feedback: the part of the last evaluation that the next prompt contains."""

from collections.abc import Sequence

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, failing
from perdure.domain.llm.transcript import Message, assistant_message, user_message
from perdure.domain.outputs.compression import UNCOMPRESSED_CHARACTERS, Compressed, compress
from perdure.domain.outputs.content_type import kind_of
from perdure.domain.outputs.diff import Lines, around
from perdure.domain.outputs.finding_locations import finding_lines, pointed_lines

CONTEXT_LINES = 3
# The form is that of the marks which `compress` makes, and which the reply is searched for.
FOLDED_PROMPT = (
    "Passages that need no change are left out above, each with a mark of the form "
    "[... unchanged #...]. Where such a passage is to stay, repeat its mark exactly, and the "
    "passage is put back word for word."
)


def delta_feedback(rubric: Rubric, evaluation: Evaluation, *, threshold: float | None) -> str:
    """The open findings that matter, and the dimensions still below their target.

    With nothing open, the weakest dimension and its gap; suggestions only when nothing else is
    open. Empty when there is nothing to improve.
    """
    findings = relevant_findings(evaluation.findings)
    told = {finding.dimension for finding in findings}
    below = [
        item
        for name in failing(rubric, evaluation, threshold)
        if name not in told and (item := evaluation.get(name)) is not None
    ]
    lines = [finding_line(finding) for finding in findings]
    lines += [_gap_line(item) for item in below]
    if not lines:
        lines = [_gap_line(item) for item in _weakest(evaluation)]
    return "\n".join(lines)


def relevant_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Blockers first, then important ones; suggestions only when there are no others."""
    blockers = [finding for finding in findings if finding.severity == "blocker"]
    important = [finding for finding in findings if finding.severity == "important"]
    return tuple(blockers + important) or tuple(findings)


def shown_draft(
    rubric: Rubric,
    evaluation: Evaluation,
    text: str,
    *,
    threshold: float | None,
    changed: Sequence[Lines],
) -> Compressed:
    """The previous output as the next iteration sees it.

    Whatever is open must be seen to be mended: where it is said, those passages, else everything.
    Of code also what the last iteration changed is shown.
    """
    if len(text) <= UNCOMPRESSED_CHARACTERS:
        return Compressed(text)
    pointed = pointed_lines(rubric, evaluation, text, threshold=threshold)
    if pointed is None:
        return Compressed(text)
    keep = around(changed, CONTEXT_LINES) if kind_of(text) == "code" else ()
    return compress(text, keep=keep, pointed=pointed)


def excerpt_for_judge(
    text: str, *, changed: Sequence[Lines], findings: Sequence[Finding]
) -> Compressed:
    """An output as a judge sees it that scored the one before: what changed, and what is open."""
    pointed = frozenset[int]().union(*(finding_lines(finding, text) for finding in findings))
    # A paragraph is its own context; lines of code need their neighbours.
    margin = 0 if kind_of(text) == "text" else CONTEXT_LINES
    return compress(text, keep=around(changed, margin), pointed=pointed)


def later_messages(
    task: str, *, previous: Compressed | None, feedback: str, added: str = ""
) -> tuple[Message, ...]:
    """The messages of an iteration after the first.

    Args:
        task: the task, always there again.
        previous: the previous output, compressed; None when it is not to be shown or is unscored.
        feedback: the delta, or the error of an unscored iteration with the last delta.
        added: what this iteration is told beyond the task.

    Returns:
        The task, then previous output and delta; without an output the delta follows the task in
        one message. What is asked stays word for word through a compaction.
    """
    if previous is None:
        return (user_message(task, added, feedback, pinned=True),)
    return (
        user_message(task, pinned=True),
        assistant_message(previous.text),
        user_message(added, _request(feedback, folded=previous.folds > 0), pinned=True),
    )


def failure_feedback(error: str, last_delta: str) -> str:
    """What follows an unscored iteration: its error, and the last delta that there was."""
    said = f"The previous attempt failed: {error}"
    return f"{said}\n\nStill open from before:\n{last_delta}" if last_delta else said


def _request(feedback: str, *, folded: bool) -> str:
    asked = "Improve this. Answer with the whole new version."
    if folded:
        asked = f"{asked} {FOLDED_PROMPT}"
    return f"{asked} Still open:\n{feedback}" if feedback else asked


def finding_line(finding: Finding) -> str:
    """Render a finding for a prompt: severity, problem, fix."""
    cure = finding.fix or finding.detail
    return f"- [{finding.severity}] {finding.title}" + (f" → {cure}" if cure else "")


def _gap_line(item: DimensionScore) -> str:
    score = "not scored" if item.capped is None else f"{item.capped:.2f}"
    return f"- {item.name}: {score}" + (f", {item.gap}" if item.gap else "")


def _weakest(evaluation: Evaluation) -> list[DimensionScore]:
    scored = [item for item in evaluation.dimensions if item.capped is not None]
    below = [item for item in scored if (item.capped or 0.0) < 1.0]
    return sorted(below, key=lambda item: item.capped or 0.0)[:1]
