"""One mistake in a task hides no other: a wrong kind, a misspelt name, an unsound part."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.adapters.checks.rubric import check_problems
from perdure.domain.foundation.errors import InvalidInput
from perdure.submission.validation import validated

SHORT = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}
BROKEN = {"name": "r", "evaluator": {"check": "regex", "pattern": "(("}}
TIMEOUT = {"type": "timeout", "seconds": 1}
KINDS = {"agent", "refine", "roles", "delegation"}
REFINE = {"kind": "refine", "goal": "g", "rubric": [SHORT]}


def wrong(**fields: Any) -> set[str]:
    """The places that are named as wrong."""
    try:
        validated(fields, rubric_problems=check_problems)
    except InvalidInput as error:
        return {path for path, _ in error.problems}
    return set()


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        pytest.param(
            {"kind": 5, "goal": "g", "gaol": "x", "budget": {"tokns": 1, "tokens": "many"}},
            {"kind", "gaol", "budget.tokns", "budget.tokens"},
            id="a kind of the wrong type",
        ),
        pytest.param(
            {"kind": ["refine"], "goal": "g", "refine": {"max_iterations": 2}, "gaol": "x"},
            {"kind", "gaol"},
            id="what one kind allows is not wrong",
        ),
        pytest.param(
            {"kind": "something else", "goal": 5, "gaol": "x"},
            {"kind", "goal", "gaol"},
            id="a kind that is like no other",
        ),
        pytest.param(
            {"goal": "g", "rubric": {"name": "x"}, "gaol": "x"},
            {"kind", "rubric", "gaol"},
            id="no kind",
        ),
        pytest.param(
            {"kind": "refin", "goal": "g", "gaol": "x", "rubric": [BROKEN]},
            {"kind", "gaol", "rubric[0].evaluator.pattern"},
            id="a misspelt kind",
        ),
        pytest.param(
            REFINE | {"budget": "many", "refine": {"max_iterations": "two", "max_iteration": 2}},
            {"budget", "refine.max_iterations", "refine.max_iteration"},
            id="a wrong type beside a misspelt field",
        ),
        pytest.param(
            REFINE
            | {"rubric": [{"name": "b", "evaluator": {"check": "lenth", "mx": 3, "max": "x"}}]},
            {
                "rubric[0].evaluator",
                "rubric[0].evaluator.mx",
                "rubric[0].evaluator.max",
                "rubric[0].evaluator.unit",
            },
            id="a misspelt check",
        ),
        pytest.param(
            REFINE | {"refine": {"termination": {"type": "timeot", "secods": 4}}},
            {"refine.termination.type", "refine.termination.secods", "refine.termination.seconds"},
            id="a misspelt condition",
        ),
        pytest.param(
            REFINE
            | {
                "refine": {
                    "termination": {
                        "type": "combined",
                        "operator": "or",
                        "conditions": [
                            {"type": "timeout", "seconds": 1},
                            {"type": "timeot", "x": 1},
                        ],
                    }
                }
            },
            {
                "refine.termination.conditions[1].type",
                "refine.termination.conditions[1].x",
                "refine.termination.conditions[1].seconds",
            },
            id="a misspelt condition below another",
        ),
        pytest.param(
            REFINE | {"gaol": "x", "rubric": [{"nam": "a"}, SHORT, BROKEN]},
            {
                "gaol",
                "rubric[0].nam",
                "rubric[0].name",
                "rubric[0].evaluator",
                "rubric[2].evaluator.pattern",
            },
            id="a pattern that cannot be used, beside a dimension that is none",
        ),
        pytest.param(
            REFINE | {"gaol": "x", "refine": {"pattern": "strategies"}},
            {"gaol", "refine.strategies"},
            id="settings that do not fit together",
        ),
        pytest.param(
            {"kind": "delegation", "goal": "g", "gaol": "x", "rubric": [SHORT | {"part": 1}]},
            {"gaol", "rubric[0].part"},
            id="a part that a manager's run has not",
        ),
        pytest.param(
            {"kind": "agent", "goal": "g", "hooks": {"on_iteration": 5, "on_ed": 3}},
            {"hooks.on_iteration", "hooks.on_ed"},
            id="hooks",
        ),
        pytest.param(REFINE, set[str](), id="nothing"),
    ],
)
def test_every_problem_is_named(fields: dict[str, Any], places: set[str]) -> None:
    assert wrong(**fields) == places


@given(kind=st.one_of(st.none(), st.integers(), st.text(max_size=8), st.lists(st.text())))
def test_an_unknown_kind_is_the_only_problem_of_what_some_kind_allows(kind: Any) -> None:
    assume(not isinstance(kind, str) or kind not in KINDS)
    assert wrong(kind=kind, goal="g", metadata={"label": "x"}, budget={"tokens": 5}) <= {
        "kind",
        "rubric",  # of a misspelt `refine`
        "roles",
    }


@pytest.mark.parametrize(
    ("fields", "place", "words"),
    [
        ({"max_iterations": 3}, "max_iterations", "Did you mean refine.max_iterations?"),
        ({"quality_threshold": 0.8}, "quality_threshold", "refine.quality_threshold?"),
        ({"cost_usd": 1}, "cost_usd", "Did you mean budget.cost_usd?"),
        ({"executor": "local"}, "executor", "Did you mean models.executor?"),
        ({"profile": "agent"}, "profile", "Did you mean agent.profile?"),
        ({"refine": {"budget": {}}}, "refine.budget", "Did you mean budget at the top level?"),
        ({"model": "local"}, "model", "Did you mean models?"),
        ({"refine": {"patence": 3}}, "refine.patence", "Did you mean patience?"),
        ({"tools": ["fs.read"]}, "tools", "an object with named fields: access, allow"),
        ({"budget": 2}, "budget", "an object with named fields: active_time, cost_usd"),
    ],
)
def test_what_stands_in_a_wrong_place_is_told_with_the_right_one(
    fields: dict[str, Any], place: str, words: str
) -> None:
    task: dict[str, Any] = {**REFINE, **fields}
    with pytest.raises(InvalidInput) as refused:
        validated(task, rubric_problems=check_problems)
    (said,) = [said for path, said in refused.value.problems if path == place]
    assert words in said
