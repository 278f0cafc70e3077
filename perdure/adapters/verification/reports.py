"""Reads the reports of test programs and linters."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

SHOWN_FAILURES = 10
LINE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Failed:
    """A test that did not pass: its name, its place and its message."""

    name: str
    location: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """The counts of a test run, without skipped tests."""

    passed: int
    total: int
    failures: tuple[Failed, ...] = ()


def read_junit(report: bytes) -> Suite | None:
    """The tests of a report in JUnit's XML; None if it is not one."""
    # Only with a DOCTYPE can entities make a small file huge, and no test program writes one.
    if b"<!DOCTYPE" in report:
        return None
    try:
        root = ElementTree.fromstring(report)
    except (ElementTree.ParseError, LookupError, ValueError):
        return None
    if root.tag not in {"testsuites", "testsuite"}:
        return None
    passed, failures = 0, list[Failed]()
    for case in root.iter("testcase"):
        broken = next((one for one in case if one.tag in {"failure", "error"}), None)
        if broken is not None:
            failures.append(_failed(case, broken))
        elif case.find("skipped") is None:
            passed += 1
    return Suite(passed, passed + len(failures), tuple(failures[:SHOWN_FAILURES]))


def _failed(case: ElementTree.Element, broken: ElementTree.Element) -> Failed:
    name, place = case.get("name", "a test"), case.get("file", "")
    within = place or case.get("classname", "")
    said = (broken.get("message") or broken.text or "").strip().partition("\n")[0]
    return Failed(f"{within}::{name}" if within else name, place, said[:LINE_CHARACTERS])


def read_unittest(text: str) -> Suite | None:
    """The counts that Python's unittest prints, its only report; None if there are none."""
    text = bounded(text)
    ran = re.findall(r"^Ran (\d+) tests? in ", text, re.M)
    if not ran:
        return None
    ended = re.findall(r"^(?:FAILED|OK|NO TESTS RAN)(?: \((.*)\))?$", text, re.M)
    counts = dict(re.findall(r"([a-z ]+)=(\d+)", ended[-1])) if ended else {}
    said = {name.strip(): int(number) for name, number in counts.items()}
    broken = sum(said.get(kind, 0) for kind in ("failures", "errors", "unexpected successes"))
    # The last ones are the runner's own: tests may print such lines too.
    total = int(ran[-1]) - said.get("skipped", 0)
    failures = [
        Failed(name) for name in re.findall(r"^(?:FAIL|ERROR): (\S+(?: \(\S+\))?)", text, re.M)
    ]
    # A module that cannot be imported counts as an error although none of its tests ran.
    total = max(total, broken)
    return Suite(total - broken, total, tuple(failures[:SHOWN_FAILURES]))


def bounded(text: str) -> str:
    """The text with long lines cut and blank lines joined, so that no pattern is slow on it."""
    kept: list[str] = [""]
    for line in text.splitlines():
        if line.strip() or kept[-1]:
            kept.append(line[:LINE_CHARACTERS] if line.strip() else "")
    return "\n".join(kept[1:])


Level = Literal["error", "warning"]
_LINE = re.compile(
    r"^(?P<path>[^\s:][^:\n]*):(?P<row>\d+)(?::\d+)?:?\s+(?P<said>\S.*)$", re.MULTILINE
)
_CODE = re.compile(r"^(?P<code>[A-Z]+\d+)\b")
_NOTE = re.compile(r"(note|info|information|hint|help)\s*:", re.IGNORECASE)
_SHELLCHECK = re.compile(r"\[SC\d+\]$")
_TOTAL = re.compile(r"^Found (\d+) errors?\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Remark:
    """One complaint of a linter."""

    level: Level
    said: str
    location: str


class _Given(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Place(_Given):
    row: int


class _Ruff(_Given):
    filename: str
    code: str | None = None
    message: str
    location: _Place | None = None
    severity: str = "error"


class _Message(_Given):
    severity: int
    message: str
    line: int | None = None
    ruleId: str | None = None


class _Eslint(_Given):
    filePath: str
    messages: tuple[_Message, ...]


_RUFF: TypeAdapter[list[_Ruff]] = TypeAdapter(list[_Ruff])
_ESLINT: TypeAdapter[list[_Eslint]] = TypeAdapter(list[_Eslint])


def read_lint(text: str, *, folders: Sequence[str] = ()) -> tuple[Remark, ...] | None:
    """The remarks in a linter's output; None if its form is unknown.

    Args:
        text: what the linter wrote to its standard output.
        folders: prefixes to remove from paths.
    """
    remarks = _json(text) if text.lstrip().startswith("[") else None
    if remarks is None:
        remarks = _lines(bounded(text))
    if remarks is None:
        return None
    return tuple(Remark(one.level, one.said, _inside(one.location, folders)) for one in remarks)


def _json(text: str) -> list[Remark] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    try:
        return [
            Remark(
                "warning" if item.severity == "warning" else "error",
                f"{item.code or 'error'} {item.message}",
                f"{item.filename}:{item.location.row}" if item.location else item.filename,
            )
            for item in _RUFF.validate_python(value)
        ]
    except ValidationError:
        pass
    try:
        return [
            Remark(
                "error" if said.severity >= 2 else "warning",
                f"{said.ruleId or 'error'} {said.message}",
                f"{item.filePath}:{said.line}" if said.line else item.filePath,
            )
            for item in _ESLINT.validate_python(value)
            for said in item.messages
        ]
    except ValidationError:
        return None


def _lines(text: str) -> list[Remark] | None:
    found = list(_LINE.finditer(text))
    remarks = [
        Remark(level, match["said"], f"{match['path']}:{match['row']}")
        for match in found
        if (level := _level(match["said"])) is not None
    ]
    total = None if remarks else _TOTAL.search(text)
    if total:
        return [Remark("error", "an error that is not listed", "")] * min(int(total[1]), 1_000)
    return remarks if found else None


def _level(said: str) -> Level | None:
    """How bad a complaint is; None for a note, which only explains another or informs."""
    if _NOTE.match(said):
        # ShellCheck calls its lesser complaints notes, as no other level of gcc is left for them.
        return "warning" if _SHELLCHECK.search(said) else None
    if re.match(r"(error|fatal)\b", said, re.IGNORECASE):
        return "error"
    if re.match(r"warn(ing)?\b", said, re.IGNORECASE):
        return "warning"
    code = _CODE.match(said)
    # In flake8 E and F are errors; W, C and codes of extensions are matters of style.
    return "warning" if code and code["code"][0] not in "EF" else "error"


def _inside(location: str, folders: Sequence[str]) -> str:
    for folder in folders:
        if location.startswith(folder.rstrip("/") + "/"):
            return os.path.normpath(location[len(folder.rstrip("/")) + 1 :])
    return location.removeprefix("./")
