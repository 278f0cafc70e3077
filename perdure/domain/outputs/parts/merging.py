"""Which parts of an output fail, and putting new parts in their place.

Passing parts are kept word for word; a part is replaced by a better-scoring version only, and the
merge is taken only when the score of the whole does not fall.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perdure.domain.evaluation.rubric import Dimension, Part, PartKind, Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, weighted_mean
from perdure.domain.outputs.parts.formats import part_text, replaced


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


Evaluate = Callable[[str], Evaluation]


@dataclass(frozen=True, slots=True)
class Version:
    """An output with what its checks said."""

    text: str
    evaluation: Evaluation


def merge_replies(
    rubric: Rubric,
    kept: Version,
    replies: Mapping[Part, str],
    *,
    kind: PartKind,
    evaluate: Evaluate,
) -> Version:
    """The kept output with every part that a reply made better.

    Args:
        rubric: what parts and whole are measured by.
        kept: the best version so far.
        replies: new versions of parts; an empty one is none.
        kind: how the output is taken apart.
        evaluate: runs the checks on an output.

    Returns:
        The merge, or `kept` itself when nothing got better or the whole would score lower.
    """
    offered = {part: new for part in rubric.parts if (new := replies.get(part))}
    if not offered:
        return kept
    text = replaced(kept.text, offered, rubric, kind)
    offer = Version(text, evaluate(text))
    better = {
        part: new
        for part, new in offered.items()
        if _is_better(rubric, part, kept=kept, offer=offer, kind=kind)
    }
    if not better:
        return kept
    merged = offer
    # Some parts alone may do worse on checks of the whole than all of them did.
    if better != offered:
        text = replaced(kept.text, better, rubric, kind)
        merged = Version(text, evaluate(text))
    # By checks alone: a judge has seen the kept version, and not yet the merge.
    old, new = _mean(rubric.checks, kept.evaluation), _mean(rubric.checks, merged.evaluation)
    return kept if new is None or (old is not None and new < old) else merged


def part_score(rubric: Rubric, evaluation: Evaluation, part: Part) -> float | None:
    """The weighted mean of the dimensions bound to one part; None when one has no score."""
    return _mean(tuple(rubric.of_part(part)), evaluation)


def _is_better(
    rubric: Rubric, part: Part, *, kept: Version, offer: Version, kind: PartKind
) -> bool:
    """Whether the offer scores higher, or answers what a judge held against the part."""
    old = part_score(rubric, kept.evaluation, part)
    new = part_score(rubric, offer.evaluation, part)
    if new is None:
        return False
    if old is None or new > old:
        return True
    # The judge looks at the merge afterwards; the best version stays the best until then.
    named = bool(findings_on(rubric, kept.evaluation, part))
    changed = part_text(kept.text, part, kind) != part_text(offer.text, part, kind)
    return new == old and named and changed


def _mean(dimensions: tuple[Dimension, ...], evaluation: Evaluation) -> float | None:
    weighted: list[tuple[float, float]] = []
    for dimension in dimensions:
        score = score_of(evaluation, dimension)
        if score is None:
            return None
        weighted.append((dimension.effective_weight, score))
    return weighted_mean(weighted)
