"""Snapshots: parameters put in, role files read, nested loops resolved, or every problem told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.roles.definition import (
    Capability,
    LoopDefinition,
    LoopSnapshot,
    capabilities,
    required_by,
    unusable_reasons,
)
from perdure.domain.roles.definition_library import Library, RoleFile, StoredDefinition
from perdure.domain.roles.parse_definition import content_version, read_definition
from perdure.domain.roles.resolved_loop import Resolved, resolve_loop
from perdure.domain.tools.definitions import ToolDefinition

ROLES = {
    "coder": RoleFile(name="coder", access="full", system="You make things.", model="big"),
    "reviewer": RoleFile(name="reviewer", system="You review.", tools=("fs.read",)),
}
INVESTIGATE: dict[str, JsonValue] = {
    "name": "investigate",
    "description": "Looks into {{subject}}",
    "parameters": [
        {"name": "subject", "description": "what to look into"},
        {"name": "area"},
        {"name": "depth", "default": "moderate"},
        {"name": "rounds", "default": 3},
    ],
    "roles": [
        {"role": "coder", "prompt": "Investigate {{subject}} in {{area}} at {{depth}} depth."},
        {"role": "custom", "prompt": "p"},
    ],
    "termination_condition": {"type": "iteration_bound", "iterations": "{{rounds}}"},
}


def library(*more: dict[str, JsonValue]) -> Library:
    found: dict[str, StoredDefinition] = {}
    for fields in (INVESTIGATE, *more):
        read = read_definition(fields)
        assert isinstance(read, LoopDefinition), read
        found[read.name] = StoredDefinition(
            name=read.name,
            origin="home",
            version=content_version(fields),
            fields=fields,
            definition=read,
        )
    return Library(definitions=found, roles=ROLES)


def resolved(
    parameters: dict[str, JsonValue], *more: dict[str, JsonValue], name: str = "investigate"
) -> Resolved:
    return resolve_loop(
        library(*more), name, goal="Find {{subject}}.", parameters=parameters, provided=["memory"]
    )


def snapshot(parameters: dict[str, JsonValue]) -> LoopSnapshot:
    found = resolved(parameters)
    assert found.snapshot is not None, found.problems
    return found.snapshot


GIVEN: dict[str, JsonValue] = {"subject": "caches", "area": "the API"}


def test_parameters_are_put_in_everywhere() -> None:
    found = resolved({**GIVEN, "rounds": 5})
    assert found.goal == "Find caches."
    assert found.snapshot is not None
    definition = found.snapshot.definition
    assert definition.description == "Looks into caches"
    assert definition.roles[0].prompt == "Investigate caches in the API at moderate depth."
    assert definition.model_dump()["termination_condition"]["iterations"] == 5
    assert found.snapshot.parameters == {
        "subject": "caches",
        "area": "the API",
        "depth": "moderate",
        "rounds": "5",
    }
    assert found.snapshot.version == content_version(INVESTIGATE)
    assert LoopSnapshot.model_validate_json(found.snapshot.model_dump_json()) == found.snapshot


@given(subject=st.text(min_size=1, max_size=200))
def test_values_are_data_and_never_expanded(subject: str) -> None:
    found = resolved({"subject": subject + "{{area}} {{nothing}}", "area": "X"})
    assert found.goal == f"Find {subject}{{{{area}}}} {{{{nothing}}}}."


def test_values_that_are_no_texts_are_put_in_as_json() -> None:
    given: dict[str, JsonValue] = {"subject": ["a", 1], "area": True}
    assert 'Investigate ["a", 1] in true' in snapshot(given).definition.roles[0].prompt


def test_a_role_takes_what_it_leaves_open_from_its_file() -> None:
    first, second = snapshot(GIVEN).definition.roles
    assert (first.access, first.model, first.system) == ("full", "big", "You make things.")
    assert (second.access, second.tools) == ("readonly", None)
    assert "the custom of a team" in second.system


def test_a_definition_goes_over_the_file_of_its_role() -> None:
    own: dict[str, JsonValue] = {
        "name": "own",
        "roles": [
            {"role": "coder", "prompt": "p", "access": "readonly", "system": "Mine.", "model": "s"},
            {"role": "reviewer", "prompt": "p"},
        ],
        "termination_condition": {"type": "manual"},
    }
    found = resolve_loop(library(own), "own", goal="g", parameters={}, provided=())
    assert found.snapshot is not None
    first, second = found.snapshot.definition.roles
    assert (first.access, first.model, first.system) == ("readonly", "s", "Mine.")
    assert second.tools == ("fs.read",)


def test_a_value_is_one_of_its_choices() -> None:
    own: dict[str, JsonValue] = {
        "name": "own",
        "parameters": [{"name": "depth", "default": 1, "choices": [1, 2, "deep"]}],
        "roles": [{"name": "look", "prompt": "{{depth}}"}],
        "termination_condition": {"type": "manual"},
    }
    for value, prompt in ((2, "2"), ("2", "2"), ("deep", "deep"), (None, "1")):
        given: dict[str, JsonValue] = {"depth": value}
        found = resolve_loop(library(own), "own", goal="g", parameters=given, provided=())
        assert found.snapshot is not None
        assert found.snapshot.definition.roles[0].prompt == prompt
    wrong: dict[str, JsonValue] = {"depth": "deap"}
    found = resolve_loop(library(own), "own", goal="g", parameters=wrong, provided=())
    assert [str(one) for one in found.problems] == [
        'roles.parameters.depth: found "deap"; allowed: one of 1, 2, deep. Did you mean deep?'
    ]


WRONG: dict[str, tuple[dict[str, JsonValue], list[str]]] = {
    "all missing ones in one": (
        {},
        ["roles.parameters: found no value for subject, area; allowed: a value for each: "
         "subject (what to look into); area."],
    ),
    "null is missing": (
        {"subject": None, "area": "x"},
        ["roles.parameters: found no value for subject"],
    ),
    "undeclared": (
        {**GIVEN, "dept": "x", "zzz": 1},
        ["roles.parameters.dept: found the parameter dept; allowed: one of subject, area, depth, "
         "rounds. Did you mean depth?", "roles.parameters.zzz"],
    ),
    "undeclared, without a value": (
        {**GIVEN, "dept": None},
        ["roles.parameters.dept: found the parameter dept"],
    ),
    "too long": ({**GIVEN, "depth": "x" * 20_001}, ["roles.parameters.depth: found 20,001"]),
    "no number": ({**GIVEN, "rounds": "many"}, ["investigate.termination_condition"]),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "expected"), WRONG.values(), ids=WRONG)
def test_wrong_parameters_are_told(parameters: dict[str, JsonValue], expected: list[str]) -> None:
    found = resolved(parameters)
    assert found.snapshot is None
    assert len(found.problems) == len(expected)
    for problem, said in zip(found.problems, expected, strict=True):
        assert said in str(problem)


def test_unknown_names_and_placeholders_are_told() -> None:
    (unknown,) = resolved({}, name="investigat").problems
    assert (unknown.path, unknown.nearest) == ("roles.definition", "investigate")
    found = resolve_loop(library(), "investigate", goal="{{subjet}}", parameters=GIVEN, provided=())
    assert [(one.path, one.nearest) for one in found.problems] == [("goal", "subject")]


def test_what_the_installation_lacks_is_told() -> None:
    needy: dict[str, JsonValue] = {**INVESTIGATE, "name": "needy", "requires": ["memory", "web"]}
    (found,) = resolved(GIVEN, needy, name="needy").problems
    assert str(found) == (
        "needy.requires: found web; allowed: what this installation offers: memory."
    )


def nest(name: str, inner: str, **more: JsonValue) -> dict[str, JsonValue]:
    return {
        "name": name,
        "roles": [{"name": "deep", "prompt": "p", "loop": {"definition": inner, **more}}],
        "termination_condition": {"type": "manual"},
    }


def test_nested_loops_are_snapshotted_too() -> None:
    outer = nest("outer", "investigate", parameters=GIVEN)
    found = resolve_loop(library(outer), "outer", goal="g", parameters={}, provided=())
    assert found.snapshot is not None
    inner = found.snapshot.nested["deep"]
    assert inner.definition.roles[0].prompt.startswith("Investigate caches")
    assert inner.definition.roles[0].system == "You make things."


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([nest("a", "a")], "a > a; allowed: a loop that does not run itself again"),
        ([nest("a", "b"), nest("b", "a")], "a > b > a; allowed: a loop that"),
        ([nest("a", "absent")], 'found "absent"'),
        ([nest("a", "investigate")], "found no value for subject, area"),
        (
            [nest("a", "b"), nest("b", "c"), nest("c", "d"), nest("d", "e"), nest("e", "f")],
            "at most 4 loops in one another",
        ),
    ],
    ids=["itself", "a circle", "unknown", "without parameters", "too deep"],
)
def test_nested_loops_that_cannot_run_are_told(
    more: list[dict[str, JsonValue]], expected: str
) -> None:
    found = resolve_loop(library(*more), "a", goal="g", parameters={}, provided=())
    assert found.snapshot is None
    assert expected in " ".join(str(problem) for problem in found.problems)


def wide(name: str, inner: str | None, stages: int) -> dict[str, JsonValue]:
    loop: dict[str, JsonValue] = {} if inner is None else {"loop": {"definition": inner}}
    roles: list[JsonValue] = [
        {"name": f"s{number}", "prompt": "p", **loop} for number in range(stages)
    ]
    return {"name": name, "roles": roles, "termination_condition": {"type": "manual"}}


def test_loops_that_multiply_are_refused_before_they_are_read() -> None:
    files = [wide("a", "b", 32), wide("b", "c", 32), wide("c", "d", 32), wide("d", None, 32)]
    found = resolve_loop(library(*files), "a", goal="g", parameters={}, provided=())
    (problem,) = found.problems
    assert "a > b > c" in problem.found and "at most 200 stages" in problem.allowed
    assert problem.path.endswith(".loop")


@pytest.mark.parametrize(("stages", "taken"), [(19, True), (20, False)])
def test_so_many_stages_may_be_in_all_loops_of_a_tree(stages: int, taken: bool) -> None:
    files = [wide("a", "b", 10), wide("b", None, stages)]
    found = resolve_loop(library(*files), "a", goal="g", parameters={}, provided=())
    assert (found.snapshot is not None) is taken


@pytest.mark.parametrize("task", ["---", "\u200b", "<!-- -->"])
@pytest.mark.parametrize("loop", [{"definition": "inner"}, {"kind": "delegation"}])
def test_a_stage_is_told_of_a_loop_that_would_get_no_goal(
    task: str, loop: dict[str, JsonValue]
) -> None:
    inner: dict[str, JsonValue] = {"name": "inner", "roles": [{"role": "coder", "prompt": "p"}]}
    outer: dict[str, JsonValue] = {
        "name": "outer",
        "parameters": [{"name": "task"}],
        "roles": [{"name": "deep", "prompt": "{{task}}", "loop": loop}],
        "termination_condition": {"type": "manual"},
    }
    found = resolve_loop(
        library(inner, outer), "outer", goal="g", parameters={"task": task}, provided=()
    )
    (problem,) = found.problems
    assert problem.path == "outer.roles.deep.prompt"


def test_capabilities_are_told_by_tools() -> None:
    assert capabilities(["todo.add", "sprint.read", "fs.read"], ["agent"]) == {
        "todos",
        "sprint",
        "projects",
    }
    assert capabilities([], ["delegation"]) == {"delegation"}


def tool(name: str, unavailable: str = "") -> ToolDefinition:
    return ToolDefinition(
        name=name, description="", parameters={}, access="read", unavailable=unavailable
    )


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([tool("shell.full"), tool("web.search", "offline")], None),
        ([tool("shell.full", "no sandbox")], "shell cannot be used on this worker: no sandbox"),
        ([tool("web.search", "offline"), tool("web.fetch")], None),
        ([], None),
    ],
    ids=["usable", "no sandbox", "one of its tools", "another worker's names"],
)
def test_what_a_definition_requires_is_met_by_what_the_worker_can_use(
    tools: list[ToolDefinition], why: str | None
) -> None:
    found = unusable_reasons({"a.requires": ("shell", "memory")}, tools)
    assert found == ({} if why is None else {"a.requires": why})


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ("artifacts", "artifact.read"),
        ("todos", "todo.add"),
        ("sprint", "sprint.read"),
        ("projects", "sprint.read"),
        ("skills", "skill.read"),
        ("memory", "memory.note"),
        ("web", "web.fetch"),
        ("shell", "shell.full"),
    ],
)
def test_no_capability_is_met_by_the_name_of_a_tool_alone(
    capability: Capability, name: str
) -> None:
    required = {"a.requires": (capability,)}
    told = {"a.requires": f"{capability} cannot be used on this worker: off"}
    assert unusable_reasons(required, [tool(name, "off"), tool("fs.read")]) == told
    assert unusable_reasons(required, [tool(name)]) == {}


def test_all_that_cannot_be_used_is_told_at_once() -> None:
    tools = [tool("shell.full", "no sandbox"), tool("web.fetch", "offline")]
    told = unusable_reasons({"a.requires": ("web", "shell"), "b.requires": ("shell",)}, tools)
    assert "web cannot" in told["a.requires"] and "shell cannot" in told["a.requires"]
    assert told["b.requires"] == "shell cannot be used on this worker: no sandbox"


def test_requirements_of_nested_loops_are_told_with_the_outer_ones() -> None:
    snap = snapshot({"subject": "s", "area": "a"})
    needy = snap.definition.model_copy(update={"name": "inner", "requires": ("shell",)})
    inner = snap.model_copy(update={"definition": needy})
    outer = snap.model_copy(update={"nested": {"coder": inner}})
    assert required_by(snap) == {}
    assert required_by(outer) == {"inner.requires": ("shell",)}
