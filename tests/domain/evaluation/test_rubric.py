"""Rubrics: what is accepted, what is refused with which message, defaults and the digest."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from perdure.domain.evaluation.checks import JsonSchemaCheck, PluginCheck
from perdure.domain.evaluation.program_checks import TestsCheck
from perdure.domain.evaluation.rubric import Dimension, Rubric
from perdure.domain.foundation.problems import problems_of

LENGTH = {"check": "length", "unit": "words", "max": 9}
WORDS = {"name": "short", "evaluator": LENGTH}
TONE = {"name": "tone", "evaluator": {"judge": {}}}
HUMAN = {"name": "liked", "evaluator": {"human": {"prompt": "Do you like it?"}}}
SUITE = {"name": "suite", "evaluator": {"check": "tests"}}
LINT = {"name": "clean", "evaluator": {"check": "lint", "command": "ruff check"}}
CODE = {"name": "counted", "evaluator": {"check": "python", "code": "len(output) > 3"}}
PLUGIN = {"name": "spelt", "evaluator": {"check": "acme.spelling", "language": "en", "most": 2}}


def refused(*dimensions: Mapping[str, object]) -> list[str]:
    value = list(dimensions)
    with pytest.raises(ValidationError) as raised:
        Rubric.model_validate(value)
    return [str(problem) for problem in problems_of(raised.value, value, root="rubric")]


@pytest.mark.parametrize(
    ("evaluator", "message"),
    [
        pytest.param({"check": "contain"}, "did you mean contains?", id="typo"),
        pytest.param({"check": "phyton"}, "did you mean python?", id="typo of python"),
        pytest.param({"humane": {}}, "did you mean human?", id="typo of human"),
        pytest.param(
            {"check": "contains", "all": ["a"], "judge": {}},
            "not judge and check at once",
            id="two",
        ),
        pytest.param({"human": {}, "judge": {}}, "not judge and human at once", id="two others"),
        pytest.param({"check": "Acme Spelling"}, "cannot be evaluated", id="no plugin's name"),
        pytest.param({"check": "python", "code": "(1"}, "line 1", id="python"),
        pytest.param({"check": "python", "code": "x = 1"}, "an expression over", id="statement"),
        pytest.param(
            {"check": "python", "code": "def check(a, b): return True"},
            "a function of the output, or of the output and `adaptation`",
            id="two arguments",
        ),
        pytest.param({"check": "command", "argv": []}, "a program and its", id="no program"),
        pytest.param({"check": "command", "argv": "./run.sh"}, "without folders", id="a path"),
        pytest.param({"check": "command", "argv": "sh 'a"}, "closed quotes", id="open quote"),
        pytest.param({"check": "command"}, "rubric[0].evaluator.argv: found nothing", id="argv"),
        pytest.param({"check": "tests", "command": []}, "a program and its", id="no test program"),
        pytest.param(
            {"check": "lint", "timeout_s": 0}, "rubric[0].evaluator.timeout_s", id="no time"
        ),
        pytest.param({"human": {"promt": ""}}, "rubric[0].evaluator.human.promt", id="field"),
        pytest.param({}, "check: one of contains, regex, length, json_schema, equals", id="empty"),
        pytest.param({"check": "contains"}, "at least one term", id="no terms"),
        pytest.param({"check": "contains", "all": [""]}, "no empty ones", id="empty term"),
        pytest.param({"check": "length", "unit": "words"}, "min, max or both", id="no bound"),
        pytest.param({**LENGTH, "min": 10}, "min at most as large as max", id="crossed bounds"),
        pytest.param({**LENGTH, "unit": "pages"}, "rubric[0].evaluator.unit", id="unit"),
        pytest.param(
            {"check": "regex"}, "rubric[0].evaluator.pattern: found nothing", id="pattern"
        ),
        pytest.param({"judge": {"model": ""}}, "rubric[0].evaluator.judge.model", id="judge"),
    ],
)
def test_evaluators_that_are_refused(evaluator: Mapping[str, object], message: str) -> None:
    messages = refused({"name": "a", "evaluator": evaluator})
    assert len(messages) == 1
    assert message in messages[0]


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [
        pytest.param((), "at least one dimension", id="empty"),
        pytest.param((WORDS, TONE, WORDS), "more than once: short", id="name twice"),
        pytest.param(({**WORDS, "weight": -1},), "rubric[0].weight: found -1", id="weight"),
        pytest.param(({**TONE, "decides": True},), "decides on a check only", id="judge decides"),
        pytest.param(({**TONE, "part": 1},), "part on a check only", id="judge of a part"),
        pytest.param(({**HUMAN, "decides": True},), "decides on a check only", id="human decides"),
        pytest.param(({**SUITE, "part": 1},), "part on a check only", id="tests of a part"),
        pytest.param(({**WORDS, "part": 0},), "rubric[0].part: found 0", id="part 0"),
    ],
)
def test_rubrics_that_are_refused(
    dimensions: tuple[Mapping[str, object], ...], message: str
) -> None:
    assert any(message in text for text in refused(*dimensions))


def test_every_problem_is_told_at_once() -> None:
    assert len(refused({"name": "a"}, {**WORDS, "weight": -1}, {**TONE, "weightt": 1})) == 3


def test_digest_follows_the_meaning() -> None:
    rubric = Rubric.model_validate([WORDS, TONE])
    assert Rubric.model_validate_json(rubric.model_dump_json()).digest == rubric.digest
    assert Rubric.model_validate([TONE, WORDS]).digest != rubric.digest
    assert Rubric.model_validate([{**WORDS, "weight": 2}, TONE]).digest != rubric.digest


def test_a_schema_check_survives_the_round_trip() -> None:
    schema = {"check": "json_schema", "schema": {"type": "object"}}
    rubric = Rubric.model_validate([{"name": "shape", "evaluator": schema}])
    again = Rubric.model_validate(rubric.model_dump())
    assert isinstance(again.dimensions[0].evaluator, JsonSchemaCheck)
    assert again == rubric


def test_parts_and_examples() -> None:
    example = {"ask": "Name it.", "answer": "Name: Blanket"}
    rubric = Rubric.model_validate(
        [
            {**WORDS, "part": 2},
            {"name": "other", "evaluator": LENGTH, "part": 2, "example": example},
            TONE,
        ]
    )
    assert rubric.parts == (2,)
    assert [item.name for item in rubric.of_part(2)] == ["short", "other"]
    found = rubric.example_of(2)
    assert found is not None
    assert found.answer == "Name: Blanket"
    assert rubric.example_of(1) is None
    assert [item.name for item in rubric.judged] == ["tone"]


@pytest.mark.parametrize(
    ("dimension", "score", "threshold", "passes"),
    [
        pytest.param(WORDS, 0.99, 0.8, False, id="a check passes at 1 only"),
        pytest.param(WORDS, 1.0, None, True, id="check"),
        pytest.param(TONE, 0.8, 0.8, True, id="judge at the threshold"),
        pytest.param(TONE, 0.99, None, False, id="judge without a threshold"),
        pytest.param(TONE, None, 0.8, False, id="no score"),
        pytest.param(HUMAN, 0.8, 0.8, True, id="a person at the threshold"),
        pytest.param(SUITE, 0.99, 0.8, False, id="tests pass all or not"),
    ],
)
def test_passes(
    dimension: Mapping[str, object], score: float | None, threshold: float | None, passes: bool
) -> None:
    assert Dimension.model_validate(dimension).passes(score, threshold) is passes


def test_the_evaluators_by_who_runs_them() -> None:
    rubric = Rubric.model_validate([WORDS, TONE, HUMAN, SUITE, LINT, CODE, PLUGIN])
    groups = (rubric.checks, rubric.judged, rubric.human, rubric.verified)
    assert [[item.name for item in group] for group in groups] == [
        ["short", "counted", "spelt"],
        ["tone"],
        ["liked"],
        ["suite", "clean"],
    ]
    assert [item.source for item in rubric.dimensions[:4]] == ["check", "judge", "human", "check"]
    assert [item.effective_weight for item in rubric.dimensions] == [1, 1, 1, 0.3, 0.2, 1, 1]


def test_a_plugins_parameters_survive_the_round_trip() -> None:
    rubric = Rubric.model_validate([PLUGIN])
    check = Rubric.model_validate_json(rubric.model_dump_json()).dimensions[0].pure_check
    assert isinstance(check, PluginCheck)
    assert (check.check, check.parameters) == ("acme.spelling", {"language": "en", "most": 2})


def test_judged_dimensions_are_grouped_by_their_model() -> None:
    other = {"judge": {"model": "other"}}
    rubric = Rubric.model_validate(
        [TONE, {"name": "facts", "evaluator": other}, {"name": "depth", "evaluator": other}]
    )
    assert rubric.judges == {None: ("tone",), "other": ("facts", "depth")}
    assert rubric.model_dump(mode="json")[0]["evaluator"] == {"judge": {}}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("python -m pytest 'a b'", ("python", "-m", "pytest", "a b"), id="one line"),
        pytest.param(["npm", "test"], ("npm", "test"), id="words"),
        pytest.param(None, None, id="to be detected"),
    ],
)
def test_commands_are_words(command: object, words: tuple[str, ...] | None) -> None:
    evaluator = {"check": "tests", "command": command}
    check = Dimension.model_validate({"name": "a", "evaluator": evaluator}).evaluator
    assert isinstance(check, TestsCheck)
    assert check.command == words
