"""Reads a judge's reply that came as labelled text instead of structure.

The labelled form: upper-case labels or headings (SCORES, FINDINGS, NEW FINDINGS, RESOLVED,
SUGGESTION), one entry a line, or a bullet with what belongs to it:

    SCORES:
    - tone: 0.7 (too formal)
    NEW FINDINGS:
    - [important] tone: stiff opening. Fix: start with a question.
    RESOLVED: F1, F2
    SUGGESTION: shorten the second line

Every line under a label is understood or told as a problem: one that was passed over could have
been the blocker.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import JsonValue

from perdure.domain.evaluation.judge_reply_lines import (
    FIX,
    NOTHING,
    LineReader,
    speaks_against,
)
from perdure.domain.evaluation.scores import known_severity
from perdure.domain.foundation.plain_text import clipped

_ReadT = TypeVar("_ReadT", dict[str, JsonValue], tuple[str, ...])
SHOWN_CHARACTERS = 100
_LABELS = ("scores", "findings", "new findings", "suggestion", "suggestions", "resolved")
# What may stand under a label of its own and decides nothing.
_REMARKS = frozenset(
    {
        *("summary", "rationale", "reasoning", "reason", "notes", "note", "overall", "thoughts"),
        *("analysis", "comment", "comments", "explanation", "conclusion", "strengths", "judgement"),
    }
)
_UPPER = re.compile(r"\**([A-Z][A-Z _-]*[A-Z])\s*\**\s*:\s*\**\s*(.*)")
_HEADING = re.compile(r"#{1,6}\s+\**([^:#*]+?)\**\s*:?\s*\**\s*")
_BULLET = re.compile(r"(?:[-*•+]|\d{1,3}[.)])\s+")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A reply in the structured shape, and every line of it that could not be understood."""

    fields: dict[str, JsonValue]
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Sections:
    """The entries by label; under no label `strays` read as findings, `asides` may be scores."""

    entries: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unknown: list[str] = field(default_factory=list[str])
    strays: list[str] = field(default_factory=list[str])
    asides: list[str] = field(default_factory=list[str])


def read_labelled(text: str, dimensions: Sequence[str]) -> Labelled | None:
    """The reply as labelled text, or None when it has no scores label.

    Names match without regard to case. Without a gap of its own a dimension takes its first
    finding, or the suggestion.
    """
    lines = LineReader.of(dimensions)
    sections = _sections(text, lines)
    if "scores" not in sections.entries:
        return None
    problems = [
        *(f"{_short(line)!r} stands under no label that was asked for." for line in sections.strays)
    ]
    problems += [
        f"The label {label} is none of SCORES, FINDINGS, RESOLVED, SUGGESTION."
        for label in sections.unknown
    ]
    scores = [_or_problem(lines.score(one), problems) for one in sections.entries["scores"]]
    given = {(one["name"], one["score"]) for one in scores if one}
    problems += [
        f"{_short(line)!r} stands under no label, and SCORES gives another score."
        for line in sections.asides
        if isinstance(aside := lines.score(line), dict)
        and (aside["name"], aside["score"]) not in given
    ]
    findings = [
        _or_problem(lines.finding(one), problems)
        for label in ("findings", "new findings")
        for one in sections.entries.get(label, ())
    ]
    resolved = [
        _or_problem(lines.resolved(one), problems) for one in sections.entries.get("resolved", ())
    ]
    suggestion = _suggestion(sections, lines, problems)
    read = [one for one in findings if one]
    fields: dict[str, JsonValue] = {
        "dimensions": [_with_gap(one, read, suggestion) for one in scores if one],
        "findings": [*read],
        "resolved": [name for names in resolved for name in names or ()],
    }
    return Labelled(fields, tuple(problems))


def has_scores_label(text: str) -> bool:
    """Whether a text gives scores under a label."""
    return any(_label(line.strip())[0] == "scores" for line in text.splitlines())


def left_out(text: str, dimensions: Sequence[str]) -> tuple[str, ...]:
    """What stands around a structured reply and would stand against acceptance, as sentences.

    Words before and after the object are allowed; a finding among them would be lost.
    """
    found = _sections(text, LineReader.of(dimensions))
    under = [one for label in ("findings", "new findings") for one in found.entries.get(label, ())]
    graver = [label for label in found.unknown if known_severity(label.split()[0]) is not None]
    lines = [line.strip() for line in text.splitlines()]
    against = [line for line in lines if speaks_against(_BULLET.sub("", line, count=1))]
    told = dict.fromkeys([*under, *graver, *against])
    return tuple(f"{_short(one)!r} stands beside the JSON; put it into findings." for one in told)


def _or_problem(read: _ReadT | str, problems: list[str]) -> _ReadT | None:
    if isinstance(read, str):
        problems.append(read)
        return None
    return read


def _sections(text: str, lines: LineReader) -> _Sections:
    found = _Sections()
    current: list[str] | None = None
    # Before its first label a judge may think aloud: only what reads as a finding counts there.
    is_remark, bulleted = True, False
    for raw in text.splitlines():
        line = raw.strip()
        label, rest = _label(line)
        # A dimension may be written in capitals: `TONE: 0.7` is an entry and no label.
        if label is not None and not (label not in _LABELS and lines.begins_entry(line)):
            known = label in _LABELS
            current = found.entries.setdefault(label, []) if known else None
            is_remark, bulleted = known or label in _REMARKS, False
            if not is_remark and rest and not NOTHING.fullmatch(rest):
                found.unknown.append(label.upper())
            # A summary decides nothing, but a blocker that is told in it does.
            if label in _REMARKS and lines.stands_against(rest):
                found.strays.append(rest)
            line = rest if known else ""
        bare = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
        if not bare or NOTHING.fullmatch(bare):
            continue
        if current is None:
            if lines.stands_against(bare) or (not is_remark and label is None):
                found.strays.append(bare)
            found.asides.append(bare)
        elif current and _continues(raw, bare, bulleted=bulleted, lines=lines):
            current[-1] = f"{current[-1]} {bare}"
        else:
            current.append(bare)
            bulleted = bare != line
    return found


def _continues(raw: str, bare: str, *, bulleted: bool, lines: LineReader) -> bool:
    """Whether a line belongs to the entry above it."""
    if FIX.match(bare):
        return True
    is_bullet = _BULLET.match(raw.strip()) is not None
    return not is_bullet and not lines.begins_entry(bare) and (bulleted or raw[:1].isspace())


def _label(line: str) -> tuple[str | None, str]:
    if heading := _HEADING.fullmatch(line):
        return heading.group(1).strip().casefold(), ""
    if upper := _UPPER.fullmatch(line):
        name = upper.group(1).casefold().replace("_", " ").replace("-", " ")
        return name, upper.group(2).strip()
    return None, line


def _suggestion(sections: _Sections, lines: LineReader, problems: list[str]) -> str:
    said = [
        one for label in ("suggestion", "suggestions") for one in sections.entries.get(label, ())
    ]
    graver = [one for one in said if lines.stands_against(one)]
    problems += [f"{_short(one)!r} is a finding; put it under FINDINGS." for one in graver]
    return " ".join(said)


def _with_gap(
    score: dict[str, JsonValue], findings: Sequence[Mapping[str, JsonValue]], suggestion: str
) -> dict[str, JsonValue]:
    if score["gap"]:
        return score
    titles = [found["title"] for found in findings if found["dimension"] == score["name"]]
    return {**score, "gap": titles[0] if titles else suggestion}


def _short(line: str) -> str:
    return clipped(line, SHOWN_CHARACTERS)
