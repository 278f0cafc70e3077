"""What a manager hands over: the port that inspects it, and what its score decides."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from pydantic import JsonValue

from perdure.domain.delegation.completion import FileFact
from perdure.domain.delegation.spec import QualityThresholds
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, failing
from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.foundation.tokens import estimate
from perdure.domain.scoring.feedback import relevant_findings


class Inspector(Protocol):
    """Looks at deliverables; reads, and changes nothing."""

    async def facts(self, root: str, paths: Sequence[str]) -> tuple[FileFact, ...]:
        """Whether each file exists below `root`, is empty, unfinished or broken."""
        ...

    async def texts(self, root: str, paths: Sequence[str]) -> Mapping[str, str]:
        """The texts of those files that are there and are text."""
        ...

    async def misfits(self, text: str, schema: Mapping[str, JsonValue]) -> tuple[str, ...]:
        """The ways in which a text misses a JSON schema; empty if it matches."""
        ...


GAP_CHARACTERS = 240
MOST_GAPS = 20
Quality = Literal["accept", "accept_with_warning", "repair", "fail"]


def quality(score: float | None, thresholds: QualityThresholds) -> Quality:
    """The policy by score; what nobody scored is accepted, because all checks passed."""
    if score is None:
        return "accept"
    # Rounded, since a mean of floats may miss its threshold by a hair.
    value = rounded(score)
    if value >= thresholds.accept:
        return "accept"
    if value >= thresholds.warn:
        return "accept_with_warning"
    return "repair" if value >= thresholds.repair else "fail"


def final_score(rubric: float | None, critique: float | None) -> float | None:
    """The score of the rubric if the task has one, else the reviewers' mean."""
    return critique if rubric is None else rubric


def deliverable_text(final: str, files: Mapping[str, str]) -> str:
    """What a rubric looks at: the final result, and after it each file that is handed over.

    A text that stands alone, the result or a single file, stays as it is.
    """
    if not final.strip() and len(files) == 1:
        return next(iter(files.values()))
    shown = [f"## File {path}\n\n{text}" for path, text in files.items()]
    return "\n\n".join([final, *shown] if final.strip() else shown)


# As much as a question could always show.
LEAST_SHOWN_TOKENS = 4_000


def shown_work(work: Mapping[str, str], *, room: int | None) -> dict[str, str]:
    """The texts of finished work as a reviewer sees them: whole where they fit into the room.

    Else the longest are cut to one length, and say how much is left out between beginning and end.

    Args:
        work: the texts by their names.
        room: tokens for all of them; None: not known.
    """
    total = sum(map(len, work.values()))
    tokens = sum(estimate(text).total for text in work.values())
    allowed = max(room or 0, LEAST_SHOWN_TOKENS)
    if tokens <= allowed:
        return dict(work)
    most = _longest_kept([len(text) for text in work.values()], total * allowed // tokens)
    return {name: _ends_of(text, most) for name, text in work.items()}


def _longest_kept(lengths: Sequence[int], room: int) -> int:
    """The length to which texts are cut so that all of them have room: short ones stay whole."""
    left, many = room, len(lengths)
    for length in sorted(lengths):
        if length > left // many:
            break
        left, many = left - length, many - 1
    return left // max(1, many)


def _ends_of(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = most // 4
    begin = most - end
    left_out = f"[{len(text) - most:,} characters left out]"
    return f"{text[:begin]}\n{left_out}\n{text[len(text) - end :]}"


def gaps(rubric: Rubric, evaluation: Evaluation, *, wanted: float) -> tuple[str, ...]:
    """What a deliverable still lacks, one line each: open findings, then dimensions too low."""
    open_ones = relevant_findings(evaluation.findings)
    told = {finding.dimension for finding in open_ones}
    lines = [_finding(finding) for finding in open_ones]
    for name in failing(rubric, evaluation, wanted):
        item = evaluation.get(name)
        if item is not None and name not in told:
            lines.append(_gap(item))
    return tuple(dict.fromkeys(line[:GAP_CHARACTERS] for line in lines))[:MOST_GAPS]


def _finding(finding: Finding) -> str:
    said = f": {finding.detail}" if finding.detail else ""
    cure = f" To do: {finding.fix}" if finding.fix else ""
    return f"{finding.dimension}: {finding.title}{said}{cure}"


def _gap(item: DimensionScore) -> str:
    score = "no score" if item.capped is None else f"{item.capped:.2f}"
    return f"{item.name}: {item.gap or 'not met'} ({score})"
