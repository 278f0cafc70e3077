"""The rolling summary: what a manager reads of the iterations so far, rebuilt from state."""

from collections.abc import Sequence

from perdure.domain.delegation.decisions import DecisionName
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.foundation.base import FrozenModel

TREND = 6
OLDER_LINES = 40


class Round(FrozenModel):
    """One iteration as it is remembered.

    `note` says what became of a decision that was not simply carried out; `workers` are kept for
    the newest rounds only, `findings` are their key findings.
    """

    index: int
    decision: DecisionName | None = None
    reason: str = ""
    confidence: float | None = None
    note: str = ""
    workers: tuple[WorkerReport, ...] = ()

    @property
    def findings(self) -> tuple[str, ...]:
        """What its workers found, each in one line."""
        return tuple(item.key_finding for item in self.workers if item.key_finding)


def rolling_summary(rounds: Sequence[Round], *, window: int) -> str:
    """Progress, the trend of confidence, the newest rounds in detail, older ones a line each.

    The state keeps the newest rounds only; how many came before them, their numbers tell.
    """
    if not rounds:
        return "Nothing was done yet."
    recent, older = rounds[-window:], rounds[:-window]
    sections = [_progress(rounds), _trend(rounds)]
    sections.append("Newest iterations:\n" + "\n".join(_detail(item) for item in reversed(recent)))
    if older:
        shown = older[-OLDER_LINES:]
        lines = [_line(item) for item in reversed(shown)]
        left_out = shown[0].index - 1
        lines += [f"- and {left_out} before those"] * bool(left_out)
        sections.append("Older iterations:\n" + "\n".join(lines))
    return "\n\n".join(section for section in sections if section)


def _progress(rounds: Sequence[Round]) -> str:
    known = [item.confidence for item in rounds if item.confidence is not None]
    return f"Iteration {rounds[-1].index}, {_score(known[-1] if known else None)}."


def _trend(rounds: Sequence[Round]) -> str:
    known = [item for item in rounds if item.confidence is not None][-TREND:]
    steps = " → ".join(f"{item.index}: {item.confidence:.2f}" for item in known)
    return f"Trend of confidence: {steps}" if steps else ""


def _detail(round: Round) -> str:
    lines = [f"{_line(round)}{f', because: {round.reason}' if round.reason else ''}"]
    for report in round.workers:
        told = report.key_finding or report.error or "nothing"
        at = f" ({report.subtask})" if report.subtask else ""
        lines.append(f"  - {report.worker}{at}, {_score(report.confidence)}: {told}")
    return "\n".join(lines)


def _line(round: Round) -> str:
    said = round.decision or "unreadable"
    note = f": {round.note}" if round.note else ""
    return f"- {round.index} {said}, {_score(round.confidence)}{note}"


def _score(confidence: float | None) -> str:
    return "no confidence" if confidence is None else f"confidence {confidence:.2f}"
