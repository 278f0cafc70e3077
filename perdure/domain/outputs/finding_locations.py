"""Where in an output a finding points: by line number, by words that it quotes, by a heading."""

import re
from collections.abc import Iterable, Mapping, Sequence

from perdure.domain.evaluation.checks import ContainsCheck, LengthCheck, RegexCheck
from perdure.domain.evaluation.evaluators import HumanEvaluator, JudgeEvaluator
from perdure.domain.evaluation.rubric import Dimension, Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, failing
from perdure.domain.outputs.diff import Lines, overlaps

# Shorter words stand in lines that nobody means.
LEAST_QUOTED = 4

_LINE_NUMBERS = re.compile(
    r"\b(?:(?i:lines?)|L|l\.)\s*(\d{1,6})(?:\s*(?:-|–|to|and)\s*(?:line\s*)?(\d{1,6}))?"
)
_QUOTED = re.compile(
    r"\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|`([^`\n]{2,200})`|"
    r"'([^'\n]{4,200})'|«([^»\n]{2,200})»"
)


def lines_of(where: str, text: str) -> frozenset[int]:
    """The lines (from 1) that a location names; empty when it names no place of this text."""
    lines = text.split("\n")
    found: set[int] = set()
    for first, last in _LINE_NUMBERS.findall(where):
        # Cut to the text, as a model may name lines that there are not, up to a million of them.
        end = min(int(last or first), len(lines))
        found.update(range(max(1, int(first)), end + 1))
    phrases = [next(filter(None, groups)) for groups in _QUOTED.findall(where)] or [where]
    for phrase in phrases:
        found.update(_lines_with(phrase, lines))
    return frozenset(found)


def finding_lines(finding: Finding, text: str) -> frozenset[int]:
    """The lines that a finding is about: its location, or else what its words quote."""
    if located := lines_of(finding.location, text):
        return located
    said = " ".join((finding.title, finding.detail, finding.fix))
    return lines_of(said, text) if _QUOTED.search(said) else frozenset()


def pointed_lines(
    rubric: Rubric, evaluation: Evaluation, text: str, *, threshold: float | None
) -> frozenset[int] | None:
    """The lines that must be shown to fix what is open; None for all of them.

    A finding that something is missing points nowhere. A judge's finding without a place shows the
    passages that its dimension was about before; only if those are unknown, the whole text.
    Unwanted words stand in the lines that hold them; any other finding of a check may be anywhere.
    """
    found: set[int] = set()
    is_unplaced = False
    below = failing(rubric, evaluation, threshold)
    for item in evaluation.dimensions:
        dimension = rubric.get(item.name)
        open_ones = [one for one in item.findings if one.severity != "suggestion"]
        if dimension is None or not (open_ones or item.name in below):
            continue
        lines, all_placed = _dimension_lines(item, open_ones, text)
        if unwanted := _unwanted_lines(dimension, item, text):
            lines |= unwanted
        elif not all_placed and not _asks_for_more(dimension, item):
            if not isinstance(dimension.evaluator, JudgeEvaluator | HumanEvaluator):
                return None
            is_unplaced = True
            lines |= frozenset[int]().union(*(lines_of(one, text) for one in item.evidence))
        found |= lines
    return None if is_unplaced and not found else frozenset(found)


def touched_dimensions(
    evidence: Mapping[str, Sequence[str]], text: str, spans: Sequence[Lines]
) -> tuple[str, ...]:
    """The dimensions with evidence in the changed spans of the text that it was found in."""
    return tuple(
        name
        for name, places in evidence.items()
        if any(overlaps(spans, lines_of(place, text)) for place in places)
    )


def _dimension_lines(
    item: DimensionScore, findings: Sequence[Finding], text: str
) -> tuple[frozenset[int], bool]:
    """The lines of the findings, or of the gap where there is none, and whether each names some."""
    if not findings:
        lines = lines_of(item.gap, text) if _QUOTED.search(item.gap) else frozenset[int]()
        return lines, bool(lines)
    places = [finding_lines(finding, text) for finding in findings]
    return frozenset[int]().union(*places), all(places)


def _unwanted_lines(dimension: Dimension, item: DimensionScore, text: str) -> frozenset[int]:
    """The lines with words that a check wants left out."""
    check = dimension.evaluator
    if not isinstance(check, ContainsCheck) or not _wants_less(item):
        return frozenset()

    def plain(said: str) -> str:
        return said.casefold() if check.ignore_case else said

    return frozenset(
        number
        for number, line in enumerate(text.split("\n"), start=1)
        if any(plain(term) in plain(line) for term in check.none)
    )


def _asks_for_more(dimension: Dimension, item: DimensionScore) -> bool:
    """Whether a failing check only wants something added."""
    match dimension.evaluator:
        case ContainsCheck():
            return not _wants_less(item)
        case RegexCheck(count=least):
            return least > 0
        case LengthCheck(min=least):
            return least is not None and "at least" in item.gap
        case _:
            return False


def _wants_less(item: DimensionScore) -> bool:
    return "not wanted" in item.gap


def _lines_with(phrase: str, lines: Iterable[str]) -> set[int]:
    wanted = " ".join(phrase.split()).casefold().strip(".:;,() ")
    if len(wanted) < LEAST_QUOTED:
        return set()
    shown = enumerate((" ".join(line.split()).casefold() for line in lines), start=1)
    return {number for number, line in shown if wanted in line}
