"""Which parts of an output fail, and what its findings say of each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.evaluation.rubric import Dimension, Part, PartKind, Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding


@dataclass(frozen=True, slots=True)
class FailingPart:
    """A part, and the dimensions that it fails."""

    part: Part
    dimensions: tuple[Dimension, ...]


def failing_parts(rubric: Rubric, evaluation: Evaluation) -> tuple[FailingPart, ...]:
    """The parts with a check that does not pass or an open finding that matters, in order."""
    found: list[FailingPart] = []
    for part in rubric.parts:
        named = {finding.dimension for finding in findings_on(rubric, evaluation, part)}
        failed = tuple(
            dimension
            for dimension in rubric.dimensions
            if dimension.name in named
            or (dimension.part == part and not dimension.passes(score_of(evaluation, dimension)))
        )
        if failed:
            found.append(FailingPart(part, failed))
    return tuple(found)


def findings_on(rubric: Rubric, evaluation: Evaluation, part: Part) -> tuple[Finding, ...]:
    """What dimensions of the whole, as a judge's, hold against one part; suggestions left out."""
    bound = {dimension.name for dimension in rubric.of_part(part)}
    return tuple(
        finding
        for finding in evaluation.findings
        if finding.part == part and finding.dimension not in bound
        if finding.severity != "suggestion"
    )


def part_evaluation(rubric: Rubric, evaluation: Evaluation, part: Part) -> Evaluation:
    """What an evaluation says of one part alone."""
    bound = {dimension.name for dimension in rubric.of_part(part)}
    said = {finding.dimension for finding in findings_on(rubric, evaluation, part)}
    return Evaluation(
        dimensions=tuple(
            item.model_copy(
                update={"findings": tuple(one for one in item.findings if one.part == part)}
            )
            for item in evaluation.dimensions
            if item.name in bound or item.name in said
        ),
        mode=evaluation.mode,
    )


def bind_findings(
    scores: Sequence[DimensionScore], rubric: Rubric, kind: PartKind
) -> tuple[DimensionScore, ...]:
    """The scores with every finding bound to the part that its location names."""
    if kind == "whole":
        return tuple(scores)
    return tuple(
        item.model_copy(
            update={"findings": tuple(_bound(finding, rubric) for finding in item.findings)}
        )
        for item in scores
    )


def part_label(part: Part) -> str:
    """A part as people read it: the number of a line, or its heading or key."""
    return f"line {part}" if isinstance(part, int) else part


def score_of(evaluation: Evaluation, dimension: Dimension) -> float | None:
    """A dimension's capped score, None without one."""
    found = evaluation.get(dimension.name)
    return None if found is None else found.capped


def _bound(finding: Finding, rubric: Rubric) -> Finding:
    if finding.part is not None:
        return finding
    place = _plain(finding.location)
    named = [part for part in rubric.parts if place in {_plain(part_label(part)), _plain(part)}]
    return finding.model_copy(update={"part": named[0]}) if place and named else finding


def _plain(place: Part) -> str:
    words = re.sub(r"[#*_`:\"']", " ", str(place)).casefold().split()
    return " ".join(words).removeprefix("section ").removeprefix("key ")
