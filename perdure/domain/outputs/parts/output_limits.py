"""The most tokens that a draft or a reply with one part may use, from what its checks permit."""

from collections.abc import Mapping

from perdure.domain.evaluation.checks import LengthCheck, LengthUnit
from perdure.domain.evaluation.rubric import Part, PartKind, Rubric

PART_TOKENS: Mapping[PartKind, int] = {
    "whole": 512,
    "lines": 512,
    "sections": 2_048,
    "json_keys": 2_048,
}
SPARE_TOKENS = 32
# Generous, for the languages that need most of them.
TOKENS_PER_UNIT: Mapping[LengthUnit, int] = {"words": 4, "chars": 1}


def part_tokens(rubric: Rubric, part: Part, kind: PartKind) -> int:
    """The most that a reply with one part may use: what its length check permits, with room."""
    return _bound(rubric, part) or PART_TOKENS[kind]


def draft_tokens(rubric: Rubric) -> int | None:
    """The most that a draft of all parts may use; None when a part has no bound of its own.

    A small model that has lost the thread writes until it is stopped.
    """
    bounds = [_bound(rubric, part) for part in rubric.parts]
    known = [bound for bound in bounds if bound is not None]
    return sum(known) if known and len(known) == len(bounds) else None


def _bound(rubric: Rubric, part: Part) -> int | None:
    checks = [item.evaluator for item in rubric.of_part(part)]
    bounds = [
        check.max * TOKENS_PER_UNIT[check.unit] + SPARE_TOKENS
        for check in checks
        if isinstance(check, LengthCheck) and check.max and check.unit in TOKENS_PER_UNIT
    ]
    return min(bounds, default=None)
