"""What is measured is told beforehand: every check in words, but for what is secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.demands import demand
from perdure.domain.evaluation.rubric import Dimension, Rubric
from perdure.domain.refine.prompts import Brief, first_messages, task_text
from perdure.domain.refine.spec import OutputSettings

CHECKS: list[tuple[dict[str, object], str]] = [
    ({"check": "contains", "all": ["oak", "elm"]}, 'it contains "oak" and "elm"'),
    ({"check": "contains", "any": ["oak", "elm"]}, 'it contains one of "oak" or "elm"'),
    ({"check": "contains", "none": ["oak"]}, 'it does not contain "oak"'),
    ({"check": "contains", "all": ["Oak"], "ignore_case": False}, "capitals count"),
    ({"check": "regex", "pattern": r"\d+", "count": 3}, "the pattern `\\d+` at least 3 times"),
    ({"check": "regex", "pattern": "TODO", "count": 0}, "nothing in it matches"),
    ({"check": "length", "unit": "words", "max": 30}, "it has at most 30 words"),
    ({"check": "length", "unit": "chars", "min": 5}, "it has at least 5 characters"),
    ({"check": "length", "unit": "lines", "min": 2, "max": 4}, "it has 2 to 4 lines"),
    ({"check": "length", "unit": "sentences", "min": 2, "max": 2}, "exactly 2 sentences"),
    ({"check": "json_schema", "schema": {"required": ["id"]}}, '{"required": ["id"]}'),
    ({"check": "equals", "value": [1, 2]}, "it is exactly [1, 2]"),
    ({"check": "python", "code": "output.count('a') > 2"}, "`output`: output.count('a') > 2"),
    ({"check": "shop.price", "limit": 9}, 'the check shop.price with {"limit": 9}'),
    ({"check": "command", "argv": ["make", "all"]}, "`make all` ends with exit code 0"),
    ({"check": "tests", "command": ["pytest", "-q"]}, "all tests pass (`pytest -q`)"),
    ({"check": "lint"}, "the linter finds nothing"),
    ({"human": {"prompt": "Would you buy it?"}}, "a person is asked: Would you buy it?"),
]
JUDGED = {"judge": {}}


def one(evaluator: dict[str, object], **fields: object) -> Dimension:
    return Dimension.model_validate({"name": "d", "evaluator": evaluator, **fields})


@pytest.mark.parametrize(("evaluator", "said"), CHECKS, ids=[said for _, said in CHECKS])
def test_a_check_is_put_in_words(evaluator: dict[str, object], said: str) -> None:
    assert said in demand(one(evaluator))
    described = demand(one(evaluator, description="Short enough."))
    assert described.startswith("Short enough: ") and said in described


@pytest.mark.parametrize(("evaluator", "said"), CHECKS, ids=[said for _, said in CHECKS])
def test_what_is_secret_is_not_told(evaluator: dict[str, object], said: str) -> None:
    open_one = {"name": "open", "evaluator": JUDGED, "description": "Be kind."}
    hidden = {"name": "hidden", "evaluator": evaluator, "description": "Ssh", "secret": True}
    task = task_text(Brief("Write."), Rubric.model_validate([open_one, hidden]))
    assert "Be kind." in task
    assert said not in task and "Ssh" not in task


def test_the_first_prompt_lists_every_demand() -> None:
    rubric = Rubric.model_validate(
        [{"name": f"d{n}", "evaluator": check} for n, (check, _) in enumerate(CHECKS)]
    )
    told = first_messages(Brief("Write."), rubric, OutputSettings())[-1].text
    for _, said in CHECKS:
        assert said in told


def test_a_hint_is_the_authors_own_wording() -> None:
    assert demand(one(CHECKS[0][0], hint="Name two trees.")) == "Name two trees."


def test_parts_are_asked_for_with_what_their_checks_demand() -> None:
    rubric = Rubric.model_validate(
        [
            {"name": "a", "evaluator": CHECKS[0][0], "part": 1},
            {"name": "b", "evaluator": CHECKS[6][0]},
        ]
    )
    assert 'Line 1: a: it contains "oak" and "elm".' in task_text(Brief("Write."), rubric)


@given(st.text(min_size=1, max_size=20_000))
def test_a_demand_is_bounded(text: str) -> None:
    assert len(demand(one({"check": "equals", "value": text}))) < 5_000
