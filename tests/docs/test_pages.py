"""The pages under docs/ name what the product has: every field, command, option and reason."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import yaml
from cyclopts import App
from pydantic import BaseModel, JsonValue
from rich.console import Console

from ops import reference
from ops.reference import PAGES
from perdure.adapters.llm.script import Entry, Script, When, parse_script
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.evaluation.rubric import Dimension, Rubric
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.audit import Action
from perdure.domain.run.result import RunResult, exit_code
from perdure.domain.run.spec import Metadata
from perdure.domain.specs import RUN_SPEC
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.cli.app import build

Captured = pytest.CaptureFixture[str]
DOCS = Path(__file__).parents[2] / "docs"
WHOLE = (Rubric, Metadata)
ROW = re.compile(r"^\| (.+?) \| (.+?) \|", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
SOURCE = re.compile(r"`((?:perdure|workflows|activities|tests|docs|benchmarks)/[\w./-]+)`")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[str, str]:
    """First cell to second cell, for every code word in a first cell."""
    return {word: second for first, second in ROW.findall(text) for word in CODE.findall(first)}


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Every path below a model and its default, as JSON."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and inner not in WHOLE:
            yield from fields(inner, f"{path}.")
        elif field.is_required():
            yield path, "required"
        else:
            given = field.get_default(call_default_factory=True, validated_data={})
            shown = given.model_dump(mode="json") if isinstance(given, BaseModel) else given
            yield path, json.dumps(shown, default=str)


def test_the_page_on_task_files_has_every_field_and_its_default() -> None:
    shown = rows(page("task-files.md").split("## A dimension")[0])
    wanted = dict(fields(RefineSpec))
    assert set(wanted) <= set(shown)
    assert {name for name in shown if "." in name} <= set(wanted)
    told = {name: shown[name].strip("`") for name in wanted if shown[name] != "text"}
    assert told == {name: wanted[name] for name in told}


def test_the_page_on_delegation_has_every_setting_and_its_default() -> None:
    shown = rows(page("delegation.md").split("## Settings")[1].split("## Looking")[0])
    wanted = {k: v for k, v in fields(DelegationSpec) if k.startswith("delegation.")}
    assert set(shown) - {"rubric"} == set(wanted)
    told = {k: shown[k].strip("`") for k in wanted if shown[k] not in {"none", "all four"}}
    assert told == {name: wanted[name] for name in told}


def test_the_page_on_task_files_has_every_field_of_a_dimension() -> None:
    shown = rows(page("task-files.md").split("## A dimension")[1])
    assert set(Dimension.model_fields) <= set(shown)


def test_the_example_task_is_valid() -> None:
    tasks = [yaml.safe_load(text) for text in blocks(page("task-files.md"), "yaml")]
    assert tasks
    assert [RUN_SPEC.validate_python(task).kind for task in tasks] == [t["kind"] for t in tasks]


@pytest.fixture(scope="module")
def app() -> App:
    console = Console(file=io.StringIO())
    return build("0", console, console)


def commands(app: App, before: str = "") -> list[str]:
    """Every command by its words, such as `run` and `memory list`."""
    names = [name for name in app if not name.startswith("-")]
    if not names:
        return [before]
    return [word for name in names for word in commands(app[name], f"{before} {name}".strip())]


def test_the_reference_has_every_command(app: App) -> None:
    shown = set(re.findall(r"^#+ perdure ([a-z -]+)$", page("cli-reference.md"), re.MULTILINE))
    assert set(commands(app)) <= shown


def test_the_reference_has_no_option_that_help_has_not() -> None:
    option = re.compile(r"--[a-z][a-z-]*")
    shown = (DOCS.parent / "tests/architecture/surface/commands.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^\* `([^`]+)`", page("cli-reference.md"), re.MULTILINE)
    named = {name for line in listed for name in option.findall(line)}
    assert "--detach" in named
    assert named <= set(option.findall(shown))


@pytest.mark.parametrize("name", PAGES)
def test_pages_that_repeat_code_are_made_from_it(name: str) -> None:
    assert page(name) == PAGES[name](), "Write it anew: make reference"


def test_a_page_that_was_edited_by_hand_is_named(tmp_path: Path, capsys: Captured) -> None:
    for name, made in PAGES.items():
        (tmp_path / name).write_text(made(), encoding="utf-8")
    assert reference.main(["--check", str(tmp_path)]) == 0
    (tmp_path / "settings.md").write_text("by hand", encoding="utf-8")
    assert reference.main(["--check", str(tmp_path)]) == 1
    assert "settings.md\n" in capsys.readouterr().err
    assert reference.main([str(tmp_path)]) == 0
    assert reference.main(["--check", str(tmp_path)]) == 0


def test_the_page_on_results_has_every_field() -> None:
    result, record = page("results.md").split("## An iteration")
    assert set(rows(result)) == set(RunResult.model_fields)
    assert set(rows(record.split("## Outcomes")[0])) == set(IterationRecord.model_fields)


def test_the_page_on_results_has_every_outcome_and_reason() -> None:
    lines = [f"| `{name}` | {exit_code(name)} | {listed(REASONS[name])} |" for name in REASONS]
    assert all(line in page("results.md") for line in lines), "\n".join(lines)


def test_the_page_on_security_has_every_action_of_the_audit_trail() -> None:
    table = page("security.md").partition("| `action` |")[2].partition("\n\n")[0]
    first = " ".join(line.split("|")[1] for line in table.splitlines() if line.count("|") > 2)
    assert set(CODE.findall(first)) == set(get_args(Action))


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def test_the_page_on_the_scripted_model_has_every_field() -> None:
    text = page("scripted-model.md")
    words = set(CODE.findall(text.partition("| field |")[2]))
    for model in (Script, Entry, When):
        names = {field.alias or name for name, field in model.model_fields.items()}
        assert names <= words


def test_the_example_script_is_valid() -> None:
    for text in blocks(page("scripted-model.md"), "yaml"):
        assert parse_script(text).replies


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{one.name}" for one in DOCS.glob("*.md"))])
def test_links_and_pictures_exist(name: str) -> None:
    home = DOCS.parent / name
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", home.read_text(encoding="utf-8"))
    missing = [one for one in targets if "://" not in one and not (home.parent / one).exists()]
    assert not missing


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{one.name}" for one in DOCS.glob("*.md"))])
def test_files_that_are_named_exist(name: str) -> None:
    text = (DOCS.parent / name).read_text(encoding="utf-8")
    missing = [path for path in SOURCE.findall(text) if not (DOCS.parent / path).exists()]
    assert missing == []


def test_the_readme_is_short() -> None:
    assert len((DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()) < 150
