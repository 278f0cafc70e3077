"""Ready-made tasks by name, and inputs that are left open."""

from pathlib import Path

import pytest

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.submission.loading import load
from perdure.submission.packaged_tasks import definition_file, definition_names
from perdure.submission.types import Flags, Surroundings

TASK = """\
kind: agent
goal: Say hello.
workspace: .
context: {name: null, tone: warm}
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    (folder / "say-hello").mkdir(parents=True)
    (folder / "say-hello.yaml").write_text(TASK, encoding="utf-8")
    (folder / "say-hello" / "name.txt").write_text("Ada", encoding="utf-8")
    example = "{context: {name: {file: name.txt}}, models: {executor: other}}"
    (folder / "say-hello" / "example.yaml").write_text(example, encoding="utf-8")
    return folder


def around(tasks: Path) -> Surroundings:
    here = tasks.parent / "here"
    here.mkdir(exist_ok=True)
    return Surroundings(folder=here, definitions=tasks)


@pytest.mark.parametrize("name", ["say-hello", "definitions:say-hello", "definitions: say-hello"])
def test_a_task_is_found_by_name(name: str, tasks: Path) -> None:
    assert definition_file(name, tasks) == tasks / "say-hello.yaml"
    assert definition_names(tasks) == ("say-hello",)


@pytest.mark.parametrize("goal", ["Say hello", "say", "hello", "write-a-poem", "definitions"])
def test_words_are_no_name(goal: str, tasks: Path) -> None:
    assert definition_file(goal, tasks) is None


@pytest.mark.parametrize("name", ["say-helo", "definitions:say", "definitions:"])
def test_a_typo_starts_nothing(name: str, tasks: Path) -> None:
    with pytest.raises(NotFound, match="There is no task"):
        definition_file(name, tasks)


def test_the_name_of_a_loop_wants_a_goal(tasks: Path) -> None:
    (tasks.parent / "loops").mkdir()
    (tasks.parent / "loops" / "harness.yaml").touch()
    with pytest.raises(InvalidInput, match="harness is a loop") as caught:
        definition_file("harness", tasks)
    assert "perdure loops start harness" in (caught.value.cure or "")


def test_it_works_where_it_is_called(tasks: Path) -> None:
    spec = load("say-hello", Flags(sets=("context.name=Ben",)), surroundings=around(tasks)).spec
    assert spec.workspace == str(tasks.parent / "here")
    assert spec.context == {"name": "Ben", "tone": "warm"}


def test_an_input_that_is_left_open_is_asked_for(tasks: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--set context\.name=file:PATH"):
        load("say-hello", surroundings=around(tasks))


def test_flags_go_over_the_example(tasks: Path) -> None:
    example = tasks / "say-hello" / "example.yaml"
    spec = load("say-hello", Flags(example=example), surroundings=around(tasks)).spec
    assert (spec.context["name"], spec.models.executor) == ("Ada", "other")
    flags = Flags(example=example, model="mine", sets=("context.name=Ben",))
    spec = load("say-hello", flags, surroundings=around(tasks)).spec
    assert (spec.context["name"], spec.models.executor) == ("Ben", "mine")


def test_a_file_of_the_name_goes_first(tasks: Path) -> None:
    surroundings = around(tasks)
    (tasks.parent / "here" / "say-hello").write_text("{kind: agent, goal: mine}", encoding="utf-8")
    assert load("say-hello", surroundings=surroundings).spec.goal == "mine"
