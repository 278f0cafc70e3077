"""How sure a worker's result is when it does not say so itself, and the mean of an iteration."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perdure.domain.delegation.results import WorkerReport
from perdure.domain.progress import rounded

BASE = 0.1
FROM_TOOLS = 0.6
PER_PLACEHOLDER = 0.05
MOST_FOR_PLACEHOLDERS = 0.3

_PLACEHOLDER = re.compile(
    r"\b(?:TODO|FIXME|TBD|lorem ipsum|placeholder)\b"
    r"|\[(?:insert|your|add)\b[^\]\n]{0,60}\]"
    r"|<(?:insert|your)\b[^>\n]{0,60}>"
    r"|\{\{[^{}\n]{1,60}\}\}"
    r"|\b(?:not|to be) (?:yet )?implemented\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tool calls of a worker, and how many of them went well."""

    calls: int = 0
    successes: int = 0


def placeholders(text: str) -> tuple[str, ...]:
    """Marks that stand where content is missing, each as it is written."""
    return tuple(match.group() for match in _PLACEHOLDER.finditer(text))


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
    known = [report.confidence for report in reports if report.confidence is not None]
    return rounded(sum(known) / len(known)) if known else None
