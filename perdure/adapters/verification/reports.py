"""Reads the reports of test programs and linters."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Literal
from xml.parsers import expat

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

SHOWN_FAILURES = 10
LINE_CHARACTERS = 500
PIECE = 1_000_000
TAG_CAP = 4_000_000
# Expat remembers each open tag and each name, so a report of many takes far more memory than bytes.
DEEPEST = 500
NAMES = 500


@dataclass(frozen=True, slots=True)
class Failed:
    """A test that did not pass: its name, its place and its message."""

    name: str
    location: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """The counts of a test run; `total` is without the skipped tests."""

    passed: int
    total: int
    failures: tuple[Failed, ...] = ()
    skipped: int = 0


class TooLarge(Exception):
    """A report that is not read, because it would take too long."""


def read_junit(report: BinaryIO) -> Suite | None:
    """The tests of a report in JUnit's XML; None if it is not one.

    Raises:
        TooLarge: one of its tags is.
    """
    reading, read = _JunitReading(), 0
    try:
        while piece := report.read(PIECE):
            # In pieces, because other threads only get their turn between them.
            reading.parser.Parse(piece, False)
            read += len(piece)
            # One tag is one piece of work, for which expat keeps all of it.
            if read - reading.parser.CurrentByteIndex > TAG_CAP:
                raise TooLarge
        reading.parser.Parse(b"", True)
    except (expat.ExpatError, LookupError, ValueError):
        return None
    total = reading.passed + reading.failed
    return Suite(reading.passed, total, tuple(reading.failures), reading.skipped)


@dataclass(slots=True)
class _Case:
    """A test case while the parser is inside it."""

    about: dict[str, str]
    depth: int
    broken: bool = False
    skipped: bool = False
    said: list[str] = field(default_factory=list[str])

    def as_failed(self) -> Failed:
        name, place = self.about.get("name", "a test"), self.about.get("file", "")
        within = place or self.about.get("classname", "")
        said = "".join(self.said).strip().partition("\n")[0]
        return Failed(f"{within}::{name}" if within else name, place, said[:LINE_CHARACTERS])


class _JunitReading:
    """Counts while the parser reads: with what the tests wrote, a report can be very large."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.failures: list[Failed] = []
        self._depth = 0
        self._names: set[str] = set()
        self._cases: list[_Case] = []
        self.parser = expat.ParserCreate()
        # Otherwise expat makes a call for each line of a text.
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _refuse(self, *_: object) -> None:
        # Only with a DOCTYPE can entities make a small file huge, and no test program writes one.
        raise ValueError("a report with a DOCTYPE")

    def _start(self, tag: str, about: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag not in {"testsuites", "testsuite"}:
            raise ValueError("another format")
        self._names |= {tag, *about}
        if self._depth > DEEPEST or len(self._names) > NAMES:
            raise ValueError("deeper than JUnit's, or with more names")
        # Without a handler expat passes over texts: what tests wrote may be very long.
        self.parser.CharacterDataHandler = None
        case = self._cases[-1] if self._cases else None
        if tag == "testcase":
            self._cases.append(_Case(about, self._depth))
        elif case is not None and self._depth == case.depth + 1:
            if tag in {"failure", "error"} and not case.broken:
                case.broken = True
                case.said = [about.get("message", "")]
                if not case.said[0]:
                    self.parser.CharacterDataHandler = case.said.append
            case.skipped = case.skipped or tag == "skipped"

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self.parser.CharacterDataHandler = None
        if tag != "testcase":
            return
        case = self._cases.pop()
        if case.broken:
            self.failed += 1
            if len(self.failures) < SHOWN_FAILURES:
                self.failures.append(case.as_failed())
        elif case.skipped:
            self.skipped += 1
        else:
            self.passed += 1


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
    skipped = said.get("skipped", 0)
    total = int(ran[-1]) - skipped
    failures = [
        Failed(name) for name in re.findall(r"^(?:FAIL|ERROR): (\S+(?: \(\S+\))?)", text, re.M)
    ]
    # A module that cannot be imported counts as an error although none of its tests ran.
    total = max(total, broken)
    return Suite(total - broken, total, tuple(failures[:SHOWN_FAILURES]), skipped)


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
# A line of a log begins with the time, whose hour is no path.
_HOUR = re.compile(r"(?:^|[\s\[]|\dT)\d+$")
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
    found = [match for match in _LINE.finditer(text) if not _HOUR.search(match["path"])]
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
