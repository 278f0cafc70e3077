"""Reads a judge's reply that came as labelled text instead of structure.

The labelled form: upper-case labels or level-2 headings (SCORES, FINDINGS, NEW FINDINGS, RESOLVED,
SUGGESTION), one entry a line:

    SCORES:
    - tone: 0.7 (too formal)
    NEW FINDINGS:
    - [important] tone: stiff opening. Fix: start with a question.
    RESOLVED: F1, F2
    SUGGESTION: shorten the second line
"""

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

_LABELS = ("scores", "findings", "new findings", "suggestion", "suggestions", "resolved")
_UPPER = re.compile(r"([A-Z][A-Z _-]*[A-Z])\s*:\s*(.*)")
_HEADING = re.compile(r"##\s+([^:#]+?)\s*:?\s*")
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])\s+")
_NUMBER = re.compile(r"([01](?:\.\d+)?|\.\d+)(?:\s*/\s*1(?:\.0)?)?(?![\d.%/])")
_FINDING = re.compile(r"\[?(?P<severity>[A-Za-z]+)\]?\s*[:,-]?\s*(?P<rest>.+)")
_FIX = re.compile(r"\b[Ff]ix\s*:\s*")
_ID = re.compile(r"\bF\d+\b", re.IGNORECASE)

_SEVERITY_WORDS = frozenset(
    {"blocker", "critical", "important", "major", "high", "minor", "low", "suggestion", "medium"}
)


def read_labelled(text: str, dimensions: Sequence[str]) -> dict[str, JsonValue] | None:
    """The reply in the structured shape, or None when it has no scores label.

    Names match without regard to case. A score line that cannot be read drops its dimension, which
    then counts as missing. Without a gap of its own a dimension takes its first finding, or the
    suggestion.
    """
    sections = _sections(text)
    if "scores" not in sections:
        return None
    names = {name.casefold(): name for name in dimensions}
    findings = [
        found
        for label in ("findings", "new findings")
        for line in sections.get(label, ())
        if (found := _finding(line, names)) is not None
    ]
    suggestion = " ".join((*sections.get("suggestion", ()), *sections.get("suggestions", ())))
    scores = [
        _with_gap(found, findings, suggestion)
        for line in sections["scores"]
        if (found := _score(line, names)) is not None
    ]
    resolved: list[JsonValue] = [*_ID.findall(" ".join(sections.get("resolved", ())))]
    return {"dimensions": [*scores], "findings": [*findings], "resolved": resolved}


def _sections(text: str) -> Mapping[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        label, rest = _label(line)
        if label is not None:
            current = sections.setdefault(label, [])
            line = rest
        if line and line.casefold() not in {"none", "- none", "none."}:
            current.append(_BULLET.sub("", line, count=1) if _BULLET.match(line) else line)
    return sections


def _label(line: str) -> tuple[str | None, str]:
    if heading := _HEADING.fullmatch(line):
        name = heading.group(1).casefold()
        return (name, "") if name in _LABELS else (None, line)
    if upper := _UPPER.fullmatch(line):
        name = upper.group(1).casefold().replace("_", " ").replace("-", " ")
        return (name, upper.group(2)) if name in _LABELS else (None, line)
    return None, line


def _score(line: str, names: Mapping[str, str]) -> dict[str, JsonValue] | None:
    name, rest = _named(line, names)
    number = _NUMBER.match(rest) if name else None
    if name is None or number is None:
        return None
    gap = rest[number.end() :].strip().strip("()-–—:;,. ").strip()
    return {"name": name, "score": float(number.group(1)), "gap": gap}


def _named(line: str, names: Mapping[str, str]) -> tuple[str | None, str]:
    """The dimension that a line begins with, the longest that fits, and what follows it."""
    bare = line.strip("*` ")
    for folded in sorted(names, key=len, reverse=True):
        rest = bare[len(folded) :]
        if bare.casefold().startswith(folded) and not rest[:1].isalnum():
            return names[folded], rest.lstrip("*`:=-–— ").strip()
    return None, line


def _finding(line: str, names: Mapping[str, str]) -> dict[str, JsonValue] | None:
    severity, rest = "suggestion", line
    found = _FINDING.match(line)
    if found and found.group("severity").casefold() in _SEVERITY_WORDS:
        severity, rest = found.group("severity"), found.group("rest")
    name, said = _named(rest, names)
    if name is None or not said:
        return None
    title, *fixes = _FIX.split(said, maxsplit=1)
    return {
        "severity": severity,
        "dimension": name,
        "title": title.strip().rstrip(".;,"),
        "fix": fixes[0].strip() if fixes else "",
    }


def _with_gap(
    score: dict[str, JsonValue], findings: Sequence[Mapping[str, JsonValue]], suggestion: str
) -> dict[str, JsonValue]:
    if score["gap"]:
        return score
    titles = [found["title"] for found in findings if found["dimension"] == score["name"]]
    return {**score, "gap": titles[0] if titles else suggestion}
