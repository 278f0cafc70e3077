"""Reads what test programs and linters print."""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

SHOWN_FAILURES = 10
LINE_CHARACTERS = 500
_PYTEST_ENDS = frozenset(
    {"passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected"}
)


@dataclass(frozen=True, slots=True)
class Failed:
    """A test that did not pass: its name, where it is, and what was said."""

    name: str
    location: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """What a test program reported; skipped tests are not counted."""

    passed: int
    total: int
    failures: tuple[Failed, ...] = ()


def read_suite(text: str) -> Suite | None:
    """The first report that is recognised in a text, or None."""
    text = bounded(text)
    for reader in READERS:
        found = reader(text)
        if found is not None:
            return found
    return None


def bounded(text: str) -> str:
    """The text with long lines cut and blank ones joined, so that no pattern takes long on it."""
    kept: list[str] = [""]
    for line in text.splitlines():
        if line.strip() or kept[-1]:
            kept.append(line[:LINE_CHARACTERS] if line.strip() else "")
    return "\n".join(kept[1:])


def _pytest(text: str) -> Suite | None:
    counts: dict[str, int] = {}
    none = re.search(r"^(=+ )?no tests ran in ", text, re.M)
    for line in re.findall(r"^(?:=+ )?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", text, re.M):
        counts = {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z]+)", line)}
    if not counts.keys() & _PYTEST_ENDS:
        return Suite(0, 0) if none else None
    passed = counts.get("passed", 0) + counts.get("xfailed", 0)
    broken = sum(counts.get(kind, 0) for kind in ("failed", "error", "errors", "xpassed"))
    failures = [
        Failed(name, location=name.split("::")[0], detail=said)
        for name, said in re.findall(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", text, re.M)
    ]
    return Suite(passed, passed + broken, tuple(failures[:SHOWN_FAILURES]))


def _unittest(text: str) -> Suite | None:
    ran = re.findall(r"^Ran (\d+) tests? in ", text, re.M)
    if not ran:
        return None
    ended = re.findall(r"^(?:FAILED|OK|NO TESTS RAN)(?: \((.*)\))?$", text, re.M)
    counts = dict(re.findall(r"([a-z ]+)=(\d+)", ended[-1])) if ended else {}
    said = {name.strip(): int(number) for name, number in counts.items()}
    broken = sum(said.get(kind, 0) for kind in ("failures", "errors", "unexpected successes"))
    total = int(ran[-1]) - said.get("skipped", 0)
    failures = [
        Failed(name) for name in re.findall(r"^(?:FAIL|ERROR): (\S+(?: \(\S+\))?)", text, re.M)
    ]
    # A module that cannot be imported is an error, though no test of it ran.
    total = max(total, broken)
    return Suite(total - broken, total, tuple(failures[:SHOWN_FAILURES]))


def _jest(text: str) -> Suite | None:
    found = re.findall(r"^Tests:\s+(.*\d+ total)$", text, re.M)
    if not found:
        return None
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z]+)", found[-1])}
    names = re.findall(r"^\s+● (.+)$", text, re.M)
    return _counted(counts.get("passed", 0), counts.get("failed", 0), names)


def _vitest(text: str) -> Suite | None:
    found = re.findall(r"^\s+Tests  (.*)\(\d+\)$", text, re.M)
    if not found:
        return None
    counts = {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z]+)", found[-1])}
    names = re.findall(r"^ FAIL  (.+)$", text, re.M)
    return _counted(counts.get("passed", 0), counts.get("failed", 0), names)


def _mocha(text: str) -> Suite | None:
    found = re.findall(r"^\s+(\d+) passing\b", text, re.M)
    if not found:
        return None
    failing = re.findall(r"^\s+(\d+) failing\b", text, re.M)
    names = re.findall(r"^\s+\d+\) ((?!\d).+[^:])$", text, re.M)
    return _counted(int(found[-1]), int(failing[-1]) if failing else 0, names)


def _node(text: str) -> Suite | None:
    def count(kind: str) -> int | None:
        found = re.findall(rf"^(?:#|ℹ) {kind} (\d+)$", text, re.M)
        return int(found[-1]) if found else None

    passed, failed = count("pass"), count("fail")
    if passed is None or failed is None:
        return None
    names = re.findall(r"^\s*(?:not ok \d+ -|✖) (.+?)(?: \([\d.]+ms\))?$", text, re.M)
    return _counted(passed, failed + (count("cancelled") or 0), names)


def _cargo(text: str) -> Suite | None:
    results = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed;", text, re.M)
    if not results:
        return None
    passed = sum(int(one) for one, _ in results)
    failed = sum(int(one) for _, one in results)
    return _counted(passed, failed, re.findall(r"^test (\S+) \.\.\. FAILED$", text, re.M))


def _go(text: str) -> Suite | None:
    passed = re.findall(r"^--- PASS: (\S+)", text, re.M)
    failed = re.findall(r"^--- FAIL: (\S+)", text, re.M)
    # A package that does not build has no tests that could be counted.
    broken = re.findall(r"^FAIL\t(\S+) \[(?:build|setup) failed\]$", text, re.M)
    if not (passed or failed or broken or re.search(r"^(ok|\?)\s+\S+\s.*$", text, re.M)):
        return None
    return _counted(len(passed), len(failed) + len(broken), [*failed, *broken])


def _counted(passed: int, failed: int, names: list[str]) -> Suite:
    unique = dict.fromkeys(name.strip() for name in names)
    failures = tuple(Failed(name) for name in unique) if failed else ()
    return Suite(passed, passed + failed, failures[:SHOWN_FAILURES])


READERS: tuple[Callable[[str], Suite | None], ...] = (
    _pytest,
    _unittest,
    _jest,
    _vitest,
    _mocha,
    _node,
    _cargo,
    _go,
)


Level = Literal["error", "warning"]
_LINE = re.compile(
    r"^(?P<path>[^\s:][^:\n]*):(?P<row>\d+)(?::\d+)?:?\s+(?P<said>\S.*)$", re.MULTILINE
)
_CODE = re.compile(r"^(?P<code>[A-Z]+\d+)\b")
_TOTAL = re.compile(r"^Found (\d+) errors?\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that a linter objects to."""

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
    """The remarks in a linter's output; None when it is no report that is known.

    Args:
        text: what the linter wrote to its standard output.
        folders: what to leave out at the beginning of paths.
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
    found = [
        Remark(_level(match["said"]), match["said"], f"{match['path']}:{match['row']}")
        for match in _LINE.finditer(text)
    ]
    if found:
        return found
    total = _TOTAL.search(text)
    if total:
        return [Remark("error", "an error that is not listed", "")] * min(int(total[1]), 1_000)
    return None


def _level(said: str) -> Level:
    if re.match(r"(error|fatal)\b", said, re.IGNORECASE):
        return "error"
    if re.match(r"warn(ing)?\b", said, re.IGNORECASE):
        return "warning"
    code = _CODE.match(said)
    # flake8: E and F are errors; W, C and those of extensions are matters of style.
    return "warning" if code and code["code"][0] not in "EF" else "error"


def _inside(location: str, folders: Sequence[str]) -> str:
    for folder in folders:
        if location.startswith(folder.rstrip("/") + "/"):
            return os.path.normpath(location[len(folder.rstrip("/")) + 1 :])
    return location.removeprefix("./")
