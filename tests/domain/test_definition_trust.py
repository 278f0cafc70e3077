"""What a definition could become at most: its writer needs the scope for that."""

import pytest
from pydantic import JsonValue

from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.roles.definition_library import Library, RoleFile, StoredDefinition
from perdure.domain.roles.parse_definition import Fields
from perdure.domain.trust_requirements import written_needs


def loop(name: str, *stages: dict[str, JsonValue]) -> Fields:
    return {
        "name": name,
        "roles": list(stages),
        "parameters": [{"name": "level"}],
        "termination_condition": {"type": "iteration_bound", "iterations": 1},
    }


def stage(**fields: JsonValue) -> dict[str, JsonValue]:
    return {"name": "one", "role": "helper", "prompt": "Do.", **fields}


def stored(fields: Fields) -> StoredDefinition:
    return StoredDefinition(
        name=str(fields["name"]),
        origin="home",
        version="1",
        fields=fields,
        definition=LoopDefinition.model_construct(name=str(fields["name"])),
    )


FULL, MILD = loop("builds", stage(role="coder")), loop("reads", stage(access="readonly"))
LIBRARY = Library(
    definitions={"builds": stored(FULL), "reads": stored(MILD)},
    roles={
        "coder": RoleFile(name="coder", access="full", system="s"),
        "reader": RoleFile(name="reader", access="readonly", system="s"),
    },
)
DANGEROUS = {
    "full": (stage(access="full"), "roles[0].access"),
    "a parameter": (stage(access="{{level}}"), "roles[0].access"),
    "half a parameter": (stage(access="fu{{level}}"), "roles[0].access"),
    "a tool by parameter": (stage(access="minimal", tools=["{{level}}"]), "roles[0].tools"),
    "tools by parameter": (stage(access="minimal", tools="{{level}}"), "roles[0].tools"),
    "a role that brings it": (stage(role="coder"), "roles[0].role"),
    "a role by its name": ({"name": "coder", "prompt": "Do."}, "roles[0].role"),
    "a role by parameter": (stage(role="{{level}}"), "roles[0].role"),
    "a loop that has it": (stage(loop="builds"), "roles[0].loop.roles[0].role"),
    "a loop with parameters": (
        stage(loop={"definition": "builds", "parameters": {}}),
        "roles[0].loop.roles[0].role",
    ),
    "a loop by parameter": (stage(loop="{{level}}"), "roles[0].loop"),
    "its definition by parameter": (
        stage(loop={"definition": "{{level}}"}),
        "roles[0].loop.definition",
    ),
}


@pytest.mark.parametrize(("role", "place"), DANGEROUS.values(), ids=DANGEROUS)
def test_what_could_become_full_needs_trust(role: dict[str, JsonValue], place: str) -> None:
    assert written_needs(loop("mine", role), LIBRARY) == (place,)


@pytest.mark.parametrize(
    "role",
    [
        stage(),
        stage(role="reader"),
        stage(role="coder", access="readonly"),
        stage(loop="reads"),
        stage(loop="nobody-knows-it"),
        stage(prompt="Use {{level}}."),
    ],
    ids=["a plain role", "a role that reads", "narrowed", "a loop", "an unknown loop", "a prompt"],
)
def test_what_stays_harmless_needs_nothing(role: dict[str, JsonValue]) -> None:
    assert written_needs(loop("mine", role), LIBRARY) == ()


def test_loops_that_run_each_other_end() -> None:
    round_ = loop("round", stage(loop="round"))
    library = Library(definitions={"round": stored(round_)}, roles={})
    assert written_needs(round_, library) == ()
