"""Reads how many tests passed, and which did not, from what test programs print."""

import re
from collections.abc import Callable
from dataclasses import dataclass

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
