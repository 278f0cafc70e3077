"""The page of promises names tests, commands and scenarios that exist, and leaves none out."""

import ast
import io
import re
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.measurement import IDS
from perdure.interfaces.cli.app import build
from tests.chaos.test_removed_guards import GUARDS
from tests.replay.test_mutations import QUICK, SLOW

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
OPERATORS = ("operations", "upgrades", "outages", "monitoring", "backup")
PAGES = {
    f"{name}.md": (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in OPERATORS
}
PAGES["operations.md"], DRILLS = PAGES["operations.md"].split("\n## What shows it\n")
CODE = re.compile(r"`([^`\n]+)`")
WORDS = tuple(dict.fromkeys(CODE.findall(PAGE)))
TOLD = dict.fromkeys((*WORDS, *CODE.findall("\n".join((*PAGES.values(), DRILLS)))))
NAMED = tuple(word for word in TOLD if word.startswith("tests/"))
SCENARIO = re.compile(r"^\| (R\d\d) ", re.MULTILINE)


@cache
def functions_of(file: Path) -> frozenset[str]:
    """The test functions of a file."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    functions = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def gone(named: str) -> bool:
    """Whether a test that a page names is not there, or a file that it names tests nothing."""
    path, _, function = named.partition("::")
    found = ROOT / path
    if function:
        return not found.exists() or function not in functions_of(found)
    tests = found.is_file() and found.name.startswith("test_")
    return not found.exists() or (tests and not functions_of(found))


def test_what_is_named_exists() -> None:
    assert NAMED
    assert [named for named in NAMED if gone(named)] == []


def test_every_procedure_names_what_shows_it() -> None:
    headings = [
        ("" if name == "operations.md" else name, re.sub(r"[^\w ]", "", one).lower())
        for name, page in PAGES.items()
        for one in re.findall(r"^###? (.+)$", page, re.MULTILINE)
        if not one.startswith("Perdure")  # an alert, which tests/ops raises
    ]
    wanted = {f"{name}#{one.replace(' ', '-')}" for name, one in headings}
    rows = [line for line in DRILLS.splitlines() if line.startswith("| [")]
    assert all(re.search(r"`tests/[^`]+`", row) for row in rows)
    assert set(re.findall(r"\]\((\S*#[\w-]+)\)", DRILLS)) == wanted - {"outages.md#troubleshooting"}


def test_every_promise_and_scenario_names_what_shows_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "| ---" not in line]
    headed = [row for row in rows if row.endswith((" what shows it |", " how |"))]
    assert len(headed) == 5
    bare = [row for row in rows if row not in headed and not CODE.search(row.split(" | ")[-1])]
    assert bare == []


def test_every_scenario_is_on_the_page_once() -> None:
    wanted = {f"R{number:02}" for number in range(1, 52)}
    assert sorted(SCENARIO.findall(PAGE)) == sorted(wanted)


def test_every_test_of_a_scenario_is_in_its_row() -> None:
    rows = {row.split()[1]: row for row in PAGE.splitlines() if SCENARIO.match(row)}
    missing = [
        f"{file.name}::{name}"
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in sorted(functions_of(file))
        if (found := re.match(r"test_(r\d\d)_", name)) and name not in rows[found[1].upper()]
    ]
    assert missing == []


def test_commands_and_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = {word.split()[1] for word in WORDS if word.startswith("make ")}
    assert made
    assert made <= set(targets)
    typed = {word.split()[1] for word in WORDS if word.startswith("perdure ")}
    assert typed
    console = Console(file=io.StringIO())
    assert typed <= set(build("0", console, console))


@pytest.mark.parametrize("id_", re.findall(r"benchmarks --only (B\d)", PAGE))
def test_figures_can_be_measured(id_: str) -> None:
    assert id_ in IDS


def test_all_that_is_broken_on_purpose_is_told() -> None:
    told = set(re.findall(r"^- (.+?)[;.]$", section("Tests of the tests"), re.MULTILINE))
    assert told == {*GUARDS, *QUICK, *SLOW}
