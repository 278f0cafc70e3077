"""How sure a worker's result is when it does not say so itself, and the mean of an iteration."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perdure.domain.delegation.results import WorkerReport
from perdure.domain.evaluation.trajectory import rounded

BASE = 0.1
FROM_TOOLS = 0.6
PER_PLACEHOLDER = 0.05
MOST_FOR_PLACEHOLDERS = 0.3

# Marks count where they can only be marks: at the beginning of a line or a comment, brackets that
# ask to be filled, filler text, or a body that is nothing else. Prose may speak of a todo or of a
# placeholder, in Spanish it always does, and a template is full of {{ names }}.
_PLACEHOLDER = re.compile(
    r"""
      ^[ \t>*-]*(?:TODO|FIXME|TBD)(?=(?:\([^)\n]*\))?[ \t]*(?::|$))
    | (?:\#|//|/\*|<!--|;|--)[ \t]*(?:TODO|FIXME|TBD)\b
    | (?i:\blorem\ ipsum\ dolor\b | ^[ \t]*lorem\ ipsum\b)
    | (?i:\[(?:insert|your|add)\b[^\]\n]{0,60}\](?!\())
    | (?i:<(?:insert|your)\b[^>\n]{0,60}>)
    | (?i:^[ \t>\#*(\[-]*(?:not|to[ ]be)[ ](?:yet[ ])?implemented[ \t.)\]]*$)
    """,
    re.VERBOSE | re.MULTILINE,
)
_NOTHING_ELSE = re.compile(
    r"\W*(?:todo|fixme|tbd|tba|placeholder|lorem ipsum|n/?a|\{\{[^{}\n]{1,60}\}\})\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tool calls of a worker, and how many of them went well."""

    calls: int = 0
    successes: int = 0


def placeholders(text: str) -> tuple[str, ...]:
    """Marks that stand where content is missing, each as it is written."""
    if _NOTHING_ELSE.fullmatch(text):
        return (text.strip(),)
    return tuple(match.group().strip(" \t>*#/;<!-") for match in _PLACEHOLDER.finditer(text))


def worker_confidence(given: float | None, tools: ToolUse, text: str) -> float:
    """The worker's own confidence, or one derived from its tool calls and placeholders."""
    if given is not None:
        return rounded(given)
    share = tools.successes / tools.calls if tools.calls else 0.0
    worked = BASE + FROM_TOOLS * share
    loss = min(MOST_FOR_PLACEHOLDERS, PER_PLACEHOLDER * len(placeholders(text)))
    return rounded(max(0.0, worked - loss))


def iteration_confidence(reports: Iterable[WorkerReport]) -> float | None:
    """The mean over the workers that have a confidence; None when none has."""
    return _mean(report.confidence for report in reports)


def mean_rating(reports: Iterable[WorkerReport]) -> float | None:
    """The same, with the reviewer's score in place of the worker's own where there is one."""
    return _mean(report.rating for report in reports)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(sum(known) / len(known)) if known else None
