"""Takes an output apart, finds the parts that fail, and merges better ones in.

Passing parts are kept word for word; a part is replaced by a better-scoring version only, and the
merge is taken only when the score of the whole does not fall.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perdure.domain.checks import LengthCheck, LengthUnit
from perdure.domain.evaluation import Evaluation, weighted_mean
from perdure.domain.refine.settings import PartKind
from perdure.domain.rubric import Dimension, Rubric

PART_TOKENS = 512
SPARE_TOKENS = 32
# Generous, for the languages that need most of them.
TOKENS_PER_UNIT: Mapping[LengthUnit, int] = {"words": 4, "chars": 1}

Evaluate = Callable[[str], Evaluation]


@dataclass(frozen=True, slots=True)
class Version:
    """An output with what its checks said."""

    text: str
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class FailingPart:
    """A part, by number from 1, and the dimensions that it fails."""

    part: int
    dimensions: tuple[Dimension, ...]


def split_output(text: str, kind: PartKind, *, count: int | None = None) -> tuple[str, ...]:
    """The parts of an output: itself, or its lines without blank ones.

    Args:
        text: the output.
        kind: how it is taken apart.
        count: how many parts there are to be; missing ones are empty, surplus ones left out.
    """
    if kind == "whole":
        return (text,)
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if count is None:
        return lines
    return (*lines[:count], *([""] * (count - len(lines))))


def join_parts(parts: tuple[str, ...], kind: PartKind) -> str:
    """The output made of its parts; empty lines keep their place."""
    return parts[0] if kind == "whole" else "\n".join(parts)


def part_text(text: str, part: int) -> str:
    """Line `part` of an output, from 1; empty when there is none."""
    lines = text.split("\n")
    return lines[part - 1].strip() if part <= len(lines) else ""


def part_count(rubric: Rubric) -> int | None:
    """How many parts the rubric speaks of, None when it names none."""
    return max(rubric.parts, default=None)


def tidy_output(text: str, rubric: Rubric, kind: PartKind) -> str:
    """An output as it is scored: with parts, one line each, in the number that is asked for."""
    return join_parts(split_output(text, kind, count=part_count(rubric)), kind)


def failing_parts(rubric: Rubric, evaluation: Evaluation) -> tuple[FailingPart, ...]:
    """The parts with a dimension that does not pass, in order."""
    found: list[FailingPart] = []
    for part in rubric.parts:
        dimensions = tuple(
            dimension
            for dimension in rubric.of_part(part)
            if not dimension.passes(_score(evaluation, dimension))
        )
        if dimensions:
            found.append(FailingPart(part, dimensions))
    return tuple(found)


def merge_replies(
    rubric: Rubric, kept: Version, replies: Mapping[int, str], *, evaluate: Evaluate
) -> Version:
    """The kept output with every part that a reply made better.

    Args:
        rubric: what parts and whole are measured by.
        kept: the best version so far, one part a line.
        replies: new versions of parts, by number.
        evaluate: runs the checks on an output.

    Returns:
        The merge, or `kept` itself when nothing got better or the whole would score lower.
    """
    lines = split_kept(kept.text, part_count(rubric))
    offered = tuple(replies.get(n) or line for n, line in enumerate(lines, start=1))
    offer = evaluate(join_parts(offered, "lines"))
    merged = tuple(
        new if _is_better(rubric, n, kept.evaluation, offer) else old
        for n, (old, new) in enumerate(zip(lines, offered, strict=True), start=1)
    )
    if merged == lines:
        return kept
    text = join_parts(merged, "lines")
    evaluation = offer if merged == offered else evaluate(text)
    return kept if _falls(rubric, kept.evaluation, evaluation) else Version(text, evaluation)


def split_kept(text: str, count: int | None) -> tuple[str, ...]:
    """The lines of an output that was joined from parts: empty ones hold their place."""
    lines = tuple(text.split("\n"))
    return (*lines, *([""] * ((count or 0) - len(lines))))


def part_score(rubric: Rubric, evaluation: Evaluation, part: int) -> float | None:
    """The weighted mean of the dimensions bound to one part; None when one has no score."""
    return _mean(tuple(rubric.of_part(part)), evaluation)


def part_tokens(rubric: Rubric, part: int) -> int:
    """The most that a reply with one part may use: what its length check permits, with room."""
    return _bound(rubric, part) or PART_TOKENS


def draft_tokens(rubric: Rubric) -> int | None:
    """The most that a draft of all parts may use; None when a part has no bound of its own.

    A small model that has lost the thread writes until it is stopped.
    """
    bounds = [_bound(rubric, part) for part in rubric.parts]
    known = [bound for bound in bounds if bound is not None]
    return sum(known) if known and len(known) == len(bounds) else None


def part_reply(text: str) -> str:
    """The part in a model's reply: its first line with text, without quotes and list marks."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    return first.strip("\"'`*").removeprefix("- ").strip()


def _bound(rubric: Rubric, part: int) -> int | None:
    checks = [item.evaluator for item in rubric.of_part(part)]
    bounds = [
        check.max * TOKENS_PER_UNIT[check.unit] + SPARE_TOKENS
        for check in checks
        if isinstance(check, LengthCheck) and check.max and check.unit in TOKENS_PER_UNIT
    ]
    return min(bounds, default=None)


def _is_better(rubric: Rubric, part: int, kept: Evaluation, offer: Evaluation) -> bool:
    old, new = part_score(rubric, kept, part), part_score(rubric, offer, part)
    return new is not None and (old is None or new > old)


def _falls(rubric: Rubric, kept: Evaluation, merged: Evaluation) -> bool:
    old, new = _mean(rubric.checks, kept), _mean(rubric.checks, merged)
    return new is None or (old is not None and new < old)


def _mean(dimensions: tuple[Dimension, ...], evaluation: Evaluation) -> float | None:
    weighted: list[tuple[float, float]] = []
    for dimension in dimensions:
        score = _score(evaluation, dimension)
        if score is None:
            return None
        weighted.append((dimension.effective_weight, score))
    return weighted_mean(weighted)


def _score(evaluation: Evaluation, dimension: Dimension) -> float | None:
    found = evaluation.get(dimension.name)
    return None if found is None else found.capped
