"""What the manager sees of workers' results: one-line findings and a rolling summary."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.delegation.confidence import ToolUse, worker_confidence
from perdure.domain.delegation.decisions import DecisionName
from perdure.domain.delegation.placeholders import placeholders
from perdure.domain.delegation.results import WorkerReport, WorkerResult
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.generated_tools.draft import MOST_DRAFTS, ToolDraft, Unreadable, Wanted, drafted

FINDING_CHARACTERS = 150
_KEYS = ("findings", "result", "summary", "analysis", "answer", "output")
_EMPTY = frozenset({"", "-", "none", "null", "n/a", "na", "nil", "{}", "[]", "unknown"})


def key_finding(
    given: Mapping[str, JsonValue], *, tool_error: str = "", confidence: float | None = None
) -> str:
    """The first usable of the fields of a result; else its tool error, else its confidence."""
    told = (_told(given.get(key)) for key in _KEYS)
    found = next((text for text in told if text), "")
    if found or tool_error.strip():
        return shortened(found or f"tool error: {tool_error}")
    return "no result" if confidence is None else f"confidence {confidence:.2f}"


def is_usable(value: JsonValue) -> bool:
    """Whether a value says anything: blanks, words for nothing and empty containers do not."""
    match value:
        case str():
            return value.strip().casefold() not in _EMPTY
        case list():
            return any(is_usable(item) for item in value)
        case dict():
            return any(is_usable(item) for item in value.values())
        case _:
            # 0 and false are results.
            return value is not None


def shortened(text: str, limit: int = FINDING_CHARACTERS) -> str:
    """One line of at most so many characters."""
    return clipped_line(text, limit)


def _told(value: JsonValue) -> str:
    if not is_usable(value):
        return ""
    match value:
        case list():
            usable = [item for item in value if is_usable(item)]
            first = _told(usable[0])
            return first if len(usable) == 1 else f"{len(usable)} items: {first}"
        case dict():
            return "; ".join(
                f"{key}: {text}" for key, item in value.items() if (text := _told(item))
            )
        case _:
            return str(value)


FINDINGS_KEPT = 12
DIGEST_CHARACTERS = 300
NAMES_KEPT = 40


def result_text(result: WorkerResult) -> str:
    """The result alone, as text: what a reader is given."""
    value = result.result
    if value is None:
        return "\n".join(result.findings)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def results_text(results: Sequence[tuple[str, str]]) -> str:
    """Join the results of workers under their names; a single result is returned unchanged."""
    told = [(worker, text) for worker, text in results if text.strip()]
    # Without a heading, since it may be JSON that is handed over.
    if len(told) == 1:
        return told[0][1]
    return "\n\n".join(f"## {worker}\n\n{text}" for worker, text in told)


def confidence_of(result: WorkerResult, tools: ToolUse, text: str) -> float:
    """The worker's own confidence, or the derived one."""
    return worker_confidence(result.confidence, tools, text)


def is_doubtful(result: WorkerResult) -> bool:
    """Whether work whose worker did not say how sure it is shows itself that something is wrong.

    It has defects, or placeholders, or neither a result nor files.
    """
    if result.confidence is not None:
        return False
    is_empty = not is_usable(result.result) and not result.artifacts
    return is_empty or bool(result.defects) or bool(placeholders(result_text(result)))


def finding_of(result: WorkerResult, *, error: str, confidence: float | None) -> str:
    """The one line of it that the manager reads."""
    given: dict[str, JsonValue] = {"findings": list(result.findings), "result": result.result}
    return key_finding(given, tool_error=error, confidence=confidence)


def is_usable_result(result: WorkerResult) -> bool:
    return is_usable(result.result) or is_usable(list(result.findings)) or bool(result.artifacts)


def findings_kept(result: WorkerResult) -> tuple[str, ...]:
    """What travels on of its findings."""
    return tuple(shortened(item, DIGEST_CHARACTERS) for item in result.findings[:FINDINGS_KEPT])


def wanted_tools(result: WorkerResult) -> Wanted:
    """Every tool that a worker asked for: as a draft, or as a sentence about what is wrong."""
    read = [drafted(needed) for needed in result.tools_needed[:MOST_DRAFTS]]
    wrong = [*result.unread_tools, *(one.problem for one in read if isinstance(one, Unreadable))]
    if (more := len(result.tools_needed) - MOST_DRAFTS) > 0:
        # Told, since no tool is dropped unheard.
        wrong.append(f"{more} more tools were asked for; at most {MOST_DRAFTS} are taken")
    return Wanted(tuple(one for one in read if isinstance(one, ToolDraft)), tuple(wrong))


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
