"""Loop definitions on the command line: listed, shown, copied and checked."""

import json
import re

import jsonschema
import pytest
import yaml

from perdure.domain.specs import Spec
from perdure.interfaces.definitions import DEFINITIONS
from tests.interfaces.cli.memory import Installation

LOOPS = sorted(path.stem for path in (DEFINITIONS.parent / "loops").glob("*.yaml"))
OWN = """\
name: own
roles:
  - {role: coder, prompt: "Do {{what}}."}
  - {role: reviewer, prompt: Review it.}
parameters: [{name: what, description: what to do}]
termination_condition: {type: evaluation_bound, value: It works.}
"""


def test_loops_are_listed_beside_the_tasks(perdure: Installation) -> None:
    folder = perdure.folder / "loops"
    folder.mkdir()
    (folder / "own.yaml").write_text(OWN, encoding="utf-8")
    (folder / "bad.yaml").write_text("name: bad", encoding="utf-8")
    assert perdure.run("definitions") == 0
    for name in LOOPS:
        assert name in perdure.out
    assert re.search(r"own +coder → reviewer\* +workspace", perdure.out)
    assert "bad.yaml is left out: roles: found nothing" in perdure.err
    assert perdure.run("definitions", "--json") == 0
    told = json.loads(perdure.out)
    assert {loop["name"] for loop in told["loops"]} == {*LOOPS, "own"}
    assert len(told["broken"]) == 1


@pytest.mark.parametrize("name", LOOPS)
def test_a_built_in_loop_is_shown_with_how_it_is_started(perdure: Installation, name: str) -> None:
    assert perdure.run("definitions", name) == 0
    assert yaml.safe_load(perdure.out)["name"] == name
    assert f'perdure loops start {name} "goal"' in perdure.err
    assert perdure.run("definitions", name, "--json") == 0
    assert json.loads(perdure.out)["version"].startswith("sha256:")


def test_a_loop_says_which_parameters_it_wants(perdure: Installation) -> None:
    folder = perdure.folder / "loops"
    folder.mkdir()
    (folder / "own.yaml").write_text(OWN, encoding="utf-8")
    assert perdure.run("definitions", "own") == 0
    assert 'perdure loops start own "goal" --param what=…' in perdure.err
    assert "what  what to do" in perdure.err


def test_a_loop_is_copied_and_checked(perdure: Installation) -> None:
    assert perdure.run("definitions", "harness", "--to", "loops") == 0
    assert perdure.run("definitions", "harness", "--to", "loops") == 5
    assert perdure.run("validate", "loops/harness.yaml") == 0
    assert "harness.yaml is a valid loop definition: harness" in perdure.out
    assert "plan → code → review*" in perdure.out
    assert perdure.run("validate", "loops/harness.yaml", "--json") == 0
    assert json.loads(perdure.out)["definition"]["name"] == "harness"


def test_a_wrong_loop_is_told_with_all_its_problems(perdure: Installation) -> None:
    text = "roles: [{role: coder, promt: x}]\ntermination_condition: {type: goal_bond}\nversion: 1"
    (perdure.folder / "mine.yaml").write_text(text, encoding="utf-8")
    assert perdure.run("validate", "mine.yaml") == 2
    for said in ("Did you mean prompt?", "Did you mean goal_bound?", "name: found nothing"):
        assert said in perdure.err
    assert "version: found the field version; allowed: nothing" in perdure.err


STAGE = "roles: [{role: writer, prompt: p, loop: LOOP}]\n"
BOUND = "termination_condition: {type: iteration_bound, value: 1}\n"
ASKS = (
    "parameters: [{name: what, required: true}, {name: how, required: true, choices: [a, b]}]\n"
    "roles: [{role: writer, prompt: '{{what}} {{how}}'}]\n"
)


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        pytest.param("second", "first > second > first", id="a circle"),
        pytest.param("nowhere", "nowhere", id="no such loop"),
        pytest.param("asks", "what", id="parameters left out"),
        pytest.param("{definition: asks, parameters: {what: x, how: c}}", "a, b", id="choice"),
        pytest.param("{definition: asks, parameters: {what: x, hwo: a}}", "hwo", id="misspelt"),
        pytest.param("{definition: asks, parameters: {what: '{{x}}', how: '{{y}}'}}", "", id="ok"),
        pytest.param("'{{x}}'", "", id="the start says which"),
    ],
)
def test_a_loop_is_checked_with_the_loops_of_its_stages(
    perdure: Installation, loop: str, said: str
) -> None:
    given = "parameters: [{name: x, required: true}, {name: y, required: true}]\n"
    uses = "" if "{{" in loop else "[{role: plan, prompt: '{{x}} {{y}}'}, "
    stage = STAGE.replace("LOOP", loop).replace("[{", f"{uses or '['}{{", 1)
    folder = perdure.folder / "loops"
    folder.mkdir()
    for name, text in (
        ("first", given + (stage if uses else stage.replace("prompt: p", "prompt: '{{x}} {{y}}'"))),
        ("second", STAGE.replace("LOOP", "first")),
        ("asks", ASKS),
    ):
        (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}{BOUND}", encoding="utf-8")
    assert perdure.run("validate", "loops/first.yaml") == (2 if said else 0), perdure.err
    assert said in perdure.err


def test_a_task_is_checked_with_the_loop_that_it_names(perdure: Installation) -> None:
    path = perdure.folder / "task.yaml"
    roles = "{definition: research, parameters: {output_from: x}}"
    path.write_text(f"{{kind: roles, goal: '{{{{x}}}}', roles: {roles}}}", encoding="utf-8")
    assert perdure.run("validate", "task.yaml") == 2
    assert "Did you mean output_format?" in perdure.err
    assert "goal: found the placeholder {{x}}" in perdure.err
    path.write_text("{kind: roles, goal: g, roles: {definition: harness}}", encoding="utf-8")
    assert perdure.run("validate", "task.yaml") == 0


def test_a_script_is_in_the_store_when_its_task_is_checked(perdure: Installation) -> None:
    stored: list[bool] = []

    def looked_for(spec: Spec) -> Spec:
        _, address = str(spec.models.executor).split(":", 1)
        stored.append(address.partition("#")[0] in perdure.blobs.texts)
        return spec

    perdure.gateway.filled_in = looked_for
    (perdure.folder / "said.yaml").write_text("replies: [{text: a}]", encoding="utf-8")
    path = perdure.folder / "task.yaml"
    path.write_text("{kind: agent, goal: g, models: {executor: 'scripted:said.yaml'}}")
    assert perdure.run("validate", "task.yaml") == 0, perdure.err
    assert stored == [True]


def test_an_unknown_name_is_told_with_the_nearest(perdure: Installation) -> None:
    assert perdure.run("definitions", "harnes") == 4
    assert "Did you mean harness?" in perdure.err


@pytest.mark.parametrize("name", LOOPS)
def test_editors_accept_what_the_reader_accepts(perdure: Installation, name: str) -> None:
    assert perdure.run("schema", "loop-definition") == 0
    schema = json.loads(perdure.out)
    text = (DEFINITIONS.parent / "loops" / f"{name}.yaml").read_text(encoding="utf-8")
    for fields in (yaml.safe_load(text), yaml.safe_load(OWN)):
        jsonschema.validate(fields, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**yaml.safe_load(OWN), "rols": []}, schema)
