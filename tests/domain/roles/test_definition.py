"""Loop definitions: what may stand in one, and what is said about what may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.evaluation.termination_conditions import (
    EvaluationBound,
    GoalBound,
    IterationBound,
    Manual,
    TimeBound,
    ToolBound,
)
from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.roles.parse_definition import content_version, owned_problems, read_definition

SEED = {
    "name": "docs-review",
    "description": "Documentation writer-reviewer cycle",
    "roles": [
        {"name": "write", "role": "coder", "prompt": "Write.", "order": 0},
        {"name": "review", "role": "reviewer", "prompt": "Review.", "order": 1},
    ],
    "termination_condition": {
        "type": "evaluation_bound",
        "value": {"criteria": "Complete and accurate", "max_review_rounds": 3},
    },
}


def read(**changes: object) -> LoopDefinition:
    found = read_definition({**SEED, **changes})  # type: ignore[dict-item]
    assert isinstance(found, LoopDefinition), [str(one) for one in found]
    return found


def said(**changes: object) -> list[str]:
    found = read_definition({**SEED, **changes})  # type: ignore[dict-item]
    assert isinstance(found, tuple)
    return [str(problem) for problem in found]


def role(**fields: object) -> dict[str, object]:
    return {"role": "coder", "prompt": "Do it.", **fields}


def test_the_seed_is_read_as_it_is_written() -> None:
    found = read()
    assert [(one.name, one.role) for one in found.roles] == [
        ("write", "coder"),
        ("review", "reviewer"),
    ]
    bound = EvaluationBound(
        type="evaluation_bound", criteria="Complete and accurate", max_review_rounds=3
    )
    assert found.termination_condition == bound
    assert (found.review_stage.name, found.criteria) == ("review", "Complete and accurate")
    assert LoopDefinition.model_validate_json(found.model_dump_json()) == found


CONDITIONS = {
    "review by text": (
        {"type": "evaluation_bound", "value": "It works"},
        EvaluationBound(type="evaluation_bound", criteria="It works", max_review_rounds=5),
    ),
    "review by number": ({"type": "evaluation_bound", "value": 4}, 4),
    "review by numeric text": ({"type": "evaluation_bound", "value": "4"}, 4),
    "goal by number": (
        {"type": "goal_bound", "value": 7},
        GoalBound(type="goal_bound", max_iterations=7),
    ),
    "iterations": (
        {"type": "iteration_bound", "value": "5"},
        IterationBound(type="iteration_bound", iterations=5),
    ),
    "iterations by the seed's name": (
        {"type": "iteration_bound", "max_iterations": 5},
        IterationBound(type="iteration_bound", iterations=5),
    ),
    "iterations as object": (
        {"type": "iteration_bound", "value": {"max_iterations": 5}},
        IterationBound(type="iteration_bound", iterations=5),
    ),
    "seconds": ({"type": "time_bound", "value": 3600}, TimeBound(type="time_bound", seconds=3600)),
    "seconds as text": (
        {"type": "time_bound", "value": "2.5"},
        TimeBound(type="time_bound", seconds=2.5),
    ),
    "manual": ({"type": "manual"}, Manual(type="manual")),
    "manual with nothing": ({"type": "manual", "value": None}, Manual(type="manual")),
    "tool": (
        {"type": "tool_bound", "tool": "t", "operator": ">=", "value": 3},
        ToolBound(type="tool_bound", tool="t", operator=">=", value=3),
    ),
    "tool as object": (
        {"type": "tool_bound", "value": {"tool": "t", "operator": "<", "value": 3}},
        ToolBound(type="tool_bound", tool="t", operator="<", value=3),
    ),
}


@pytest.mark.parametrize(("written", "meant"), CONDITIONS.values(), ids=CONDITIONS)
def test_the_short_form_of_a_condition(written: dict[str, object], meant: object) -> None:
    found = read(termination_condition=written).termination_condition
    if isinstance(found, EvaluationBound) and isinstance(meant, int):
        assert (found.max_review_rounds, bool(found.criteria)) == (meant, True)
    else:
        assert found == meant


def test_a_moment_ends_a_loop() -> None:
    found = read(termination_condition={"type": "time_bound", "value": "2026-05-01T12:00:00Z"})
    assert isinstance(found.termination_condition, TimeBound)
    assert found.termination_condition.until is not None


def test_short_forms_stand_in_combinations() -> None:
    tree = {
        "type": "combined",
        "operator": "OR",
        "conditions": [{"type": "goal_bound", "value": 3}, {"type": "time_bound", "value": "60"}],
    }
    found = read(termination_condition=tree)
    assert found.model_dump()["termination_condition"]["conditions"][0]["max_iterations"] == 3


REFUSED = {
    "no roles": ({"roles": []}, "roles: found []; allowed: at least one."),
    "an order for some": (
        {"roles": [role(name="a", order=1), role(name="b")]},
        "an order for every role or for none (missing: b)",
    ),
    "an order twice": (
        {"roles": [role(name="a", order=1), role(name="b", order=1)]},
        "each order once (more than once: 1)",
    ),
    "a name twice": ({"roles": [role(), role()]}, "each name once"),
    "two gates": (
        {"roles": [role(name="a", gate=True), role(name="b", gate=True)]},
        "at most one gate (found: a, b)",
    ),
    "too large shares": (
        {"roles": [role(name="a", budget=0.7), role(name="b", budget=0.7)]},
        "budget shares of at most 1 together",
    ),
    "a share of zero": ({"roles": [role(budget=0)]}, "roles[0].budget: found 0"),
    "an empty prompt": (
        {"roles": [role(prompt="  ")]},
        'roles[0].prompt: found "  "; allowed: a text that is not empty.',
    ),
    "neither name nor role": ({"roles": [{"prompt": "p"}]}, "roles[0].name: found nothing"),
    "a wrong name of a role": ({"roles": [role(name="A b")]}, "roles[0].name"),
    "a wrong name": ({"name": "Docs Review"}, 'name: found "Docs Review"; allowed: a lower-case'),
    "a typo": ({"rols": []}, "Did you mean roles?"),
    "a typo in a role": ({"roles": [role(promt="x")]}, "Did you mean prompt?"),
    "a typo in a condition": (
        {"termination_condition": {"type": "goal_bond"}},
        "Did you mean goal_bound?",
    ),
    "a condition on scores": (
        {"termination_condition": {"type": "confidence", "threshold": 0.5}},
        "a condition that needs no scores",
    ),
    "a condition as text": (
        {"termination_condition": "manual"},
        'termination_condition: found "manual"; allowed: a block of fields.',
    ),
    "an unknown access": ({"roles": [role(access="all")]}, "roles[0].access"),
    "an unknown capability": ({"requires": ["artefacts"]}, "requires[0]"),
    "a parameter that is no identifier": ({"parameters": [{"name": "a-b"}]}, "parameters[0].name"),
    "a parameter twice": ({"parameters": [{"name": "a"}, {"name": "a"}]}, "each name once"),
    "an optional one without default": (
        {"parameters": [{"name": "a", "required": False}]},
        "needs a default",
    ),
    "a default that is no choice": (
        {"parameters": [{"name": "a", "default": "x", "choices": ["y", "z"]}]},
        "a default out of y, z",
    ),
    "a limit of which no value is known": (
        {
            "parameters": [{"name": "n"}],
            "termination_condition": {"type": "goal_bound", "value": "{{n}}"},
        },
        'found "{{n}}"; allowed: a whole number',
    ),
    "an unknown placeholder": (
        {"roles": [role(prompt="At {{dept}}.")], "parameters": [{"name": "depth"}]},
        "roles[0].prompt: found the placeholder {{dept}}; allowed: one of depth. "
        "Did you mean depth?",
    ),
    "a placeholder without parameters": (
        {"description": "{{x}}"},
        "description: found the placeholder {{x}}; allowed: no placeholder; "
        "no parameter is declared.",
    ),
    "a loop and a gate": ({"roles": [role(loop="harness", gate=True)]}, "gate on a stage"),
    "a loop with access": ({"roles": [role(loop="a", access="readonly")]}, "access on a stage"),
    "a loop with tools": (
        {"roles": [role(loop={"kind": "delegation"}, tools=[], model="m")]},
        "model, tools on a stage",
    ),
    "a loop without a name": ({"roles": [role(loop={"kind": "roles"})]}, "roles[0].loop"),
    "a loop that reviews": (
        {"roles": [role(name="a"), role(name="b", loop="harness")]},
        "termination_condition: found evaluation_bound, with the loop b as the stage that reviews",
    ),
    "a loop that reviews, in a tree": (
        {
            "roles": [role(loop="harness")],
            "termination_condition": {
                "type": "combined",
                "operator": "or",
                "conditions": [{"type": "evaluation_bound"}, {"type": "manual"}],
            },
        },
        "or with `gate: true`, or a condition such as goal_bound",
    ),
    "no model": ({"roles": [role(model=[])]}, "the name of a model"),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said_with_its_place(changes: dict[str, object], expected: str) -> None:
    assert expected in "\n".join(said(**changes))


def test_every_problem_is_named_at_once() -> None:
    found = said(
        name="Bad",
        roles=[role(order="x"), role(name="b", prompt="", ordr=1)],
        termination_condition={"type": "goal_bound", "value": "soon"},
        requires=["artefacts"],
    )
    assert len(found) == 6, found


def test_order_rules_and_list_order_otherwise() -> None:
    ordered = read(roles=[role(name="b", order=2), role(name="a", order=-1)])
    assert [one.name for one in ordered.roles] == ["a", "b"]
    listed = read(roles=[role(name="b"), role(name="a")])
    assert [one.name for one in listed.roles] == ["b", "a"]


def test_names_default_to_roles_and_the_reverse() -> None:
    found = read(roles=[{"role": "plan", "prompt": "p"}, {"name": "review", "prompt": "p"}])
    assert [(one.name, one.role) for one in found.roles] == [("plan", "plan"), ("review", "review")]


def test_a_stage_may_be_a_loop() -> None:
    found = read(
        roles=[
            {"prompt": "p", "loop": "research"},
            role(loop={"kind": "delegation"}, access="readonly"),
            role(name="review"),
        ]
    )
    first, second, _ = found.roles
    assert first.loop is not None
    assert (first.name, first.loop.definition) == ("research", "research")
    assert second.loop is not None
    assert (second.name, second.loop.kind) == ("coder", "delegation")


@pytest.mark.parametrize(
    "changes",
    [
        {"roles": [role(name="a", gate=True), role(name="b", loop="harness")]},
        {
            "roles": [role(loop="harness")],
            "termination_condition": {"type": "goal_bound", "value": 2},
        },
    ],
    ids=["beside a gate", "judged"],
)
def test_a_loop_may_come_last_where_it_reviews_nothing(changes: dict[str, object]) -> None:
    assert read(**changes).roles[-1].loop is not None


@pytest.mark.parametrize(
    "parameter", [{"default": 2}, {"choices": [2, 3]}, {"choices": [3, 2], "default": 2}]
)
def test_a_limit_may_be_a_parameter(parameter: dict[str, object]) -> None:
    found = read(
        parameters=[{"name": "rounds", **parameter}, {"name": "level", "choices": ["readonly"]}],
        roles=[role(access="{{level}}")],
        termination_condition={"type": "goal_bound", "max_iterations": "{{rounds}}"},
    )
    assert found.termination_condition == GoalBound(type="goal_bound", max_iterations=2)
    assert found.roles[0].access == "readonly"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(value=ANYTHING)
def test_any_data_is_read_or_refused_in_words(value: JsonValue) -> None:
    found = read_definition(value)
    assert isinstance(found, LoopDefinition) or all(str(problem) for problem in found)
    for name in SEED:
        changed = read_definition({**SEED, name: value})  # type: ignore[dict-item]
        assert changed


def test_a_version_follows_the_content_alone() -> None:
    turned: dict[str, JsonValue] = dict(reversed(SEED.items()))  # type: ignore[arg-type]
    assert content_version(turned) == content_version(SEED)  # type: ignore[arg-type]
    assert content_version({**turned, "name": "b"}) != content_version(turned)


def test_what_the_server_sets_is_refused() -> None:
    given = {**SEED, "version": "1", "etag": "x"}
    assert [one.path for one in owned_problems(given)] == ["version", "etag"]  # type: ignore[arg-type]
    assert owned_problems([]) == ()


def test_a_condition_may_be_left_out_and_the_criteria_say_that_they_are_assumed() -> None:
    bare = {name: value for name, value in SEED.items() if name != "termination_condition"}
    found = read_definition(bare)  # type: ignore[arg-type]
    assert isinstance(found, LoopDefinition)
    assert found.termination_condition.type == "evaluation_bound"
    assert found.assumes_criteria and found.criteria
    assert read(termination_condition={"type": "evaluation_bound"}).assumes_criteria
    assert not read().assumes_criteria


BARE = {"type": "evaluation_bound"}
ROUNDS = {"type": "iteration_bound", "iterations": 3}


@pytest.mark.parametrize(
    ("condition", "assumed"),
    [
        ({"type": "evaluation_bound", "value": {}}, True),
        ({"type": "evaluation_bound", "value": {"max_review_rounds": 2}}, True),
        ({"type": "evaluation_bound", "max_review_rounds": 2}, True),
        ({"type": "evaluation_bound"}, True),
        ({"type": "combined", "operator": "or", "conditions": [BARE, ROUNDS]}, True),
        ({"type": "evaluation_bound", "criteria": "It is short."}, False),
        (ROUNDS, False),
    ],
    ids=[
        "a word",
        "an empty value",
        "rounds alone",
        "flat",
        "one of several",
        "given",
        "no review",
    ],
)
def test_only_criteria_that_nobody_gave_are_assumed(condition: object, *, assumed: bool) -> None:
    found = read(termination_condition=condition)
    assert found.assumes_criteria is assumed
    assert bool(found.criteria) is (assumed or "short" in str(condition))
