"""Merges new versions of parts into the kept output.

Passing parts are kept word for word; a part is replaced by a better-scoring version only, and the
merge is taken only when the score of the whole does not fall.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perdure.domain.evaluation.rubric import Dimension, Part, PartKind, Rubric
from perdure.domain.evaluation.scores import Evaluation, weighted_mean
from perdure.domain.outputs.parts.failing import findings_on, score_of
from perdure.domain.outputs.parts.formats import part_text, replaced

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
    if better != offered:
        text = replaced(kept.text, better, rubric, kind)
        merged = Version(text, evaluate(text))
    return kept if _falls(rubric, kept.evaluation, merged.evaluation) else merged


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


def _falls(rubric: Rubric, kept: Evaluation, merged: Evaluation) -> bool:
    old, new = _mean(rubric.checks, kept), _mean(rubric.checks, merged)
    return new is None or (old is not None and new < old)


def _mean(dimensions: tuple[Dimension, ...], evaluation: Evaluation) -> float | None:
    weighted: list[tuple[float, float]] = []
    for dimension in dimensions:
        score = score_of(evaluation, dimension)
        if score is None:
            return None
        weighted.append((dimension.effective_weight, score))
    return weighted_mean(weighted)
