"""Task files: drafts that validate, shipped ones that can be read."""

import json
import re
import shlex

import pytest
import yaml

from perdure.domain.specs import KINDS
from perdure.interfaces.definitions import DEFINITIONS
from perdure.submission.packaged_tasks import definition_names
from tests.interfaces.cli.memory import Installation

GOAL = "Write a tagline of at most 9 words that mentions 'rope'"


def test_new_writes_a_task_that_validates(perdure: Installation) -> None:
    assert perdure.run("new", GOAL) == 0
    path = perdure.folder / "write-a-tagline-of-at.yaml"
    task = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert task["goal"] == GOAL
    assert len(task["rubric"]) >= 2
    assert path.name in perdure.out
    assert perdure.run("validate", path.name) == 0
    assert "is a valid task of kind refine" in perdure.out


@pytest.mark.parametrize("goal", ["", "  "])
def test_new_wants_a_goal(perdure: Installation, goal: str) -> None:
    assert perdure.run("new", goal) == 2
    assert "The goal is empty." in perdure.err
    assert list(perdure.folder.glob("*.yaml")) == []


def test_a_file_that_is_no_text_is_refused_with_a_cure(perdure: Installation) -> None:
    (perdure.folder / "task.yaml").write_bytes(bytes([0xFF, 0xFE]))
    assert perdure.run("validate", "task.yaml") == 2
    assert "is not UTF-8 text" in perdure.err
    assert "Save it as UTF-8" in perdure.err


def test_new_never_writes_over_a_file_unasked(perdure: Installation) -> None:
    (perdure.folder / "t.yaml").write_text("mine", encoding="utf-8")
    assert perdure.run("new", GOAL, "--to", "t.yaml") == 5
    assert (perdure.folder / "t.yaml").read_text(encoding="utf-8") == "mine"
    assert perdure.run("new", GOAL, "--to", "t.yaml", "--force", "--json") == 0
    assert json.loads(perdure.out)["path"] == str(perdure.folder / "t.yaml")


@pytest.mark.parametrize(
    "words",
    [("new", GOAL, "--to", "my tasks/t.yaml"), ("definitions", "job-matching", "--to", "my tasks")],
)
def test_the_command_that_runs_a_new_file_finds_it(
    perdure: Installation, words: tuple[str, ...]
) -> None:
    assert perdure.run(*words, terminal=True) == 0
    told = " ".join(re.sub("\x1b\\[[0-9;]*m", "", perdure.out).split())
    command = told.partition("edit it, then: ")[2].partition(" (its example")[0]
    *_, named = shlex.split(command)
    assert (perdure.folder / named).is_file()


def test_validate_needs_a_file(perdure: Installation) -> None:
    assert perdure.run("validate", "a goal") == 4
    (perdure.folder / "t.yaml").write_text("{kind: agent, goal: hi}", encoding="utf-8")
    assert perdure.run("validate", "t.yaml", "--json") == 0
    assert json.loads(perdure.out)["spec"]["kind"] == "agent"


@pytest.mark.parametrize("command", [("validate",), ("run",), ("run", "--dry-run")])
def test_a_pattern_that_cannot_be_used_is_refused(
    perdure: Installation, command: tuple[str, ...]
) -> None:
    rubric = "[{name: a, evaluator: {check: regex, pattern: '(?=a)'}}]"
    text = f"{{kind: refine, goal: hi, rubric: {rubric}}}"
    (perdure.folder / "t.yaml").write_text(text, encoding="utf-8")
    assert perdure.run(*command, "t.yaml") == 2
    assert "rubric[0].evaluator.pattern" in perdure.err
    assert "RE2 syntax, without look-around" in perdure.err


def test_definitions_are_listed_and_shown(perdure: Installation) -> None:
    assert perdure.run("definitions") == 0
    assert "product-page " in perdure.out
    for name in definition_names(DEFINITIONS):
        assert perdure.run("definitions", name) == 0
        assert yaml.safe_load(perdure.out)["kind"] in KINDS
    assert perdure.run("definitions", "product-pag") == 4
    assert "Did you mean product-page?" in perdure.err
    assert perdure.run("definitions", "--json") == 0
    assert "product-page" in {task["name"] for task in json.loads(perdure.out)["tasks"]}


def test_a_definition_says_how_it_is_run(perdure: Installation) -> None:
    assert perdure.run("definitions", "interview-analysis") == 0
    assert "perdure run interview-analysis --set context.transcript=file:PATH" in perdure.err


def test_a_definition_is_copied_with_its_example(perdure: Installation) -> None:
    assert perdure.run("definitions", "interview-analysis", "--to", "mine") == 0
    folder = perdure.folder / "mine"
    assert (folder / "interview-analysis" / "transcript.txt").is_file()
    assert perdure.run("definitions", "interview-analysis", "--to", "mine") == 5
    task = "mine/interview-analysis.yaml"
    assert perdure.run("run", task) == 2
    assert perdure.run("run", task, "--example", "--detach") == 0
    [spec] = perdure.gateway.started
    assert str(spec.context["transcript"]).startswith("Interview for the position")


def test_an_example_goes_with_a_ready_made_task(perdure: Installation) -> None:
    assert perdure.run("run", "Write a haiku", "--example") == 2
    assert "goes with a ready-made task" in perdure.err
    (perdure.folder / "t.yaml").write_text("{kind: agent, goal: hi}", encoding="utf-8")
    assert perdure.run("run", "t.yaml", "--example") == 2
    assert "example.yaml is missing" in perdure.err
    assert perdure.run("run", "interview-analysis", "--example", "--detach") == 0
    [laid_out] = (perdure.folder / "home" / "examples").iterdir()
    assert laid_out.name.startswith("interview-analysis-")


@pytest.mark.long
def test_schemas_are_printed_written_and_checked(perdure: Installation) -> None:
    assert perdure.run("schema", "refine") == 0
    assert "rubric" in json.loads(perdure.out)["properties"]
    assert perdure.run("schema") == 0
    assert {"run", "result", "refine"} <= set(perdure.out.split())
    assert perdure.run("schema", "refin") == 2
    assert "Did you mean refine?" in perdure.err
    assert perdure.run("schema", "--check", "out") == 1
    assert perdure.run("schema", "--write", "out") == 0
    assert perdure.run("schema", "--all", "--check", "out") == 0
    (perdure.folder / "out" / "run.schema.json").write_text("{}", encoding="utf-8")
    assert perdure.run("schema", "--all", "--check", "out", "--json") == 1
    assert "run.schema.json" in json.loads(perdure.out)["stale"][0]
    assert perdure.run("schema", "refine", "--write", "other") == 2
    assert "KIND names one" in perdure.err
    assert not (perdure.folder / "other").exists()
    assert perdure.run("schema", "--all") == 2
