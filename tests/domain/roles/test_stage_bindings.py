"""The access of each stage: its own, never above what the run allows."""

import pytest

from perdure.domain.roles.definition import LoopDefinition, LoopSnapshot
from perdure.domain.roles.stage_bindings import level_of, level_within, run_level, seat_tools
from perdure.domain.tools.definitions import AccessLevel
from perdure.domain.turns.settings import ToolsSpec


def snapshot(*levels: AccessLevel, nested: LoopSnapshot | None = None) -> LoopSnapshot:
    roles: list[dict[str, object]] = [
        {"name": f"s{number}", "prompt": "p", "access": level}
        for number, level in enumerate(levels)
    ]
    if nested is not None:
        roles.append({"name": "below", "prompt": "p", "loop": "below"})
    definition = LoopDefinition.model_validate(
        {
            "name": "team",
            "roles": roles,
            "termination_condition": {"type": "iteration_bound", "iterations": 1},
        }
    )
    below = {} if nested is None else {"below": nested}
    return LoopSnapshot(definition=definition, version="1", nested=below)


@pytest.mark.parametrize(
    ("own", "run", "expected"),
    [
        ("full", None, "full"),
        ("full", "readonly", "readonly"),
        ("readonly", "full", "readonly"),
        ("readonly-shell", "readonly", "readonly"),
        ("readonly", "readonly-shell", "readonly"),
        ("full", "minimal", "minimal"),
    ],
)
def test_a_run_only_narrows(own: AccessLevel, run: AccessLevel | None, expected: str) -> None:
    tools = ToolsSpec(access=run)
    made = snapshot(own)
    assert level_of(made.definition.roles[0], tools) == expected
    assert run_level(made, tools) == expected


def test_the_run_is_opened_for_its_widest_stage_also_below() -> None:
    made = snapshot("minimal", "readonly", nested=snapshot("readonly", "full"))
    assert run_level(made, ToolsSpec()) == "full"
    assert run_level(made, ToolsSpec(access="readonly")) == "readonly"
    assert level_within(made.nested["below"], ToolsSpec(access="readonly")) == "readonly"
    assert list(seat_tools(made.definition, ToolsSpec())) == ["s0", "s1"]
