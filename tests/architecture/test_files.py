"""Sizes, names of machines and hosts, and the list of dependencies with their reasons."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGES, ROOT, modules, tracked_files

FILE_LINES = 400
FUNCTION_LINES = 60
MACHINE = re.compile(
    r"/root/[\w.]|/Users/[a-z]|/work/[a-z]|/mnt/[a-z]|(?<![\w.$}])/home/(?!me\b|user\b)[a-z]"
)
REGISTRY = re.compile(
    r"\bpyp[i]\.|pythonhoste[d]|registry\.npmj[s]|static\.crate[s]|artifactor[y]|--index-ur[l][ =]"
)
LOCKS = {
    "requirements.lock",
    "requirements-model.lock",
    "requirements-image.lock",
    "requirements-build.lock",
    "requirements-docs.lock",
}


def problems(pattern: re.Pattern[str], text: str) -> list[str]:
    return [match.group() for match in pattern.finditer(text)]


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"].values()
    lists = [project["project"]["dependencies"], *extras, *project["dependency-groups"].values()]
    return sorted({re.split(r"[\[<>=~!; ]", item)[0] for items in lists for item in items})


def is_named(dependency: str, text: str) -> bool:
    """Whether a line names it whole, or shortened after a relative (`pytest with asyncio, cov`)."""
    rows = text.splitlines()
    head, _, tail = dependency.partition("-")
    whole = re.compile(rf"(?<![\w-]){re.escape(dependency)}(?![\w-])")
    short = re.compile(rf"(?<!\w){re.escape(tail)}(?![\w-])") if tail else whole
    related = re.compile(rf"(?<![\w-]){re.escape(head)}(?!\w)")
    return any(whole.search(row) or (related.search(row) and short.search(row)) for row in rows)


@pytest.mark.long
def test_no_source_file_is_long() -> None:
    long = {
        str(module.path): lines
        for module in modules(*PACKAGES, "benchmarks")
        if (lines := len((ROOT / module.path).read_text(encoding="utf-8").splitlines()))
        > FILE_LINES
    }
    assert long == {}


@pytest.mark.long
def test_no_function_is_long() -> None:
    long = {
        f"{module.path}:{node.name}": lines
        for module in modules(*PACKAGES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY], ids=["machine paths", "registry hosts"])
def test_tracked_files_name_no(pattern: re.Pattern[str]) -> None:
    found: dict[str, list[str]] = {}
    for path in tracked_files():
        hits = problems(pattern, path.read_text(encoding="utf-8", errors="replace"))
        if hits:
            found[str(path.relative_to(ROOT))] = hits
    assert found == {}


def test_tracked_files_do_not_name_this_folder() -> None:
    here = {str(ROOT), str(Path.home())} - {"/", "/root"}
    naming = [
        path
        for path in tracked_files()
        if any(place in path.read_text(encoding="utf-8", errors="replace") for place in here)
    ]
    assert naming == []


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("/ro" "ot/x", True),
        ("cd /wo" "rk/main", True),
        ("/ho" "me/alice/code", True),
        ("/ho" "me/me/.perdure", False),
        ("$HO" "ME/home/x", False),
        ("./wo" "rkspace/", False),
        ("https://py" "pi.org/simple", True),
        ("--index-" "url https://x", True),
        ("--no-emit-index-" "url", False),
    ],
    ids=[
        "superuser", "checkout", "a person", "the example", "a variable", "a word", "registry",
        "option", "its opposite",
    ],
)  # fmt: skip
def test_the_patterns_see(text: str, seen: bool) -> None:
    assert bool(problems(MACHINE, text) or problems(REGISTRY, text)) is seen


def test_every_dependency_has_its_reason() -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    assert [name for name in dependencies() if not is_named(name, decisions)] == []


def test_every_decision_stands_once_below_an_area_of_the_contents() -> None:
    """The file merges by lines, so that a merge may put a moved section in twice."""
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    areas = re.findall(r"^## (.+)$", decisions, re.MULTILINE)
    assert areas == re.findall(r"^- \[(.+)\]\(#", decisions, re.MULTILINE)
    titles = re.findall(r"^- \*\*(.+?)\*\*", decisions, re.MULTILINE)
    assert [title for title in titles if titles.count(title) > 1] == []


@pytest.mark.parametrize(
    ("dependency", "named"),
    [
        ("httpx2", True),
        ("httpx", False),
        ("pytest-cov", True),
        ("opentelemetry-exporter-otlp", True),
        ("otlp", False),
        ("rich", False),
    ],
    ids=str,
)
def test_a_dependency_is_named_by(dependency: str, named: bool) -> None:
    text = "| httpx2 | core |\n| opentelemetry-api, -sdk, exporter-otlp |\n| pytest with cov |"
    assert is_named(dependency, text) is named
