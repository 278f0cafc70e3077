"""What in a specification needs the scope `execute`, and what does not."""

import pytest
from pydantic import JsonValue

from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.trust_requirements import execution_needs, snapshot_needs

Spec = dict[str, JsonValue]


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        ({"rubric": [{"evaluator": {"check": "command"}}]}, ("rubric[0].evaluator.check",)),
        ({"rubric": [{"evaluator": {"check": "tests"}}]}, ("rubric[0].evaluator.check",)),
        ({"rubric": [{"evaluator": {"check": "lint"}}]}, ("rubric[0].evaluator.check",)),
        ({"tools": {"access": "full"}}, ("tools.access",)),
        ({"tools": {"allow": ["fs.*", "shell.full"]}}, ("tools.allow",)),
        ({"tools": {"allow": ["shell.*"]}}, ("tools.allow",)),
        ({"tools": {"allow": ["*"]}}, ("tools.allow",)),
        ({"tools": {"allow": ["loop_*"]}}, ("tools.allow",)),
        ({"tools": {"allow": ["loop.start"]}}, ("tools.allow",)),
        ({"delegation": {"smoke_test": ["make"]}}, ("delegation.smoke_test",)),
        ({"tools": {"mcp": [{"command": ["npx", "x"]}]}}, ("tools.mcp",)),
        ({"tools": {"mcp": ["git"]}}, ("tools.mcp",)),
        ({"tools": {"mcp": [{"url": "https://a.b"}]}}, ("tools.mcp",)),
        ({"models": {"base_url": "https://a.b"}}, ("models.base_url",)),
        ({"roles": [{"name": "coder", "access": "full"}]}, ("roles[0].access",)),
        (
            {"delegation": {"delegations": [{"tools": ["shell.full"]}]}},
            ("delegation.delegations[0].tools",),
        ),
    ],
)
def test_programs_shells_and_addresses_are_found(spec: Spec, places: tuple[str, ...]) -> None:
    assert execution_needs(spec) == places


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"goal": "run the command", "context": {"command": "rm", "access": "full"}},
        {"metadata": {"url": "https://a.b"}},
        {"tools": {"access": "readonly", "allow": ["fs.read"], "mcp": []}},
        {"rubric": [{"name": "command", "evaluator": {"check": "contains", "all": ["tests"]}}]},
        {"rubric": [{"evaluator": {"check": "python", "code": "True"}}]},
        {"tools": {"allow": ["loop_status", "loop_list"]}},
        {"delegation": {"smoke_test": None}},
        {"models": {"base_url": None, "executor": "claude-sonnet-4-5"}},
    ],
)
def test_what_is_harmless_needs_nothing(spec: Spec) -> None:
    assert execution_needs(spec) == ()


def loop(name: str, **role: JsonValue) -> dict[str, JsonValue]:
    """A definition of one stage."""
    return {
        "name": name,
        "roles": [{"role": "writer", **role}],
        "termination_condition": {"type": "iteration_bound", "iterations": 1},
    }


@pytest.mark.parametrize("stage", ["inner", "context", "goal", "system", "prompt", "metadata"])
def test_a_stage_hides_nothing_behind_its_name(stage: str) -> None:
    inner: Spec = {"definition": loop("deep", prompt="do it", access="full"), "version": "1"}
    named: Spec = {stage: inner}
    outer: Spec = {"definition": loop("outer", prompt="say it"), "version": "1", "nested": named}
    assert snapshot_needs(LoopSnapshot.model_validate(outer)) == (f"{stage}.roles[0].access",)
    place = f"roles.snapshot.nested.{stage}.definition.roles[0].access"
    assert execution_needs({"kind": "roles", "roles": {"snapshot": outer}}) == (place,)
